#include "executor/apply/step_meter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "planner/program/rank_program.h"

namespace parplan {
namespace {

// Limits on the kinds of collectives that a window keeps, and on the times of each, so that memory
// and messages stay small. Not measured: plans have a few dozen kinds.
constexpr size_t kMaxCollectiveCount = 256;
constexpr size_t kMaxSampleCount = 256;

// Returns the phase that a wait in a group counts for within a pass over a layer.
StepPhase WaitOf(const std::string& purpose) {
  if (purpose == group_purpose::kTensor) return StepPhase::kTensorParallel;
  if (purpose == group_purpose::kContext) return StepPhase::kContextParallel;
  if (purpose == group_purpose::kGradient) return StepPhase::kShardedDataParallel;
  if (purpose == group_purpose::kStage) return StepPhase::kResharding;
  if (purpose == group_purpose::kTied) return StepPhase::kGradientSync;
  if (absl::StartsWith(purpose, group_purpose::kForward) ||
      absl::StartsWith(purpose, group_purpose::kBackward)) {
    return StepPhase::kPipeline;
  }
  return StepPhase::kIdle;
}

StepPhase ComputingIn(TrainerPhase phase) {
  switch (phase) {
    case TrainerPhase::kForward:
      return StepPhase::kForward;
    case TrainerPhase::kRecompute:
      return StepPhase::kRecompute;
    case TrainerPhase::kBackward:
      return StepPhase::kBackward;
    case TrainerPhase::kReshard:
      return StepPhase::kResharding;
    case TrainerPhase::kReceive:
    case TrainerPhase::kSend:
      return StepPhase::kPipeline;
    case TrainerPhase::kGradientSync:
      return StepPhase::kGradientSync;
    case TrainerPhase::kOptimizer:
      return StepPhase::kOptimizer;
    default:
      return StepPhase::kIdle;
  }
}

// Returns the phase that a wait counts for: within a pass over a layer that of the group, elsewhere
// that of the rank.
StepPhase WaitingIn(TrainerPhase phase, StepPhase wait) {
  switch (phase) {
    case TrainerPhase::kForward:
    case TrainerPhase::kRecompute:
    case TrainerPhase::kBackward:
      return wait;
    default:
      return ComputingIn(phase);
  }
}

absl::Duration At(std::vector<absl::Duration>& samples, double share) {
  if (samples.empty()) return absl::ZeroDuration();
  const ptrdiff_t index = std::lround(share * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + index, samples.end());
  return samples[index];
}

absl::Duration MedianOf(std::vector<absl::Duration>& samples) {
  const absl::Duration upper = At(samples, 0.5);
  if (samples.size() % 2 == 1 || samples.empty()) return upper;
  // nth_element has left no larger value before the upper middle.
  const auto middle = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 2);
  return (upper + *std::max_element(samples.begin(), middle)) / 2;
}

// Returns the distance between consecutive ranks; 0 if distances differ.
int StrideOf(const std::vector<int>& ranks) {
  if (ranks.size() < 2) return 0;
  const int stride = ranks[1] - ranks[0];
  for (size_t k = 2; k < ranks.size(); ++k) {
    if (ranks[k] - ranks[k - 1] != stride) return 0;
  }
  return std::max(stride, 0);
}

int64_t MessageSize(const CollectiveCall& call, int participant_count) {
  const int64_t bytes = call.count * ElementSize(call.type);
  switch (call.operation) {
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return bytes * participant_count;
    case Operation::kAllReduce:
    case Operation::kBroadcast:
    case Operation::kSend:
    case Operation::kReceive:
    case Operation::kBarrier:
      break;
  }
  return bytes;
}

}  // namespace

class StepMeter::Metered : public Communicator {
 public:
  Metered(StepMeter& meter, std::string purpose, const std::vector<int>& ranks,
          std::unique_ptr<Communicator> inner)
      : meter_(meter),
        wait_(WaitOf(purpose)),
        purpose_(std::move(purpose)),
        stride_(StrideOf(ranks)),
        inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }

  absl::StatusOr<std::unique_ptr<PendingWork>> Start(const CollectiveCall& call) override {
    const absl::Duration begin = meter_.Now();
    absl::StatusOr<std::unique_ptr<PendingWork>> work = inner_->Start(call);
    meter_.AddWait(wait_, begin);
    if (!work.ok()) return work.status();
    return std::make_unique<Pending>(*this, *std::move(work));
  }
  absl::Status Run(const CollectiveCall& call) override {
    meter_.Settle();
    const absl::Duration begin = meter_.Now();
    const absl::Status status = inner_->Run(call);
    meter_.Settle();
    meter_.AddWait(wait_, begin);
    const bool is_collective = call.operation != Operation::kSend &&
                               call.operation != Operation::kReceive &&
                               call.operation != Operation::kBarrier;
    if (is_collective && stride_ > 0 && call.count > 0) {
      meter_.AddCollective({call.operation, size(), stride_, MessageSize(call, size())},
                           meter_.Now() - begin);
    }
    return status;
  }
  absl::Status RunTogether(absl::Span<const CollectiveCall> calls) override {
    meter_.Settle();
    const absl::Duration begin = meter_.Now();
    const absl::Status status = inner_->RunTogether(calls);
    meter_.Settle();
    meter_.AddWait(wait_, begin);
    return status;
  }
  absl::StatusOr<std::unique_ptr<PendingWork>> StartTogether(
      absl::Span<const CollectiveCall> calls) override {
    const absl::Duration begin = meter_.Now();
    absl::StatusOr<std::unique_ptr<PendingWork>> work = inner_->StartTogether(calls);
    meter_.AddWait(wait_, begin);
    if (!work.ok()) return work.status();
    return std::make_unique<Pending>(*this, *std::move(work));
  }
  absl::Status Warm() override { return inner_->Warm(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    absl::StatusOr<std::unique_ptr<Communicator>> part = inner_->Split(color, key);
    if (!part.ok() || *part == nullptr) return part;
    // The ranks of the new group are not known here, so its stride counts as unknown.
    return std::make_unique<Metered>(meter_, purpose_, std::vector<int>(), *std::move(part));
  }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  CommunicatorStats Stats() const override { return inner_->Stats(); }

 private:
  class Pending : public PendingWork {
   public:
    Pending(Metered& of, std::unique_ptr<PendingWork> inner) : of_(of), inner_(std::move(inner)) {}
    absl::Status Wait() override {
      of_.meter_.Settle();
      const absl::Duration begin = of_.meter_.Now();
      absl::Status status = inner_->Wait();
      of_.meter_.Settle();
      of_.meter_.AddWait(of_.wait_, begin);
      return status;
    }
    bool IsDone() override { return inner_->IsDone(); }

   private:
    Metered& of_;
    const std::unique_ptr<PendingWork> inner_;
  };

  StepMeter& meter_;
  const StepPhase wait_;
  const std::string purpose_;
  const int stride_;
  const std::unique_ptr<Communicator> inner_;
};

