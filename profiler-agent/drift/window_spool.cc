#include "profiler-agent/drift/window_spool.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"
#include "parplan/v1/execution.pb.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

constexpr char kEnding[] = ".window.json";
constexpr size_t kMaxFileBytes = size_t{1} << 20;

bool ReadWindow(const std::string& path, v1::MeasuredWindow& window) {
  // Never blocks, even if a job replaces the file by a pipe meanwhile.
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxFileBytes});
  return text.ok() && ParseJson(*text, path, &window).ok();
}

}  // namespace

std::vector<v1::CollectiveTiming> WindowSpool::Take() {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::EndsWith(entry->path().string(), kEnding)) paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<v1::CollectiveTiming> timings;
  int taken_count = 0;
  has_more_ = false;
  for (const std::string& path : paths) {
    if (taken_count == kMaxFilesAtOnce) {
      has_more_ = true;
      break;
    }
    v1::MeasuredWindow window;
    if (!ReadWindow(path, window)) {
      if (std::rename(path.c_str(), absl::StrCat(path, ".refused").c_str()) != 0) continue;
      ++refused_count_;
      ++taken_count;
      continue;
    }
    if (::unlink(path.c_str()) != 0) continue;
    ++taken_count;
    timings.insert(timings.end(), window.collective_timings().begin(),
                   window.collective_timings().end());
  }
  return timings;
}

}  // namespace parplan
