#include "clients/import/galvatron_hardware.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_file_rules.h"
#include "clients/import/galvatron_names.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/duration_wire.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kAllReduceMebibytes = 256;
constexpr int64_t kSendReceiveMebibytes = 64;
constexpr int kDefaultDevicesPerNode = 8;

bool ParseCount(absl::string_view text, int* value) {
  return absl::SimpleAtoi(text, value) && *value >= 0 && *value <= kMaxDeviceCount;
}

// One group of an all-reduce file.
struct GroupKey {
  int pipeline = 1;
  int participants = 0;
  bool consecutive = true;
  // 2022: the value is ms per MB, not GB/s.
  bool milliseconds_per_megabyte = false;
};

// `allreduce_size_{n}_consec_{c}` or, in 2022, `{pp}_{n}_{c}`.
std::optional<GroupKey> ParseGroupKey(absl::string_view key) {
  GroupKey group;
  group.milliseconds_per_megabyte = !absl::ConsumePrefix(&key, "allreduce_size_");
  std::vector<absl::string_view> parts = absl::StrSplit(key, '_');
  int consecutive = 0;
  if (parts.size() != 3) return std::nullopt;
  if (group.milliseconds_per_megabyte) {
    if (!ParseCount(parts[0], &group.pipeline) || !ParseCount(parts[1], &group.participants)) {
      return std::nullopt;
    }
  } else if (!ParseCount(parts[0], &group.participants) || parts[1] != "consec") {
    return std::nullopt;
  }
  if (!ParseCount(parts[2], &consecutive) || consecutive > 1) return std::nullopt;
  if (group.participants < 2 || group.pipeline < 1) return std::nullopt;
  group.consecutive = consecutive == 1;
  return group;
}

class HardwareReader {
 public:
  HardwareReader(const GalvatronHardwareFiles& files, GalvatronNodes nodes) : files_(files) {
    hardware_.nodes = nodes;
  }

  absl::StatusOr<GalvatronHardware> Read();

 private:
  using GroupEntry = std::pair<GroupKey, double>;

  absl::Status ReadGroups();
  absl::Status FindNodes();
  absl::Status ReadTables();
  void AddGroups();
  absl::Status ReadSendReceive();
  absl::Status ReadOverlap();
  // Returns whether the timing was taken; else a note says why not.
  bool Add(v1::Collective collective, int participants, int stride, int64_t size, double seconds,
           v1::Origin origin, const std::string& what);

  int device_count() const { return hardware_.nodes.node_count * hardware_.nodes.devices_per_node; }

  const GalvatronHardwareFiles& files_;
  GalvatronHardware hardware_;
  // Entries in the order of the pipeline degree, so that the first of equal groups wins.
  std::vector<GroupEntry> groups_;
  std::set<int> measured_groups_;  // of neighbours, by participants
  std::map<std::tuple<int, int, int, int64_t>, v1::CollectiveTiming> timings_;
};

bool HardwareReader::Add(v1::Collective collective, int participants, int stride, int64_t size,
                         double seconds, v1::Origin origin, const std::string& what) {
  if (!(seconds >= 1e-9)) {
    hardware_.notes.push_back(absl::StrCat(what, " gives no time above 0 and was left out"));
    return false;
  }
  v1::CollectiveTiming timing;
  timing.set_collective(collective);
  timing.set_participant_count(participants);
  timing.set_rank_stride(stride);
  timing.set_message_size_bytes(size);
  *timing.mutable_median_duration() = DurationToProto(Seconds::Of(seconds));
  timing.set_origin(origin);
  if (!timings_.try_emplace({collective, participants, stride, size}, std::move(timing)).second) {
    hardware_.notes.push_back(
        absl::StrCat(what, " is of a group that another entry gives too; the first was kept"));
    return false;
  }
  return true;
}

absl::Status HardwareReader::ReadGroups() {
  if (!files_.all_reduce) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(*files_.all_reduce, kFileReason));
  for (const auto& [name, value] : object.items()) {
    const std::optional<GroupKey> key = ParseGroupKey(name);
    if (!key.has_value()) {
      return ImportError(kFileReason, files_.all_reduce->name, name,
                         "must be `allreduce_size_{n}_consec_{0 or 1}` or `{pp}_{n}_{0 or 1}`");
    }
    PARPLAN_ASSIGN_OR_RETURN(const double number,
                             ReadNumber(value, kFileReason, files_.all_reduce->name, name));
    if (!(number > 0.0)) {
      return ImportError(kFileReason, files_.all_reduce->name, name, "must be above 0");
    }
    groups_.emplace_back(*key, number);
  }
  std::stable_sort(groups_.begin(), groups_.end(), [](const GroupEntry& a, const GroupEntry& b) {
    return a.first.pipeline < b.first.pipeline;
  });
  return absl::OkStatus();
}

