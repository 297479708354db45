// A communicator that counts what is called, by the purpose of its group.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_COUNTED_COMMUNICATOR_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_COUNTED_COMMUNICATOR_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "executor/device/comm/communicator.h"

namespace parplan {

struct CallCount {
  int64_t calls = 0;
  // Those among them that run while their caller does something else.
  int64_t started_calls = 0;
  // Bytes of whole buffers, as nccl-tests counts them.
  int64_t bytes = 0;
};
using Traffic = std::map<std::pair<std::string, Operation>, CallCount>;

class CountedCommunicator : public Communicator {
 public:
  // Adds to `traffic`, which outlives it.
  CountedCommunicator(std::unique_ptr<Communicator> inner, std::string purpose, Traffic* traffic)
      : inner_(std::move(inner)), purpose_(std::move(purpose)), traffic_(traffic) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    ++Count(call).started_calls;
    return inner_->Start(call);
  }
  absl::Status Run(const CollectiveCall& call) override {
    Count(call);
    return inner_->Run(call);
  }
  absl::Status RunTogether(absl::Span<const CollectiveCall> calls) override {
    for (const CollectiveCall& call : calls) Count(call);
    return inner_->RunTogether(calls);
  }
  absl::StatusOr<std::unique_ptr<PendingWork>> StartTogether(
      absl::Span<const CollectiveCall> calls) override {
    for (const CollectiveCall& call : calls) ++Count(call).started_calls;
    return inner_->StartTogether(calls);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    return inner_->Split(color, key);
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  CallCount& Count(const CollectiveCall& call) {
    const bool is_share = call.operation == Operation::kAllGather ||
                          call.operation == Operation::kReduceScatter ||
                          call.operation == Operation::kAllToAll;
    CallCount& count = (*traffic_)[{purpose_, call.operation}];
    ++count.calls;
    count.bytes += call.count * ElementSize(call.type) * (is_share ? size() : 1);
    return count;
  }

  const std::unique_ptr<Communicator> inner_;
  const std::string purpose_;
  Traffic* const traffic_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_COUNTED_COMMUNICATOR_H_
