// One rank's handle to its job, as communicators of any back end need it: who takes part, facts
// that ranks publish to each other, and groups whose messages go through host memory. `JobFabric`
// implements it.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_RANK_CONTEXT_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_RANK_CONTEXT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/cpu_communicator.h"

namespace parplan {

// One rank's handle to its job. `Publish`, `Await` and the methods of `JobWatch` may be called from
// any thread, everything else by the thread that owns it.
class RankContext : public JobWatch {
 public:
  // Number of this rank in the job, from 0, and the number of ranks.
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Limit on the time of one operation, from its start.
  virtual absl::Duration operation_timeout() const = 0;

  // Makes the communicator of `ranks` of the job, in that order, for buffers in host memory.
  // Collective: exactly these ranks call it, and it blocks until all of them have. `name` says what
  // the group is for. INVALID_ARGUMENT unless `ranks` are distinct ranks of the job, this one among
  // them; UNAVAILABLE or DEADLINE_EXCEEDED if one cannot be reached or does not come in time;
  // PERMISSION_DENIED or INVALID_ARGUMENT if a process that is no rank of the job answers in a
  // rank's place, DATA_LOSS if what it says is altered on its way; or the error of Health. An
  // error does not end the job (`Abort` does). This object outlives the communicator.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
      const std::string& name, const std::vector<int>& ranks) = 0;

  // Publishes a fact that never changes to all ranks. A second, different value of the same key
  // ends the job. The error of Health; INVALID_ARGUMENT for a text above kMaxFrameText (frame.h),
  // UNAVAILABLE or DEADLINE_EXCEEDED if the rendezvous does not take it, DATA_LOSS if something was
  // altered on its way.
  virtual absl::Status Publish(const std::string& key, const std::string& value) = 0;
  // Returns the fact that some rank published as `key`; blocks until it has. DEADLINE_EXCEEDED
  // naming the key if none does within the time that ranks may start apart
  // (`JobFabricOptions::join_timeout`), or the errors of `Publish`.
  virtual absl::StatusOr<std::string> Await(const std::string& key) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RANK_CONTEXT_H_
