// Metrics of the process itself, the same for every program, under the names that Prometheus'
// client libraries agree on. The server and the agent expose them.

#ifndef PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_
#define PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_

#include <memory>

namespace prometheus {
class Collectable;
}

namespace parplan {

// Makes metrics that read /proc and the limits of the process on every collection:
// `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
// `process_open_fds`, `process_max_fds`, `process_threads` and `process_start_time_seconds`. Those
// that cannot be read are left out. Never null. Safe to collect from any thread. The caller keeps
// the pointer as long as the metrics shall be exposed, since prometheus-cpp's exposer does not.
std::shared_ptr<prometheus::Collectable> MakeProcessMetrics();

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_PROCESS_METRICS_H_
