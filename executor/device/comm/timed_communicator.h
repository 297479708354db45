// A communicator that measures the time its owner spends in it. `ProbeRun` subtracts that time from
// the times of layers.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_TIMED_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_TIMED_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <string>

#include "base/system/steady_clock.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// Time that a rank's thread spent in communicators instead of computing: waiting for others and
// moving bytes, in `Start`, `Run`, `RunTogether`, `StartTogether`, `Split`, `PendingWork::Wait` and
// `IsDone`. Used by that thread only.
struct WaitMeter {
  // Sum since the meter was made.
  absl::Duration waited;
  // The clock; not empty.
  std::function<absl::Duration()> now = SteadyNow;
};

// A communicator that does what `inner` does, and adds the time of each call to a meter.
class TimedCommunicator : public Communicator {
 public:
  // Adds the time to `meter`, not null, which several communicators of one thread may share and
  // which outlives this one and its pending work. The time of `Warm` is not added.
  TimedCommunicator(std::unique_ptr<Communicator> inner, WaitMeter* meter);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override;
  absl::Status Run(const CollectiveCall& call) override;
  absl::Status RunTogether(absl::Span<const CollectiveCall> calls) override;
  absl::StatusOr<std::unique_ptr<PendingWork>> StartTogether(
      absl::Span<const CollectiveCall> calls) override;
  absl::Status Warm() override { return inner_->Warm(); }
  // The communicators of a split add to the same meter.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  const std::unique_ptr<Communicator> inner_;
  WaitMeter* const meter_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_TIMED_COMMUNICATOR_H_