absl::Status HardwareReader::FindNodes() {
  GalvatronNodes& nodes = hardware_.nodes;
  int device_count = 0;  // of the files; 0 while no file says
  for (const std::optional<NamedText>* file : {&files_.all_reduce, &files_.send_receive}) {
    if (!file->has_value()) continue;
    const GalvatronFileName name = ParseGalvatronFileName((*file)->name);
    if (nodes.devices_per_node == 0) nodes.devices_per_node = name.devices_per_node;
    if (nodes.node_count == 0) nodes.node_count = name.node_count;
    if (device_count == 0) device_count = name.device_count;
  }
  if (device_count == 0) {
    for (const auto& [key, value] : groups_) {
      const int64_t reach = int64_t{key.pipeline} * key.participants;
      device_count = static_cast<int>(std::clamp<int64_t>(reach, device_count, kMaxDeviceCount));
    }
  }
  if (nodes.devices_per_node == 0 && nodes.node_count > 0 && device_count > 0) {
    nodes.devices_per_node = device_count / nodes.node_count;
  }
  if (nodes.devices_per_node == 0) {
    nodes.devices_per_node = device_count > 0 && device_count < kDefaultDevicesPerNode
                                 ? device_count
                                 : kDefaultDevicesPerNode;
    hardware_.notes.push_back(absl::StrCat("devices_per_node ", nodes.devices_per_node,
                                           " is assumed; no file says it (--devices-per-node)"));
  }
  if (nodes.node_count == 0) {
    nodes.node_count = std::max(1, device_count / nodes.devices_per_node);
  }
  if (nodes.devices_per_node < 1 || nodes.node_count < 1 ||
      nodes.devices_per_node > kMaxDeviceCount / nodes.node_count) {
    return FieldError(kFileReason, "--node-count",
                      absl::StrCat("nodes and devices per node must be at least 1, and at most ",
                                   kMaxDeviceCount, " devices together"));
  }
  for (const auto& [key, value] : groups_) {
    if (int64_t{key.pipeline} * key.participants > this->device_count()) {
      return ImportError(
          kFileReason, files_.all_reduce->name, absl::StrCat("group of ", key.participants),
          absl::StrCat("is larger than ", nodes.node_count, " nodes of ", nodes.devices_per_node,
                       " devices; correct --node-count or --devices-per-node"));
    }
  }
  return absl::OkStatus();
}

// `allreduce_size_{n}_{k}MB_time` and `all2all_size_{n}_{k}MB_time`, in ms.
absl::Status HardwareReader::ReadTables() {
  if (!files_.tables) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(*files_.tables, kFileReason));
  std::set<int> beyond;
  for (const auto& [name, value] : object.items()) {
    absl::string_view rest = name;
    v1::Collective collective = v1::COLLECTIVE_ALL_REDUCE;
    int participants = 0;
    int megabytes = 0;
    const bool all_reduce = absl::ConsumePrefix(&rest, "allreduce_size_");
    if (!all_reduce) collective = v1::COLLECTIVE_ALL_TO_ALL;
    bool known = all_reduce || absl::ConsumePrefix(&rest, "all2all_size_");
    known = known && absl::ConsumeSuffix(&rest, "MB_time");
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, '_');
    known = known && parts.size() == 2 && ParseCount(parts[0], &participants) &&
            ParseCount(parts[1], &megabytes) && participants >= 2 && megabytes >= 1;
    if (!known) {
      return ImportError(
          kFileReason, files_.tables->name, name,
          "must be `allreduce_size_{n}_{k}MB_time` or `all2all_size_{n}_{k}MB_time`");
    }
    PARPLAN_ASSIGN_OR_RETURN(const double milliseconds,
                             ReadNumber(value, kFileReason, files_.tables->name, name));
    if (participants > device_count()) {
      beyond.insert(participants);
      continue;
    }
    const bool is_taken =
        Add(collective, participants, 1, megabytes * kMebibyte, milliseconds * 1e-3,
            v1::ORIGIN_MEASURED, absl::StrCat(files_.tables->name, ": ", name));
    if (all_reduce && is_taken) measured_groups_.insert(participants);
  }
  for (int participants : beyond) {
    hardware_.notes.push_back(absl::StrCat(files_.tables->name, ": groups of ", participants,
                                           " are larger than the cluster and were left out"));
  }
  return absl::OkStatus();
}

