// A job as communicators of any back end see it: who takes part, what ranks tell each other,
// and groups that go through the processor.

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

// Of one rank. `Publish`, `Await`, `Health` and `Abort` may be called from any thread.
class RankContext : public JobWatch {
 public:
  // This rank, and how many there are.
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // How long an operation may take, from its start.
  virtual absl::Duration operation_timeout() const = 0;

  // The communicator of `ranks` of the job, in that order, between buffers of the processor.
  // All of them ask for it; other ranks do not.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
      const std::string& name, const std::vector<int>& ranks) = 0;

  // Tells all ranks a fact that never changes.
  virtual absl::Status Publish(const std::string& key, const std::string& value) = 0;
  // The fact; waits for it as long as ranks may be apart.
  virtual absl::StatusOr<std::string> Await(const std::string& key) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RANK_CONTEXT_H_
