#include "executor/device/backend/machine_use.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

// Counters of a line of /proc/stat, in the order of proc(5). Those that follow count guests,
// whose time is in `user` and `nice` already.
enum StatColumn { kUser, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal, kColumnCount };

// Share of the elapsed time that the counters of a processor must account for; below this share the
// counters are ignored. A kernel's counters account for all of it but a tick each; in gVisor they
// never advance.
constexpr double kAccountedShare = 0.5;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

absl::Duration SystemProcessTime() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

std::vector<int> ProcessorsOfThisThread() {
  std::vector<int> processors;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  }
  return processors;
}

// Reads the lines `cpuN ...` of /proc/stat.
std::map<int, ProcessorTime> ParseStat(absl::string_view stat) {
  const absl::Duration tick = absl::Seconds(1) / ::sysconf(_SC_CLK_TCK);
  std::map<int, ProcessorTime> processors;
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int processor = 0;
    if (words.size() < 1 + kColumnCount || !absl::StartsWith(words[0], "cpu") ||
        !absl::SimpleAtoi(words[0].substr(3), &processor)) {
      continue;
    }
    int64_t ticks[kColumnCount] = {};
    for (int k = 0; k < kColumnCount; ++k) (void)absl::SimpleAtoi(words[1 + k], &ticks[k]);
    ProcessorTime& time = processors[processor];
    time.busy =
        tick * (ticks[kUser] + ticks[kNice] + ticks[kSystem] + ticks[kIrq] + ticks[kSoftIrq]);
    time.stolen = tick * ticks[kSteal];
    time.total = time.busy + time.stolen + tick * (ticks[kIdle] + ticks[kIoWait]);
  }
  return processors;
}

// Returns the number in the first line of `text` that begins with `key` and a space.
std::optional<int64_t> FindCounter(absl::string_view text, absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t number = 0;
    if (words.size() == 2 && words[0] == key && absl::SimpleAtoi(words[1], &number)) return number;
  }
  return std::nullopt;
}

// Returns for how long this process's control group was stopped, from version 2 of control groups
// or version 1. A container may see the path of its group from outside: its own is the root then.
std::optional<absl::Duration> ReadThrottled(const std::string& root) {
  const std::string groups = ReadText(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    // Number, controllers and path: `0::/user.slice` or `4:cpu,cpuacct:/job`.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_unified = parts[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (!is_unified && !absl::c_linear_search(controllers, "cpu")) continue;
    const std::string mount = root + (is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
    for (const std::string& folder : {mount + parts[2], mount}) {
      const std::string text = ReadText(folder + "/cpu.stat");
      if (const auto micro = FindCounter(text, "throttled_usec")) return absl::Microseconds(*micro);
      if (const auto nano = FindCounter(text, "throttled_time")) return absl::Nanoseconds(*nano);
    }
  }
  return std::nullopt;
}

// Reads `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`.
std::optional<absl::Duration> ReadPressure(const std::string& root) {
  const std::string text = ReadText(root + "/proc/pressure/cpu");
  const absl::string_view line = absl::string_view(text).substr(0, text.find('\n'));
  const size_t total = line.find("total=");
  int64_t microseconds = 0;
  if (!absl::StartsWith(line, "some ") || total == absl::string_view::npos ||
      !absl::SimpleAtoi(line.substr(total + 6), &microseconds)) {
    return std::nullopt;
  }
  return absl::Microseconds(microseconds);
}

std::optional<absl::Duration> Subtract(const std::optional<absl::Duration>& after,
                                       const std::optional<absl::Duration>& before) {
  if (!after.has_value() || !before.has_value()) return std::nullopt;
  return std::max(*after - *before, absl::ZeroDuration());
}

std::string OptionalText(const std::optional<absl::Duration>& time) {
  return time.has_value() ? absl::StrCat(absl::ToInt64Nanoseconds(*time)) : "-";
}

double Share(absl::Duration part, absl::Duration whole) {
  return std::clamp(absl::FDivDuration(part, whole), 0.0, 1.0);
}

// Ranks of one machine that share processors, directly or through others.
struct RankGroup {
  std::string boot_id;
  absl::Duration process;
  std::map<int, ProcessorTime> processors;
};

bool ShareProcessors(const RankGroup& group, const RankMachineUse& rank) {
  return group.boot_id == rank.boot_id &&
         std::any_of(rank.processors.begin(), rank.processors.end(),
                     [&](const auto& entry) { return group.processors.contains(entry.first); });
}

std::vector<RankGroup> GroupRanks(absl::Span<const RankMachineUse> ranks) {
  std::vector<RankGroup> groups;
  for (const RankMachineUse& rank : ranks) {
    RankGroup joined = {rank.boot_id, rank.process, rank.processors};
    const auto met = std::stable_partition(
        groups.begin(), groups.end(),
        [&](const RankGroup& group) { return !ShareProcessors(group, rank); });
    for (auto group = met; group != groups.end(); ++group) {
      joined.process += group->process;
      joined.processors.insert(group->processors.begin(), group->processors.end());
    }
    groups.erase(met, groups.end());
    groups.push_back(std::move(joined));
  }
  return groups;
}

// Adds a group's share of others to `use` where it is the highest so far.
void AddGroup(const RankGroup& group, MachineUse& use) {
  absl::Duration busy, stolen, total;
  for (const auto& [processor, time] : group.processors) {
    busy += time.busy;
    stolen += time.stolen;
    total += time.total;
  }
  // Ticks are sampled and the time of processes is not, so the difference may be below zero.
  const absl::Duration others = std::max(busy - group.process, absl::ZeroDuration()) + stolen;
  if (Share(others, total) < use.used_by_others) return;
  use.used_by_others = Share(others, total);
  use.stolen = Share(stolen, total);
}

bool CanBeJudged(const RankMachineUse& rank) {
  return rank.elapsed >= kShortestMachineUse && !rank.processors.empty() &&
         std::all_of(rank.processors.begin(), rank.processors.end(), [&](const auto& entry) {
           return entry.second.total >= rank.elapsed * kAccountedShare;
         });
}

}  // namespace