void HardwareReader::AddGroups() {
  for (const auto& [key, value] : groups_) {
    const std::string what =
        absl::StrCat(files_.all_reduce->name, ": group of ", key.participants,
                     key.consecutive ? " neighbours" : " strided devices",
                     key.pipeline > 1 ? absl::StrCat(" at pipeline degree ", key.pipeline) : "");
    const int stage = device_count() / key.pipeline;
    if (!key.consecutive && stage % key.participants != 0) {
      hardware_.notes.push_back(
          absl::StrCat(what, " does not divide ", stage, " devices evenly and was left out"));
      continue;
    }
    const int stride = key.consecutive ? 1 : stage / key.participants;
    if (stride == 1 && measured_groups_.count(key.participants) > 0) continue;
    const double factor = 2.0 * (key.participants - 1) / key.participants;
    const double seconds =
        key.milliseconds_per_megabyte
            ? factor * kAllReduceMebibytes * value * 1e-3
            : factor * static_cast<double>(kAllReduceMebibytes * kMebibyte) / (value * 1e9);
    Add(v1::COLLECTIVE_ALL_REDUCE, key.participants, stride, kAllReduceMebibytes * kMebibyte,
        seconds, v1::ORIGIN_DERIVED, what);
  }
}

absl::Status HardwareReader::ReadSendReceive() {
  if (!files_.send_receive) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(*files_.send_receive, kFileReason));
  for (const auto& [name, value] : object.items()) {
    absl::string_view rest = name;
    const bool bandwidth = absl::ConsumePrefix(&rest, "pp_size_");
    int degree = 0;
    if ((!bandwidth && !absl::ConsumePrefix(&rest, "pp_deg_")) || !ParseCount(rest, &degree) ||
        degree < 2) {
      return ImportError(kFileReason, files_.send_receive->name, name,
                         "must be `pp_size_{p}` or `pp_deg_{p}`");
    }
    PARPLAN_ASSIGN_OR_RETURN(const double number,
                             ReadNumber(value, kFileReason, files_.send_receive->name, name));
    if (!(number > 0.0)) {
      return ImportError(kFileReason, files_.send_receive->name, name, "must be above 0");
    }
    const std::string what = absl::StrCat(files_.send_receive->name, ": ", name);
    if (device_count() % degree != 0) {
      hardware_.notes.push_back(
          absl::StrCat(what, " does not divide ", device_count(), " devices and was left out"));
      continue;
    }
    const double seconds =
        bandwidth ? static_cast<double>(kSendReceiveMebibytes * kMebibyte) / (number * 1e9)
                  : kSendReceiveMebibytes * number * 1e-3;
    Add(v1::COLLECTIVE_SEND_RECEIVE, 2, device_count() / degree, kSendReceiveMebibytes * kMebibyte,
        seconds, v1::ORIGIN_DERIVED, what);
  }
  return absl::OkStatus();
}

absl::Status HardwareReader::ReadOverlap() {
  if (!files_.overlap) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(*files_.overlap, kFileReason));
  const auto found = object.find("overlap_coe");
  if (found == object.end()) {
    return ImportError(kFileReason, files_.overlap->name, "overlap_coe", "is missing");
  }
  PARPLAN_ASSIGN_OR_RETURN(const double slowdown,
                           ReadNumber(*found, kFileReason, files_.overlap->name, "overlap_coe"));
  if (slowdown < 1.0) {
    return ImportError(kFileReason, files_.overlap->name, "overlap_coe", "must be at least 1");
  }
  hardware_.overlap_slowdown = slowdown;
  return absl::OkStatus();
}

absl::StatusOr<GalvatronHardware> HardwareReader::Read() {
  if (hardware_.nodes.node_count < 0 || hardware_.nodes.devices_per_node < 0) {
    return FieldError(kFileReason, "--node-count", "nodes and devices per node must be at least 1");
  }
  PARPLAN_RETURN_IF_ERROR(ReadGroups());
  PARPLAN_RETURN_IF_ERROR(FindNodes());
  PARPLAN_RETURN_IF_ERROR(ReadTables());
  AddGroups();
  PARPLAN_RETURN_IF_ERROR(ReadSendReceive());
  PARPLAN_RETURN_IF_ERROR(ReadOverlap());
  for (auto& [key, timing] : timings_) hardware_.timings.push_back(std::move(timing));
  return std::move(hardware_);
}

}  // namespace

absl::StatusOr<GalvatronHardware> ReadGalvatronHardware(const GalvatronHardwareFiles& files,
                                                        GalvatronNodes nodes) {
  return HardwareReader(files, nodes).Read();
}

}  // namespace parplan
