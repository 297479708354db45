#include "profiler-agent/passive/passive_windows.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace parplan {
namespace {

constexpr char kEnding[] = ".window.json";

const char* NameOf(PassiveOperation operation) {
  switch (operation) {
    case PassiveOperation::kAllReduce:
      return "COLLECTIVE_ALL_REDUCE";
    case PassiveOperation::kAllGather:
      return "COLLECTIVE_ALL_GATHER";
    case PassiveOperation::kReduceScatter:
      return "COLLECTIVE_REDUCE_SCATTER";
    case PassiveOperation::kAllToAll:
      return "COLLECTIVE_ALL_TO_ALL";
    case PassiveOperation::kSendReceive:
      return "COLLECTIVE_SEND_RECEIVE";
    case PassiveOperation::kBroadcast:
      return "COLLECTIVE_BROADCAST";
  }
  return "COLLECTIVE_UNSPECIFIED";
}

// Returns the smallest value that at least this percentage of values does not exceed.
int64_t Percentile(std::vector<int64_t> values, int percent) {
  const size_t place = (values.size() * percent + 99) / 100 - 1;
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[place];
}

// Returns a duration in the JSON form of google.protobuf.Duration.
std::string Seconds(int64_t nanoseconds) {
  char text[48];
  std::snprintf(text, sizeof(text), "\"%" PRId64 ".%09" PRId64 "s\"", nanoseconds / 1000000000,
                nanoseconds % 1000000000);
  return text;
}

int WaitingFiles(const std::string& folder) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const size_t length = sizeof(kEnding) - 1;
    if (name.size() > length && name.compare(name.size() - length, length, kEnding) == 0) ++count;
  }
  return count;
}

bool WriteAll(int file, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t size = ::write(file, text.data() + written, text.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    written += static_cast<size_t>(size);
  }
  return true;
}

}  // namespace

void PassiveWindow::Add(const PassiveSample& sample) {
  auto found = shapes_.find(sample.shape);
  if (found == shapes_.end()) {
    if (shapes_.size() >= kMaxShapes) {
      ++lost_count_;
      return;
    }
    found = shapes_.emplace(sample.shape, Durations()).first;
  }
  Durations& durations = found->second;
  if (durations.nanoseconds.size() < kMaxDurations) {
    durations.nanoseconds.push_back(sample.nanoseconds);
  } else {
    durations.nanoseconds[durations.count % kMaxDurations] = sample.nanoseconds;
  }
  ++durations.count;
}

std::string PassiveWindow::ToJson(int rank, int64_t number) const {
  std::string json = "{\n  \"rank\": " + std::to_string(rank) + ",\n  \"firstStep\": \"" +
                     std::to_string(number) + "\",\n  \"collectiveTimings\": [";
  const char* separator = "\n";
  for (const auto& [shape, durations] : shapes_) {
    json += separator;
    json += std::string("    {\"collective\": \"") + NameOf(shape.operation) + "\"";
    json += ", \"participantCount\": " + std::to_string(shape.participant_count);
    json += ", \"rankStride\": " + std::to_string(shape.rank_stride);
    json += ", \"messageSizeBytes\": \"" + std::to_string(shape.size_bytes) + "\"";
    json += ", \"medianDuration\": " + Seconds(Percentile(durations.nanoseconds, 50));
    json += ", \"p90Duration\": " + Seconds(Percentile(durations.nanoseconds, 90));
    json += ", \"sampleCount\": " + std::to_string(std::min<int64_t>(durations.count, INT32_MAX));
    json += ", \"origin\": \"ORIGIN_MEASURED\"}";
    separator = ",\n";
  }
  return json + "\n  ]\n}\n";
}

bool LeaveFile(const std::string& folder, const std::string& name, const std::string& text,
               int max_files) {
  if (WaitingFiles(folder) >= max_files) return false;
  const std::string path = folder + "/" + name + kEnding;
  const std::string staged = path + ".new";
  // Users of other jobs may write to the folder too: a link of theirs must not lead this process to
  // a file of its own user.
  ::unlink(staged.c_str());
  const int file =
      ::open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const bool is_written = WriteAll(file, text);
  if (::close(file) != 0 || !is_written || std::rename(staged.c_str(), path.c_str()) != 0) {
    ::unlink(staged.c_str());
    return false;
  }
  return true;
}

}  // namespace parplan
