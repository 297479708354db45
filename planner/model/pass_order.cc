#include "planner/model/pass_order.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace parplan {
namespace {

// The shape of a pipeline with two special cases resolved: a single device alternates between
// the directions without warm-up, and one virtual stage needs no groups.
class Order {
 public:
  Order(const PipelineShape& shape, int device)
      : devices_(shape.pipeline_parallel_degree),
        chunks_(shape.virtual_stage_count),
        micro_batches_(shape.micro_batch_count),
        device_(device),
        law_(TraitsOf(shape.schedule).warm_up),
        splits_backward_(TraitsOf(shape.schedule).backward_split ==
                         BackwardSplit::kInputsThenWeights) {
    PARPLAN_CHECK(devices_ > 0 && chunks_ > 0 && micro_batches_ > 0);
    PARPLAN_CHECK(device >= 0 && device < devices_);
    if (law_ == WarmUpLaw::kFillVirtualStages && chunks_ == 1) law_ = WarmUpLaw::kFillPipeline;
    PARPLAN_CHECK(chunks_ == 1 || devices_ == 1 || law_ == WarmUpLaw::kFillVirtualStages);
    if (law_ == WarmUpLaw::kFillVirtualStages) {
      group_ = std::max(devices_, shape.micro_batch_group_size);
      PARPLAN_CHECK(shape.micro_batch_group_size == 0 ||
                    IsGroupSize(shape.micro_batch_group_size, shape.pipeline_parallel_degree,
                                micro_batches_));
    }
  }

  // Finds the groups, which all but `IsAlone` and `WarmUpCount` need.
  void FindGroups() {
    const int64_t least = law_ == WarmUpLaw::kFillVirtualStages ? devices_ : 1;
    full_groups_ = (micro_batches_ - 1) / group_;
    last_slots_ = std::max(micro_batches_ - full_groups_ * group_, least);
  }

  bool IsAlone() const { return devices_ == 1; }
  bool splits_backward() const { return splits_backward_; }

  // Passes of one direction, those included that an incomplete group lacks.
  int64_t PositionCount() const { return (full_groups_ * group_ + last_slots_) * chunks_; }

  int64_t WarmUpCount() const {
    if (IsAlone()) return chunks_ - 1;
    const int64_t behind = devices_ - 1 - device_;
    switch (law_) {
      case WarmUpLaw::kAllForwardPasses:
        return micro_batches_;
      case WarmUpLaw::kFillPipeline:
        return behind;
      case WarmUpLaw::kFillVirtualStages:
        return 2 * behind + (chunks_ - 1) * group_;
    }
    PARPLAN_CHECK(false);
  }

  std::optional<PipelinePass> Forward(int64_t position) const {
    const Turn turn = TurnOf(position);
    return Pass(PassKind::kForward, turn.micro_batch, turn.number, ForwardTick(position));
  }
  std::optional<PipelinePass> Backward(int64_t position) const {
    const Turn turn = TurnOf(position);
    return Pass(splits_backward_ ? PassKind::kBackwardInputs : PassKind::kBackward,
                turn.micro_batch, chunks_ - 1 - turn.number, BackwardTick(position));
  }
  // Appends the weight passes that follow backward pass `position` of a split schedule: one, as
  // soon as `device` backward passes have gone before, and all that are left after the last one.
  void AppendWeights(int64_t position, std::vector<PipelinePass>& passes) const {
    const int64_t end = position + 1 == micro_batches_ ? micro_batches_ : position + 1 - device_;
    for (int64_t i = std::max<int64_t>(position - device_, 0); i < end; ++i) {
      passes.push_back(
          {PassKind::kBackwardWeights, static_cast<int>(device_), i, BackwardTick(position)});
    }
  }

  // One micro-batch through all stages and back.
  void AppendAlone(int64_t micro_batch, std::vector<PipelinePass>& passes) const {
    const int64_t first_tick = 2 * chunks_ * micro_batch;
    for (int stage = 0; stage < chunks_; ++stage) {
      passes.push_back({PassKind::kForward, stage, micro_batch, first_tick + stage});
    }
    for (int stage = static_cast<int>(chunks_) - 1; stage >= 0; --stage) {
      const int64_t tick = first_tick + 2 * chunks_ - 1 - stage;
      passes.push_back({splits_backward_ ? PassKind::kBackwardInputs : PassKind::kBackward, stage,
                        micro_batch, tick});
      if (!splits_backward_) continue;
      passes.push_back({PassKind::kBackwardWeights, stage, micro_batch, tick});
    }
  }

