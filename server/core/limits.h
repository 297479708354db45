// Limits on everything that can grow. Told by `GetCapabilities`; set by flags
// and the configuration file.

#ifndef PARPLAN_SERVER_CORE_LIMITS_H_
#define PARPLAN_SERVER_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "planner/model/planning_problem.h"

namespace parplan {

// Plain data. Every field is above 0 unless it says otherwise.
struct Limits {
  // Size of one question; at most the planner's own limits.
  int max_layer_count = kMaxLayerCount;
  int max_device_count = kMaxDeviceCount;
  int max_offer_count = 16;

  // One upload over all its messages, and one request message, in bytes.
  int64_t max_upload_bytes = int64_t{64} << 20;
  int64_t max_request_bytes = int64_t{4} << 20;

  // Searches that may wait, and threads that search.
  int max_queue_length = 64;
  int worker_count = 2;

  // Longest search. `PlanningOptions.search_time_limit` is cut to it.
  absl::Duration max_search_duration = absl::Minutes(5);

  // How long a plan is valid when the caller does not say, and at most.
  absl::Duration default_time_to_live = absl::Hours(24);
  absl::Duration max_time_to_live = absl::Hours(24 * 30);

  // Windows kept for one execution.
  int64_t max_window_count = 100000;

  // An execution is failed when nobody reported to it for so long.
  absl::Duration longest_execution_silence = absl::Hours(6);

  // Agents that may be connected, nodes of one lease, and how long it may last with all
  // renewals.
  int max_agent_count = 4096;
  int max_lease_node_count = 64;
  absl::Duration max_lease_duration = absl::Minutes(30);

  // How often agents give a sign of life, and after how long a silence they are lost.
  absl::Duration agent_heartbeat = absl::Seconds(15);
  absl::Duration longest_agent_silence = absl::Seconds(50);

  // Memory of the answers kept ready: signed plans, answers of `ShapePlan`, and
  // answers of the planner not bound to a job yet. Each, in bytes.
  size_t plan_cache_bytes = size_t{16} << 20;
  size_t shape_cache_bytes = size_t{4} << 20;
  size_t result_cache_bytes = size_t{8} << 20;

  // Memory of the calibrations kept ready, in bytes.
  size_t calibration_cache_bytes = size_t{16} << 20;

  // Merged snapshots kept, one per kind of node and cluster.
  size_t max_snapshot_count = 64;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_LIMITS_H_
