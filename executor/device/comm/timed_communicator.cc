#include "executor/device/comm/timed_communicator.h"

#include <utility>

#include "base/status_macros.h"

namespace parplan {
namespace {

// Adds the time between its construction and its end to a meter.
class Lap {
 public:
  explicit Lap(WaitMeter* meter) : meter_(meter), start_(meter->now()) {}
  ~Lap() { meter_->waited += meter_->now() - start_; }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  WaitMeter* const meter_;
  const absl::Duration start_;
};

class TimedWork : public PendingWork {
 public:
  TimedWork(std::unique_ptr<PendingWork> inner, WaitMeter* meter)
      : inner_(std::move(inner)), meter_(meter) {}
  absl::Status Wait() override {
    const Lap lap(meter_);
    return inner_->Wait();
  }
  bool IsDone() override {
    const Lap lap(meter_);
    return inner_->IsDone();
  }

 private:
  const std::unique_ptr<PendingWork> inner_;
  WaitMeter* const meter_;
};

}  // namespace

TimedCommunicator::TimedCommunicator(std::unique_ptr<Communicator> inner, WaitMeter* meter)
    : inner_(std::move(inner)), meter_(meter) {}

absl::StatusOr<std::unique_ptr<PendingWork>> TimedCommunicator::Start(const CollectiveCall& call) {
  const Lap lap(meter_);
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PendingWork> work, inner_->Start(call));
  return std::make_unique<TimedWork>(std::move(work), meter_);
}

absl::Status TimedCommunicator::Run(const CollectiveCall& call) {
  const Lap lap(meter_);
  return inner_->Run(call);
}

absl::Status TimedCommunicator::RunTogether(absl::Span<const CollectiveCall> calls) {
  const Lap lap(meter_);
  return inner_->RunTogether(calls);
}

absl::StatusOr<std::unique_ptr<PendingWork>> TimedCommunicator::StartTogether(
    absl::Span<const CollectiveCall> calls) {
  const Lap lap(meter_);
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PendingWork> work, inner_->StartTogether(calls));
  return std::make_unique<TimedWork>(std::move(work), meter_);
}

absl::StatusOr<std::unique_ptr<Communicator>> TimedCommunicator::Split(int color, int key) {
  const Lap lap(meter_);
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, inner_->Split(color, key));
  if (part == nullptr) return nullptr;
  return std::make_unique<TimedCommunicator>(std::move(part), meter_);
}

}  // namespace parplan