 private:
  // A micro-batch, and how many virtual stages had their turn in its group before.
  struct Turn {
    int64_t number = 0;
    int64_t micro_batch = 0;
  };
  Turn TurnOf(int64_t position) const {
    const int64_t group = std::min(position / (group_ * chunks_), full_groups_);
    const int64_t slots = group < full_groups_ ? group_ : last_slots_;
    const int64_t in_group = position - group * group_ * chunks_;
    return {in_group / slots, group * group_ + in_group % slots};
  }

  // With one virtual stage a device works in every second tick of a direction, so that its
  // neighbours, which do the opposite, exchange with it in the ticks between.
  int64_t ForwardTick(int64_t position) const {
    return law_ == WarmUpLaw::kFillVirtualStages ? position + device_ : 2 * position + device_;
  }
  int64_t BackwardTick(int64_t position) const {
    const int64_t behind = devices_ - 1 - device_;
    switch (law_) {
      case WarmUpLaw::kAllForwardPasses:
        // The last device ends its forward passes at tick 2 (m - 1) + P - 1.
        return 2 * (micro_batches_ - 1) + devices_ + behind + 2 * position;
      case WarmUpLaw::kFillPipeline:
        return 2 * position + devices_ + behind;
      case WarmUpLaw::kFillVirtualStages:
        // Backward passes follow forward passes `WarmUpCount` positions later.
        return position + WarmUpCount() + device_;
    }
    PARPLAN_CHECK(false);
  }

  std::optional<PipelinePass> Pass(PassKind kind, int64_t micro_batch, int64_t chunk,
                                   int64_t tick) const {
    if (micro_batch >= micro_batches_) return std::nullopt;
    return PipelinePass{kind, static_cast<int>(chunk * devices_ + device_), micro_batch, tick};
  }

  int64_t devices_;
  int64_t chunks_;
  int64_t micro_batches_;
  int64_t device_;
  WarmUpLaw law_;
  bool splits_backward_;
  // Micro-batches that go through one virtual stage before the next takes its turn; those of the
  // last group, missing ones included, are `last_slots_`.
  int64_t group_ = 1;
  int64_t full_groups_ = 0;
  int64_t last_slots_ = 1;
};

}  // namespace

bool IsGroupSize(int64_t group_size, int pipeline_parallel_degree, int64_t micro_batch_count) {
  if (group_size < pipeline_parallel_degree || group_size > micro_batch_count) return false;
  const int64_t rest = micro_batch_count % group_size;
  return rest == 0 || rest >= pipeline_parallel_degree;
}

std::vector<PipelinePass> PassOrder(const PipelineShape& shape, int device) {
  Order order(shape, device);
  order.FindGroups();
  std::vector<PipelinePass> passes;
  passes.reserve(static_cast<size_t>((order.splits_backward() ? int64_t{3} : int64_t{2}) *
                                     shape.virtual_stage_count * shape.micro_batch_count));
  if (order.IsAlone()) {
    for (int64_t i = 0; i < shape.micro_batch_count; ++i) order.AppendAlone(i, passes);
    return passes;
  }
  const int64_t positions = order.PositionCount();
  const int64_t warm_up = std::min(order.WarmUpCount(), positions);
  for (int64_t position = 0; position < positions + warm_up; ++position) {
    if (position < positions) {
      if (const auto pass = order.Forward(position)) passes.push_back(*pass);
    }
    if (position >= warm_up) {
      if (const auto pass = order.Backward(position - warm_up)) passes.push_back(*pass);
      if (order.splits_backward()) order.AppendWeights(position - warm_up, passes);
    }
  }
  return passes;
}

int64_t WarmUpPassCount(const PipelineShape& shape, int device) {
  return Order(shape, device).WarmUpCount();
}

}  // namespace parplan