MachineReader::MachineReader(Options options) : options_(std::move(options)) {
  if (options_.processors.empty()) options_.processors = ProcessorsOfThisThread();
  if (options_.process_time == nullptr) options_.process_time = SystemProcessTime;
  if (options_.clock == nullptr) options_.clock = SteadyNow;
}

absl::StatusOr<MachineCounters> MachineReader::Read() const {
  MachineCounters counters;
  const std::string boot_id = ReadText(options_.root + "/proc/sys/kernel/random/boot_id");
  counters.boot_id = std::string(absl::StripAsciiWhitespace(boot_id));
  if (counters.boot_id.empty()) return absl::UnavailableError("the system has no boot id");
  const std::map<int, ProcessorTime> all = ParseStat(ReadText(options_.root + "/proc/stat"));
  counters.clock = options_.clock();
  counters.process = options_.process_time();
  for (const int processor : options_.processors) {
    const auto found = all.find(processor);
    if (found == all.end()) {
      return absl::UnavailableError(
          absl::StrCat("/proc/stat has no counters of processor ", processor));
    }
    counters.processors.insert(*found);
  }
  counters.throttled = ReadThrottled(options_.root);
  counters.pressure = ReadPressure(options_.root);
  return counters;
}

RankMachineUse UseBetween(const MachineCounters& before, const MachineCounters& after) {
  RankMachineUse use;
  use.boot_id = after.boot_id;
  use.elapsed = after.clock - before.clock;
  use.process = after.process - before.process;
  use.throttled = Subtract(after.throttled, before.throttled);
  use.pressure = Subtract(after.pressure, before.pressure);
  for (const auto& [processor, time] : after.processors) {
    const auto found = before.processors.find(processor);
    if (found == before.processors.end()) continue;
    // Counters of some processors go back when these are taken out and come back (proc(5)).
    use.processors[processor] = {
        .busy = std::max(time.busy - found->second.busy, absl::ZeroDuration()),
        .stolen = std::max(time.stolen - found->second.stolen, absl::ZeroDuration()),
        .total = std::max(time.total - found->second.total, absl::ZeroDuration())};
  }
  return use;
}

std::string RankMachineUse::ToText() const {
  std::string text = absl::StrCat(boot_id, " ", absl::ToInt64Nanoseconds(elapsed), " ",
                                  absl::ToInt64Nanoseconds(process), " ", OptionalText(throttled),
                                  " ", OptionalText(pressure));
  for (const auto& [processor, time] : processors) {
    absl::StrAppend(&text, " ", processor, " ", absl::ToInt64Nanoseconds(time.busy), " ",
                    absl::ToInt64Nanoseconds(time.stolen), " ",
                    absl::ToInt64Nanoseconds(time.total));
  }
  return text;
}

absl::StatusOr<RankMachineUse> RankMachineUse::FromText(absl::string_view text) {
  constexpr size_t kHeadCount = 5;
  constexpr size_t kProcessorCount = 4;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  bool is_valid = words.size() >= kHeadCount && (words.size() - kHeadCount) % kProcessorCount == 0;
  const auto time_at = [&](size_t index) {
    int64_t nanoseconds = 0;
    is_valid = is_valid && absl::SimpleAtoi(words[index], &nanoseconds);
    return absl::Nanoseconds(nanoseconds);
  };
  const auto optional_at = [&](size_t index) -> std::optional<absl::Duration> {
    if (!is_valid || words[index] == "-") return std::nullopt;
    return time_at(index);
  };
  RankMachineUse use;
  if (is_valid) use.boot_id = std::string(words[0]);
  use.elapsed = time_at(1);
  use.process = time_at(2);
  use.throttled = optional_at(3);
  use.pressure = optional_at(4);
  for (size_t k = kHeadCount; is_valid && k < words.size(); k += kProcessorCount) {
    int processor = 0;
    is_valid = absl::SimpleAtoi(words[k], &processor);
    use.processors[processor] = {
        .busy = time_at(k + 1), .stolen = time_at(k + 2), .total = time_at(k + 3)};
  }
  if (!is_valid) return absl::InvalidArgumentError("not the use of a machine as a rank writes it");
  return use;
}

bool MachineUse::IsBusy() const {
  return used_by_others > kBusyMachineRatio || throttled.value_or(0.0) > kBusyMachineRatio;
}

std::optional<MachineUse> CombineUses(absl::Span<const RankMachineUse> ranks) {
  if (ranks.empty() || !std::all_of(ranks.begin(), ranks.end(), CanBeJudged)) return std::nullopt;
  MachineUse use;
  for (const RankGroup& group : GroupRanks(ranks)) AddGroup(group, use);
  for (const RankMachineUse& rank : ranks) {
    if (rank.throttled.has_value()) {
      const absl::Duration whole = rank.elapsed * static_cast<double>(rank.processors.size());
      use.throttled = std::max(use.throttled.value_or(0.0), Share(*rank.throttled, whole));
    }
    if (rank.pressure.has_value()) {
      use.pressure = std::max(use.pressure.value_or(0.0), Share(*rank.pressure, rank.elapsed));
    }
  }
  return use;
}

}  // namespace parplan
