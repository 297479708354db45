// What the store keeps: small typed keys to find a thing by, and its message as
// the exact bytes it was serialized to. The store never reads the bytes.

#ifndef PARPLAN_SERVER_STORE_RECORDS_H_
#define PARPLAN_SERVER_STORE_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace parplan {

// Times are kept to the nanosecond, between the years 1678 and 2262; the infinite
// past and future are kept as such. Texts are UTF-8 without NUL.

struct ProfileRecord {
  // `clusters/{cluster}/nodes/{node}/profiles/{profile}`. Unique.
  std::string name;
  std::string cluster;
  std::string node;
  std::string profile_id;
  std::string device_kind;
  // Makes a retry harmless, within one node; may be empty.
  std::string request_id;
  // Of what the client sent, lower-case hexadecimal.
  std::string content_digest;
  // A serialized v1::Profile.
  std::string bytes;
  absl::Time create_time;
  friend bool operator==(const ProfileRecord&, const ProfileRecord&) = default;
};

struct CalibrationRecord {
  // `clusters/{cluster}/calibrations/{calibration}`. Unique.
  std::string name;
  std::string cluster;
  std::string calibration_id;
  // Makes a retry harmless, within one cluster; may be empty.
  std::string request_id;
  // Of what the client sent, lower-case hexadecimal.
  std::string content_digest;
  // A serialized v1::Calibration.
  std::string bytes;
  absl::Time create_time;
  friend bool operator==(const CalibrationRecord&, const CalibrationRecord&) = default;
};

// Which calibration new plans of a cluster rest on.
struct ActiveCalibrationRecord {
  // Of a stored calibration, with its digest. Both empty when none is active.
  std::string name;
  std::string content_digest;
  // InfinitePast when none was ever activated.
  absl::Time activate_time = absl::InfinitePast();
  friend bool operator==(const ActiveCalibrationRecord&, const ActiveCalibrationRecord&) = default;
};

struct PlanRecord {
  // `clusters/{cluster}/plans/{plan}`. Unique.
  std::string name;
  std::string cluster;
  std::string plan_id;
  // Of the question the plan answers, lower-case hexadecimal.
  std::string plan_key;
  // Of the question without whom the plan is for: plans of equal keys answer the same.
  // Empty where a limit ended the search.
  std::string answer_key;
  // Makes a retry harmless, within one cluster; may be empty.
  std::string request_id;
  std::string job_id;
  // Of what the plan rests on, lower-case hexadecimal.
  std::string topology_digest;
  std::string profile_digest;
  // A serialized v1::Plan.
  std::string bytes;
  absl::Time create_time;
  absl::Time expire_time;
  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

// The numbers of v1::Execution::State. kAbandoned is asked for and never given: such an execution
// is failed until windows come, or somebody closes it.
enum class ExecutionState { kRunning = 1, kSucceeded = 2, kFailed = 3, kAbandoned = 4 };

struct ExecutionRecord {
  // `clusters/{cluster}/plans/{plan}/executions/{execution}`. Unique.
  std::string name;
  // Name of its plan, which must be stored.
  std::string plan;
  std::string execution_id;
  // Makes a retry harmless, within one plan; may be empty.
  std::string request_id;
  ExecutionState state = ExecutionState::kRunning;
  absl::Time start_time;
  // InfiniteFuture while it runs.
  absl::Time end_time = absl::InfiniteFuture();
  // Why it failed, for people; empty unless it did.
  std::string failure_reason;
  // What the core knew when the execution was opened, serialized.
  std::string bytes;
  // Windows stored. Counted by the store; not read by `CreateExecution`.
  int64_t window_count = 0;
  // When windows were last stored, else when it was opened. Kept by the store; not read
  // by `CreateExecution`.
  absl::Time report_time;
  friend bool operator==(const ExecutionRecord&, const ExecutionRecord&) = default;
};

// One window of measured steps of an execution. An execution holds one window
// for a rank and first step.
struct WindowRecord {
  int32_t rank = 0;
  int64_t first_step = 0;
  int32_t step_count = 0;
  absl::Duration median_step_duration;
  // 0 when unknown.
  int64_t peak_memory_bytes = 0;
  // A serialized v1::MeasuredWindow with nothing but phases and memory items; empty
  // where there are none.
  std::string items;
  // A serialized v1::MeasuredWindow.
  std::string bytes;
  friend bool operator==(const WindowRecord&, const WindowRecord&) = default;
};

// A part of a list, and where the next part begins: empty after the last.
template <typename Record>
struct Page {
  std::vector<Record> records;
  std::string next_page_token;
};

// All profiles of a cluster at one moment, newest first.
struct ProfileSet {
  int64_t revision = 0;
  std::vector<ProfileRecord> profiles;
};

struct AppendResult {
  int64_t stored_count = 0;
  // Windows that were stored already; they changed nothing.
  int64_t duplicate_count = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_RECORDS_H_
