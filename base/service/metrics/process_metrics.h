// What Prometheus is told of a process, by every program of ours alike, under the names that
// its client libraries agree on.

#ifndef PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_
#define PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_

#include <memory>

namespace prometheus {
class Collectable;
}

namespace parplan {

// Reads /proc/self whenever it is collected: `process_cpu_seconds_total`,
// `process_resident_memory_bytes`, `process_virtual_memory_bytes`, `process_open_fds`,
// `process_max_fds`, `process_threads` and `process_start_time_seconds`. What cannot be read
// is left out. Safe to collect from any thread.
std::shared_ptr<prometheus::Collectable> MakeProcessMetrics();

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_
