// The processes of one measurement of this node, whichever program they run. `MeasureNode` starts
// them and waits.

#ifndef PARPLAN_PROFILER_AGENT_MEASURE_NODE_JOB_H_
#define PARPLAN_PROFILER_AGENT_MEASURE_NODE_JOB_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// A running measurement. No process of it outlives this object.
class NodeJob {
 public:
  virtual ~NodeJob() = default;

  // Waits for the processes and returns what they measured. ABORTED with the reason if they failed,
  // DEADLINE_EXCEEDED after the job's time limit, CANCELLED after `Stop` or a signal, DATA_LOSS if
  // they returned no profile. To be called once.
  virtual absl::StatusOr<v1::Profile> Wait() = 0;
  // Begins to end the processes (SIGTERM, after 5 s SIGKILL) and returns at once; `Wait` then
  // returns CANCELLED with `why`, that of the first call, unless the job has ended or failed
  // before. Safe to call from any thread.
  virtual void Stop(const std::string& why) = 0;
  // Returns the processes that may use devices; some may have ended already. Safe to call from any
  // thread.
  virtual std::vector<pid_t> pids() const = 0;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_MEASURE_NODE_JOB_H_
