// The records of the store: typed keys to find a record by, and its message as the exact bytes it
// was serialized to. The store never parses these bytes.

#ifndef PARPLAN_SERVER_STORE_RECORDS_H_
#define PARPLAN_SERVER_STORE_RECORDS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace parplan {

// Times have nanoseconds and lie between the years 1678 and 2262, or are the infinite past or
// future. Texts are UTF-8 without NUL. `cluster`, `node` and the id of a record (`profile_id`,
// `plan_id` and the like) are those in its `name`, which the store does not check; `create_time` is
// when the core made the record, by its clock.

// The measurements of one node.
struct ProfileRecord {
  // `clusters/{cluster}/nodes/{node}/profiles/{profile}`. Unique.
  std::string name;
  std::string cluster;
  std::string node;
  std::string profile_id;
  std::string device_kind;
  // The rest of what profiles of a node have in common that replace each other (`PutProfile`): size
  // of the node, precision and runtime. Empty for a profile of a release before this one.
  std::string kind;
  // Equal for profiles of which the newest alone counts in a snapshot (`ProfileCoverage`). Empty
  // for a profile of a release before this one, until the server has read it.
  std::string coverage;
  // Whoever uploaded the profile; empty if the server restricted no caller then.
  std::string owner;
  // Key of retries within one node; may be empty.
  std::string request_id;
  // SHA-256 of the uploaded content, lower-case hexadecimal.
  std::string content_digest;
  // Serialized v1::Profile.
  std::string bytes;
  absl::Time create_time;
  friend bool operator==(const ProfileRecord&, const ProfileRecord&) = default;
};

// The coefficients of a cluster's cost model.
struct CalibrationRecord {
  // `clusters/{cluster}/calibrations/{calibration}`. Unique.
  std::string name;
  std::string cluster;
  std::string calibration_id;
  // Key of retries within one cluster; may be empty.
  std::string request_id;
  // SHA-256 of the uploaded content, lower-case hexadecimal.
  std::string content_digest;
  // Serialized v1::Calibration.
  std::string bytes;
  absl::Time create_time;
  friend bool operator==(const CalibrationRecord&, const CalibrationRecord&) = default;
};

// The calibration that new plans of a cluster are made with.
struct ActiveCalibrationRecord {
  // Name and digest of a stored calibration; both empty if none is active.
  std::string name;
  std::string content_digest;
  // Time of the last activation, or of the deactivation if none is active; InfinitePast if none was
  // ever active.
  absl::Time activate_time = absl::InfinitePast();
  friend bool operator==(const ActiveCalibrationRecord&, const ActiveCalibrationRecord&) = default;
};

