// What layers cost under a strategy, from measured profiles.
//
// The model of Galvatron (PVLDB 16(3), section 3.4; TKDE 2024): compute from
// measured layer times, communication from measured collectives, and a measured
// slow-down while both overlap. Where we differ: collective times are tables
// over message size instead of one bandwidth, sharded data parallelism gathers
// parameters in forward and backward and hides them behind computation as far
// as it lasts, recomputation and gathered parameters count as transient memory,
// and every assumption is listed. docs/cost-model.md has each formula.

#ifndef PARPLAN_PLANNER_COST_COST_MODEL_H_
#define PARPLAN_PLANNER_COST_COST_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/base/units.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/layer_profile.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

// One layer on one device under one strategy.
struct LayerCost {
  // One micro-batch, without gradient synchronisation.
  Seconds forward;
  Seconds backward;
  // Adds up to forward + backward.
  TimeItems time;
  // What the synchronisation of gradients adds to the last micro-batch of a
  // step, as far as the backward pass of the layer does not hide it.
  Seconds gradient_sync;

  // Held all the time.
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  // Held from forward to backward, for each micro-batch in flight: all
  // activations, or the layer's input when it recomputes.
  Bytes kept_per_micro_batch;
  // Held only while the layer itself runs: its activations when it recomputes,
  // its gathered parameters and gradients when they are sharded.
  Bytes transient;

  Bytes states() const { return parameters + gradients + optimizer_states; }
};

// Costs of one problem. Immutable after `Create`, safe to read from any thread.
class CostModel {
 public:
  // Resolves every measurement the strategies of `problem` can ask for.
  // FAILED_PRECONDITION (PROFILE_MISSING) listing all that are missing, each
  // with layer, degree and shape, unless `rules().allow_estimates` and there
  // is something to estimate them from. INVALID_ARGUMENT (SPEC_INVALID) when
  // memory sizes together are beyond 2^61 bytes. The model keeps no reference to
  // `problem`.
  static absl::StatusOr<CostModel> Create(const PlanningProblem& problem);

  // Cost of a layer of definition `definition_index` of the model.
  // `micro_batch_size` is the samples of one micro-batch over the whole stage,
  // a multiple of strategy.data_parallel_degree. O(log points).
  LayerCost CostOfLayer(int definition_index, const Strategy& strategy,
                        int64_t micro_batch_size) const;

  // Time, forward and backward together, to bring the output of a layer under
  // `from` into the layout in which a layer of `definition_index` under `to`
  // reads it. 0 when ranks already hold their part (papers.md 1.4).
  Seconds TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                         int64_t micro_batch_size) const;

  // Time to hand the output of a layer of `definition_index` to a stage whose
  // ranks are `rank_count` further on, one way.
  Seconds SendTime(int definition_index, const Strategy& strategy, int rank_count,
                   int64_t micro_batch_size) const;

  // Whether strategies with tensor parallelism use sequence parallelism on
  // layers of `definition_index`, because their memory was measured so.
  bool sequence_parallel(int definition_index) const {
    return layers_[definition_index].sequence_parallel();
  }

  // Held by a process besides tensors.
  Bytes context_memory() const { return context_memory_; }

  // The measurements of a definition, as resolved.
  const LayerProfile& layer_profile(int definition_index) const {
    return layers_[definition_index];
  }

  // What rests on no measurement, one sentence an entry, sorted.
  const std::vector<std::string>& estimated_items() const { return estimated_items_; }

  // Whether any layer time was measured, and whether any number was not.
  Confidence confidence() const { return confidence_; }

 private:
  CostModel() = default;

  Precision precision_ = Precision::kBf16;
  Optimizer optimizer_ = Optimizer::kAdam;
  double overlap_slowdown_ = 1.0;
  Bytes context_memory_;
  // One entry a definition of the model.
  std::vector<LayerProfile> layers_;
  CollectiveTimes collectives_;
  std::vector<std::string> estimated_items_;
  Confidence confidence_ = Confidence::kMeasured;
};

// Time of computation `compute` and communication `communication` that run at
// the same time, each `slowdown` times slower while the other runs:
// max(a, d) + (k - 1) * min(a, d) (papers.md 1.5). REQUIRES slowdown >= 1.
Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COST_MODEL_H_