StepMeter::StepMeter(const Options& options, ArrayPool& pool) : options_(options), pool_(pool) {}

std::unique_ptr<Communicator> StepMeter::Meter(const std::string& purpose,
                                               const std::vector<int>& ranks,
                                               std::unique_ptr<Communicator> inner) {
  return std::make_unique<Metered>(*this, purpose, ranks, std::move(inner));
}

void StepMeter::Enter(TrainerPhase phase, int /*layer_index*/) {
  if (phase == phase_) return;
  Settle();
  const absl::Duration now = Now();
  times_[static_cast<int>(ComputingIn(phase_))] += (now - since_) - (waited_ - waited_before_);
  phase_ = phase;
  since_ = now;
  waited_before_ = waited_;
}

void StepMeter::Settle() {
  // The trainer synchronizes too and gets the errors of the device.
  if (options_.kernels != nullptr && takes_phases_) options_.kernels->Synchronize().IgnoreError();
}

void StepMeter::AddWait(StepPhase wait, absl::Duration begin) {
  const absl::Duration time = Now() - begin;
  waited_ += time;
  times_[static_cast<int>(WaitingIn(phase_, wait))] += time;
}

void StepMeter::AddCollective(const CollectiveKey& key, absl::Duration time) {
  // On an asynchronous device a wait does not last as long as the collective.
  if (options_.kernels != nullptr) return;
  auto found = collectives_.find(key);
  if (found == collectives_.end()) {
    if (collectives_.size() >= kMaxCollectiveCount) return;
    found = collectives_.emplace(key, std::vector<absl::Duration>()).first;
  }
  if (found->second.size() < kMaxSampleCount) found->second.push_back(time);
}

void StepMeter::BeginStep(int64_t step) {
  if (step_count_ == 0) {
    first_step_ = step;
    pool_.ResetPeaks();
  }
  takes_phases_ = options_.kernels == nullptr || step_count_ == 0;
  times_ = {};
  phase_ = TrainerPhase::kOutside;
  begin_ = since_ = Now();
  waited_ = waited_before_ = absl::ZeroDuration();
}

std::optional<StepWindow> StepMeter::EndStep() {
  const absl::Duration end = Now();
  times_[static_cast<int>(StepPhase::kIdle)] += (end - since_) - (waited_ - waited_before_);
  ++step_count_;
  if (takes_phases_) phases_.push_back(times_);
  // The first step waited for the device in every phase; its time only counts if it is the only
  // one.
  if (options_.kernels != nullptr && step_count_ == 2) steps_.clear();
  steps_.push_back(end - begin_);
  if (step_count_ < options_.window_step_count) return std::nullopt;
  return Flush();
}

std::optional<StepWindow> StepMeter::Flush() {
  if (step_count_ == 0) return std::nullopt;
  StepWindow window = {.rank = options_.rank,
                       .first_step = first_step_,
                       .step_count = step_count_,
                       .median_step = MedianOf(steps_),
                       .memory_at_peak = pool_.at_peak(),
                       .context_memory = options_.context_memory};
  for (int phase = 0; phase < kStepPhaseCount; ++phase) {
    std::vector<absl::Duration> samples;
    for (const PhaseTimes& times : phases_) samples.push_back(times[phase]);
    window.phases[phase] = MedianOf(samples);
  }
  for (auto& [key, samples] : collectives_) {
    const auto& [operation, participants, stride, size] = key;
    const absl::Duration median = MedianOf(samples);
    if (median <= absl::ZeroDuration()) continue;
    window.collectives.push_back({.operation = operation,
                                  .participant_count = participants,
                                  .rank_stride = stride,
                                  .message_size = size,
                                  .median = median,
                                  .p90 = std::max(median, At(samples, 0.9)),
                                  .sample_count = static_cast<int>(samples.size())});
  }
  step_count_ = 0;
  steps_.clear();
  phases_.clear();
  collectives_.clear();
  return window;
}

}  // namespace parplan