// A signed plan.
struct PlanRecord {
  // `clusters/{cluster}/plans/{plan}`. Unique.
  std::string name;
  std::string cluster;
  std::string plan_id;
  // Digest of the question that the plan answers, lower-case hexadecimal. If a limit ended the
  // search, it is one that no question has, so that the plan is not found by it.
  std::string plan_key;
  // Digest of the question without its audience: plans with equal keys have the same contents.
  // Empty if a limit ended the search.
  std::string answer_key;
  // Whoever asked for the plan; empty if the server restricted no caller then.
  std::string owner;
  // Key of retries of one owner within one cluster; may be empty.
  std::string request_id;
  // Empty for a plan without a job.
  std::string job_id;
  // Digests of what the plan was made from, lower-case hexadecimal.
  std::string topology_digest;
  std::string profile_digest;
  // Serialized v1::Plan, without its spec if `spec` has that.
  std::string bytes;
  // Serialized v1::PlanSpec, which plans for one question share in the store. Empty for a plan of a
  // release before this one, and in lists.
  std::string spec;
  absl::Time create_time;
  absl::Time expire_time;
  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

// A job of a cluster. It outlives its plans, so that their numbers do not begin anew.
struct JobRecord {
  // Whoever may plan for the job; empty if it was planned only while the server restricted no
  // caller.
  std::string owner;
  // Highest number that a plan of the job ever got.
  int64_t generation = 0;
  // Whether a plan of the job is valid, or an execution of one runs.
  bool is_held = false;
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// The place of a new plan among the plans of its job.
struct JobClaim {
  // `JobRecord::owner` from now on.
  std::string owner;
  // Number of the plan, above all numbers of the job before.
  int64_t generation = 0;
};

// The use that a scope makes of the store.
struct StoredUsage {
  int64_t plan_count = 0;
  // Bytes of profiles, plans and specs. A spec that several plans share counts for the one that had
  // it first.
  int64_t byte_count = 0;
  // Bytes of executions with their windows (`ExecutionByteCount`). An execution counts for its own
  // owner and for the cluster of its plan.
  int64_t execution_byte_count = 0;
  friend bool operator==(const StoredUsage&, const StoredUsage&) = default;
};

// The states of an execution, with the numbers of v1::Execution::State. `kAbandoned` is only ever
// an argument: a record of such an execution says `kFailed`, until windows are appended or it is
// closed.
enum class ExecutionState { kRunning = 1, kSucceeded = 2, kFailed = 3, kAbandoned = 4 };

// One run of a plan.
struct ExecutionRecord {
  // `clusters/{cluster}/plans/{plan}/executions/{execution}`. Unique.
  std::string name;
  // Name of the plan, which must be stored.
  std::string plan;
  std::string execution_id;
  // Whoever opened the execution; empty if the server restricted no caller then.
  std::string owner;
  // Key of retries within one plan; may be empty.
  std::string request_id;
  ExecutionState state = ExecutionState::kRunning;
  absl::Time start_time;
  // End of the run; InfiniteFuture while it runs.
  absl::Time end_time = absl::InfiniteFuture();
  // Cause of the failure, for people; empty unless the state is `kFailed`.
  std::string failure_reason;
  // Serialized v1::Execution with the facts that the core stores when the execution is opened.
  std::string bytes;
  // Number of stored windows. Set by the store; ignored by `CreateExecution`.
  int64_t window_count = 0;
  // Time at which windows were last stored, or at which the execution was opened. Set by the
  // store; ignored by `CreateExecution`.
  absl::Time report_time;
  friend bool operator==(const ExecutionRecord&, const ExecutionRecord&) = default;
};

// A window of measured steps of an execution, which has one window per rank and first step.
struct WindowRecord {
  // Rank and step, both from 0.
  int32_t rank = 0;
  int64_t first_step = 0;
  int32_t step_count = 0;
  absl::Duration median_step_duration;
  // Peak memory of the rank in the window, in bytes; 0 if unknown.
  int64_t peak_memory_bytes = 0;
  // Serialized v1::MeasuredWindow with phases and memory items only; empty if there are none.
  std::string items;
  // Serialized v1::MeasuredWindow.
  std::string bytes;
  friend bool operator==(const WindowRecord&, const WindowRecord&) = default;
};

// Bytes that the row of an execution counts for beside `ExecutionRecord::bytes`: its indexes, and a
// `failure_reason` of up to 1024 characters.
inline constexpr int64_t kExecutionRowBytes = 4096;
// Bytes that the row of a window counts for beside `items` and `bytes`, which may be almost empty:
// seven integers and the entry in the index.
inline constexpr int64_t kWindowRowBytes = 64;

// Returns the bytes that a new execution, without windows, counts for.
inline int64_t ExecutionByteCount(const ExecutionRecord& execution) {
  return kExecutionRowBytes + static_cast<int64_t>(execution.bytes.size());
}

// Returns the bytes that a window counts for.
inline int64_t WindowByteCount(const WindowRecord& window) {
  return kWindowRowBytes + static_cast<int64_t>(window.items.size() + window.bytes.size());
}

// The most that an execution may take up: windows, and bytes with its windows.
struct ExecutionLimits {
  int64_t window_count = std::numeric_limits<int64_t>::max();
  int64_t byte_count = std::numeric_limits<int64_t>::max();
};

// A part of a list, and the token of the next part; empty after the last.
template <typename Record>
struct Page {
  std::vector<Record> records;
  std::string next_page_token;
};

// The profiles of a cluster that count in a snapshot at one moment, newest first.
struct ProfileSet {
  // `Store::ProfileRevision` at that moment.
  int64_t revision = 0;
  std::vector<ProfileRecord> profiles;
};

// The outcome of `Store::AppendWindows`.
struct AppendResult {
  // Number of windows that are new.
  int64_t stored_count = 0;
  // Number of windows that had been stored before; they changed nothing.
  int64_t duplicate_count = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_RECORDS_H_
