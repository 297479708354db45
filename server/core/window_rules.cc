#include "server/core/window_rules.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/plan.h"
#include "planner/model/profile_snapshot.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

constexpr Reason kInvalid = Reason::kSpecInvalid;
constexpr int kMaxTimingCount = 1024;
constexpr char kWindow[] = "window";

absl::Status WindowError(absl::string_view field, absl::string_view rule) {
  return FieldError(kInvalid, JoinPath(kWindow, field), rule);
}

absl::StatusOr<absl::Duration> ReadTime(const google::protobuf::Duration& duration,
                                        const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration time, DurationFromProto(duration, path));
  if (time < absl::ZeroDuration()) return FieldError(kInvalid, path, "must not be negative");
  return time;
}

absl::Status CheckPhases(const v1::MeasuredWindow& window) {
  std::array<bool, v1::Phase_ARRAYSIZE> seen = {};
  for (int i = 0; i < window.phase_durations_size(); ++i) {
    const v1::PhaseDuration& entry = window.phase_durations(i);
    const std::string path = JoinPath(kWindow, "phase_durations", i);
    PARPLAN_ASSIGN_OR_RETURN(const int phase,
                             EnumFromProto<int>(entry.phase(), JoinPath(path, "phase"), kInvalid));
    if (std::exchange(seen[phase], true)) {
      return FieldError(kInvalid, JoinPath(path, "phase"), "has an entry already; add the two up");
    }
    PARPLAN_RETURN_IF_ERROR(ReadTime(entry.duration(), JoinPath(path, "duration")).status());
  }
  return absl::OkStatus();
}

absl::Status CheckMemoryItems(const v1::MeasuredWindow& window) {
  std::array<bool, v1::MemoryItemKind_ARRAYSIZE> seen = {};
  int64_t room = window.peak_memory_bytes();
  for (int i = 0; i < window.memory_items_size(); ++i) {
    const v1::MemoryItem& item = window.memory_items(i);
    const std::string path = JoinPath(kWindow, "memory_items", i);
    PARPLAN_ASSIGN_OR_RETURN(const int kind,
                             EnumFromProto<int>(item.kind(), JoinPath(path, "kind"), kInvalid));
    if (std::exchange(seen[kind], true)) {
      return FieldError(kInvalid, JoinPath(path, "kind"), "has an entry already; add the two up");
    }
    const std::string size = JoinPath(path, "size_bytes");
    if (item.size_bytes() < 0) return FieldError(kInvalid, size, "must be at least 0");
    if (item.size_bytes() > room) {
      return FieldError(kInvalid, size,
                        "with the items before must be at most window.peak_memory_bytes");
    }
    room -= item.size_bytes();
  }
  return absl::OkStatus();
}

absl::Status CheckTiming(const v1::CollectiveTiming& timing, const std::string& path) {
  const auto broken = [&](absl::string_view field, absl::string_view rule) {
    return FieldError(kInvalid, JoinPath(path, field), rule);
  };
  PARPLAN_RETURN_IF_ERROR(
      EnumFromProto<Collective>(timing.collective(), JoinPath(path, "collective"), kInvalid)
          .status());
  if (timing.participant_count() < 2) return broken("participant_count", "must be at least 2");
  if (timing.collective() == v1::COLLECTIVE_SEND_RECEIVE && timing.participant_count() != 2) {
    return broken("participant_count", "must be 2 for COLLECTIVE_SEND_RECEIVE");
  }
  if (timing.rank_stride() < 1) return broken("rank_stride", "must be at least 1");
  if (timing.message_size_bytes() < 1) return broken("message_size_bytes", "must be above 0");
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration median,
                           ReadTime(timing.median_duration(), JoinPath(path, "median_duration")));
  if (median == absl::ZeroDuration()) return broken("median_duration", "must be above 0");
  if (timing.has_p90_duration()) {
    PARPLAN_ASSIGN_OR_RETURN(const absl::Duration p90,
                             ReadTime(timing.p90_duration(), JoinPath(path, "p90_duration")));
    if (p90 < median) return broken("p90_duration", "must not be below the median");
  }
  if (timing.sample_count() < 0) return broken("sample_count", "must be at least 0");
  return absl::OkStatus();
}

absl::Status CheckTimings(const v1::MeasuredWindow& window) {
  if (window.collective_timings_size() > kMaxTimingCount) {
    return WindowError("collective_timings", absl::StrCat("must be at most ", kMaxTimingCount,
                                                          " entries; report shorter windows"));
  }
  for (int i = 0; i < window.collective_timings_size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(
        CheckTiming(window.collective_timings(i), JoinPath(kWindow, "collective_timings", i)));
  }
  return absl::OkStatus();
}

// Returns the parts of a window that figures need and that have no column in the store.
std::string ItemsOf(const v1::MeasuredWindow& window) {
  v1::MeasuredWindow items;
  *items.mutable_phase_durations() = window.phase_durations();
  *items.mutable_memory_items() = window.memory_items();
  return items.SerializeAsString();
}

}  // namespace

absl::StatusOr<WindowRecord> ReadWindow(const v1::MeasuredWindow& window, int device_count,
                                        int64_t max_byte_count) {
  if (const auto size = static_cast<int64_t>(window.ByteSizeLong()); size > max_byte_count) {
    return FieldError(kInvalid, kWindow,
                      absl::StrCat("must be at most ", max_byte_count, " bytes, and has ", size,
                                   "; report shorter windows"));
  }
  if (window.rank() < 0 || window.rank() >= device_count) {
    return WindowError("rank", absl::StrCat("must be at least 0 and below ", device_count,
                                            ", the devices of the plan"));
  }
  if (window.first_step() < 0) return WindowError("first_step", "must be at least 0");
  if (window.step_count() < 1) return WindowError("step_count", "must be at least 1");
  if (window.peak_memory_bytes() < 0) {
    return WindowError("peak_memory_bytes", "must be at least 0; 0 when unknown");
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const absl::Duration step,
      DurationFromProto(window.median_step_duration(), JoinPath(kWindow, "median_step_duration")));
  if (step <= absl::ZeroDuration()) return WindowError("median_step_duration", "must be above 0");
  PARPLAN_RETURN_IF_ERROR(CheckTimings(window));
  PARPLAN_RETURN_IF_ERROR(CheckPhases(window));
  PARPLAN_RETURN_IF_ERROR(CheckMemoryItems(window));
  WindowRecord record;
  record.rank = window.rank();
  record.first_step = window.first_step();
  record.step_count = window.step_count();
  record.median_step_duration = step;
  record.peak_memory_bytes = window.peak_memory_bytes();
  // Unknown fields, which no rule checks, would be stored without a limit.
  v1::MeasuredWindow known = window;
  known.DiscardUnknownFields();
  record.items = ItemsOf(known);
  record.bytes = known.SerializeAsString();
  return record;
}

}  // namespace parplan
