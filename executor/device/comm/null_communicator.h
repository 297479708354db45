// A communicator that moves nothing. `RunProbe` (profiler-agent) times layers with it on devices
// that compute while a host waits, where the time of collectives cannot be subtracted, and
// `RankTrainer` rehearses with it. What is received is whatever the buffers hold, so only times of
// computing mean anything.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_NULL_COMMUNICATOR_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_NULL_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "executor/device/comm/communicator.h"

namespace parplan {

// Used by one thread. Operations end at once and return no errors but those of CheckCall.
class NullCommunicator : public Communicator {
 public:
  NullCommunicator(std::string name, int rank, int size)
      : name_(std::move(name)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    PARPLAN_RETURN_IF_ERROR(CheckCall(call, rank_, size_, name_));
    return std::make_unique<Done>();
  }
  // Makes a group of this rank alone.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int /*key*/) override {
    if (color < 0) return nullptr;
    return std::make_unique<NullCommunicator>(name_, 0, 1);
  }
  void Abort(absl::string_view /*reason*/) override {}
  CommunicatorStats Stats() const override { return {}; }

 private:
  class Done : public PendingWork {
   public:
    absl::Status Wait() override { return absl::OkStatus(); }
    bool IsDone() override { return true; }
  };

  const std::string name_;
  const int rank_;
  const int size_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_NULL_COMMUNICATOR_H_
