#include "executor/device/comm/staged_communicator.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace parplan {

// An operation between copies in host memory.
class StagedCommunicator::Work : public PendingWork {
 public:
  Work(StagingCopies& copies, const CollectiveCall& call, int64_t send_bytes, int64_t receive_bytes)
      : copies_(copies), call_(call), sent_(send_bytes), received_(receive_bytes) {}

  ~Work() override {
    // The inner operation uses the buffers of this object until it has ended.
    if (inner_ != nullptr && !result_.has_value()) static_cast<void>(inner_->Wait());
  }

  absl::Status Start(Communicator& inner) {
    CollectiveCall staged = call_;
    // A null buffer stays null, so that `inner` refuses the call.
    if (call_.send != nullptr) staged.send = sent_.data();
    if (call_.receive != nullptr) staged.receive = received_.data();
    if (!sent_.empty() && call_.send != nullptr) {
      PARPLAN_RETURN_IF_ERROR(copies_.ToHost(call_.send, sent_.data(), Size(sent_)));
    }
    PARPLAN_ASSIGN_OR_RETURN(inner_, inner.Start(staged));
    return absl::OkStatus();
  }

  absl::Status Wait() override {
    if (result_.has_value()) return *result_;
    result_ = inner_->Wait();
    if (result_->ok() && !received_.empty()) {
      result_ = copies_.FromHost(received_.data(), call_.receive, Size(received_));
    }
    return *result_;
  }
  bool IsDone() override { return inner_->IsDone(); }

 private:
  static int64_t Size(const std::vector<char>& buffer) {
    return static_cast<int64_t>(buffer.size());
  }

  StagingCopies& copies_;
  const CollectiveCall call_;
  std::vector<char> sent_;
  std::vector<char> received_;
  std::unique_ptr<PendingWork> inner_;
  std::optional<absl::Status> result_;
};

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> inner, StagingCopies& copies)
    : inner_(std::move(inner)), copies_(copies) {}

absl::StatusOr<std::unique_ptr<PendingWork>> StagedCommunicator::Start(const CollectiveCall& call) {
  PARPLAN_RETURN_IF_ERROR(CheckCall(call, rank(), size(), name()));
  auto work = std::make_unique<Work>(copies_, call, SendBytes(call, rank(), size()),
                                     ReceiveBytes(call, size()));
  PARPLAN_RETURN_IF_ERROR(work->Start(*inner_));
  return work;
}

absl::StatusOr<std::unique_ptr<Communicator>> StagedCommunicator::Split(int color, int key) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> part, inner_->Split(color, key));
  if (part == nullptr) return part;
  return std::make_unique<StagedCommunicator>(std::move(part), copies_);
}

}  // namespace parplan
