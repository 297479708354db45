// Limits on everything that can grow. Callers read those they meet from `GetCapabilities`.
// server/main/settings.h says which of them operators set, by flags and the configuration file; the
// others have the values below. The defaults were not measured unless a comment says so.

#ifndef PARPLAN_SERVER_CORE_LIMITS_H_
#define PARPLAN_SERVER_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// The share of one identity, or of one cluster. 0 means no limit; no field is below it.
struct QuotaLimits {
  // Bytes of its profiles, plans and specs in the store, bytes of its executions with their
  // windows, and number of its plans. Calls in progress may exceed them by what they store.
  int64_t stored_bytes = 0;
  int64_t execution_bytes = 0;
  int64_t plan_count = 0;
  // Agents connected at a time.
  int agent_count = 0;
  // Searches that run, and that wait. Beyond the first, searches wait; beyond the second, questions
  // are refused.
  int running_search_count = 0;
  int queued_search_count = 0;
};

// Plain data. Every field but the quotas, `profiles_per_node`, `execution_retention` and
// `search_memory_bytes` is above 0.
struct Limits {
  // Size of one question: layers and devices, at most the limits of the planner, and offers of a
  // `ShapePlan`. No setting of the server changes them.
  int max_layer_count = kMaxLayerCount;
  int max_device_count = kMaxDeviceCount;
  int max_offer_count = 16;

  // Bytes of one upload over all its messages, and of one request message.
  int64_t max_upload_bytes = int64_t{64} << 20;
  int64_t max_request_bytes = int64_t{4} << 20;

  // Bytes of all uploads in progress; one host, or one identity of a restricted caller, has at most
  // half of them, so a larger upload never has room. Four times the default of the largest upload,
  // or twice that of the settings if that is more (`ReadSettings`).
  int64_t max_upload_memory_bytes = int64_t{256} << 20;

  // Quotas of each identity that holds roles, and of each cluster.
  QuotaLimits identity_quota;
  QuotaLimits cluster_quota;

  // Searches that may wait in all; beyond them `FairQueue` refuses one with QUEUE_FULL.
  int max_queue_length = 64;
  // Threads that search.
  int worker_count = 2;

  // Bytes that all searches that run may have together; 0 for no limit. Each gets an equal part.
  // Fewer run at a time if that would be below `SearchPool::kMinSearchBytes`, down to one.
  int64_t search_memory_bytes = 0;

  // Longest search. `PlanningOptions.search_time_limit` is cut to it.
  absl::Duration max_search_duration = absl::Minutes(5);

  // How long a plan is valid by default, and at most.
  absl::Duration default_time_to_live = absl::Hours(24);
  absl::Duration max_time_to_live = absl::Hours(24 * 30);

  // Profiles kept of each node, kind of device, size of the node, precision and runtime; when one
  // more comes, the oldest is deleted. 0 keeps all. 16 are those of four months if an agent
  // measures once a week.
  int profiles_per_node = 16;

  // Windows kept for one execution, bytes of one of them, and bytes of the execution with all of
  // them. A window with all timings that it may have has some 100 KB; 100,000 windows of 2.5 KB,
  // those of 1,000 ranks with 30 timings each, fill the last.
  int64_t max_window_count = 100000;
  int64_t max_window_bytes = int64_t{256} << 10;
  int64_t max_execution_bytes = int64_t{256} << 20;

  // An execution without a report for so long is marked as failed.
  absl::Duration longest_execution_silence = absl::Hours(6);

  // How long an execution and its windows are kept after it ended; 0 keeps them for ever. After a
  // year a job can be compared with the same one of the year before.
  absl::Duration execution_retention = absl::Hours(24 * 365);

  // Agents connected at a time, nodes of one lease, and the duration of a lease with all its
  // renewals.
  int max_agent_count = 4096;
  int max_lease_node_count = 64;
  absl::Duration max_lease_duration = absl::Minutes(30);

  // How often agents send a sign of life, and the silence after which they count as lost. The
  // silence allows for three lost heartbeats.
  absl::Duration agent_heartbeat = absl::Seconds(15);
  absl::Duration longest_agent_silence = absl::Seconds(50);

  // Bytes of each cache of answers: signed plans, answers of `ShapePlan`, and answers of the
  // planner that are not bound to a job yet.
  size_t plan_cache_bytes = size_t{16} << 20;
  size_t shape_cache_bytes = size_t{4} << 20;
  size_t result_cache_bytes = size_t{8} << 20;

  // Bytes of the cache of calibrations.
  size_t calibration_cache_bytes = size_t{16} << 20;

  // Merged profile snapshots kept in memory, one for each cluster, kind of device, size of the node
  // and runtime.
  size_t max_snapshot_count = 64;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_LIMITS_H_
