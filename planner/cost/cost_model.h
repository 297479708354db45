// What layers cost under a strategy, measured or estimated.
//
// The model of Galvatron (PVLDB 16(3), section 3.4; TKDE 2024): time of computation,
// time of communication, and a slow-down while both overlap. Where we differ: times
// are tables over size or come from operations one by one instead of from one
// bandwidth, sharded data parallelism gathers parameters in forward and backward and
// hides them behind computation as far as it lasts, memory is itemised
// (rank_memory.h), and every assumption is listed. docs/cost-model.md has each
// formula.

#ifndef PARPLAN_PLANNER_COST_COST_MODEL_H_
#define PARPLAN_PLANNER_COST_COST_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/cost/collective_costs.h"
#include "planner/cost/layer_cost.h"
#include "planner/cost/layer_source.h"
#include "planner/cost/memory_overheads.h"
#include "planner/cost/size_curve.h"
#include "planner/model/calibration.h"
#include "planner/model/coefficients.h"
#include "planner/model/plan.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy.h"

namespace parplan {

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

  // Cost of a layer of definition `definition_index` of the model in a plan of
  // `pipeline_parallel_degree` stages. `micro_batch_size` is the samples of one
  // micro-batch over the whole stage, a multiple of strategy.data_parallel_degree.
  // Microseconds; no allocation.
  LayerCost CostOfLayer(int definition_index, const Strategy& strategy, int64_t micro_batch_size,
                        int pipeline_parallel_degree) const;

  // Time, forward and backward together, to bring the output of a layer under
  // `from` into the layout in which a layer of `definition_index` under `to`
  // reads it. 0 when ranks already hold their part (papers.md 1.4).
  Seconds TransitionTime(int definition_index, const Strategy& from, const Strategy& to,
                         int64_t micro_batch_size) const;

  // What that depends on, of one of the two.
  struct MoveTimes {
    // The ranks of a tensor-parallel group get all the activations of their samples, of
    // which each holds a part.
    Seconds gather;
    // The same, and tokens shared by context-parallel ranks brought together or taken
    // apart, forward and backward.
    Seconds regroup;
  };
  // In front of a layer of `definition_index`.
  MoveTimes MovesOf(int definition_index, const Strategy& strategy, int64_t micro_batch_size) const;
  static Seconds TransitionTime(const Strategy& from, const Strategy& to,
                                const MoveTimes& moves_from, const MoveTimes& moves_to);

  // Time to hand the output of a layer of `definition_index` under `from` to the next
  // stage, whose first layer is under `to`, one way: each rank sends its part, then the
  // receivers gather what `to` needs. `leaves_node` says that some rank's counterpart is
  // on another node, though stages may be smaller than one.
  Seconds SendTime(int definition_index, const Strategy& from, const Strategy& to, int rank_count,
                   bool leaves_node, int64_t micro_batch_size) const;
  // The part of it that does not depend on `to`; the rest is half the `TransitionTime`.
  Seconds MessageTime(int definition_index, const Strategy& from, int rank_count, bool leaves_node,
                      int64_t micro_batch_size) const;
  // What a rank of a stage whose last layer is so sends to the next stage.
  Bytes MessageSize(int definition_index, const Strategy& strategy, int64_t micro_batch_size) const;

  // Whether strategies with tensor parallelism use sequence parallelism on
  // layers of `definition_index`, because their memory was measured so.
  bool sequence_parallel(int definition_index) const {
    return layers_[definition_index].sequence_parallel();
  }

  // What a process holds besides tensors, and how sure that is.
  const MemoryOverheads& overheads() const { return overheads_; }
  // The same as the coefficients of `MemoryOfRank`.
  const Coefficients& memory_coefficients() const { return memory_coefficients_; }

  // Host time of a step outside the layers; 0 where nothing is known of it.
  Seconds step_overhead() const { return step_overhead_; }

  // Factors of the range of step times, by whether tensor-parallel groups span
  // nodes.
  const RangeFactors& step_range(TensorParallelReach reach) const {
    return reach == TensorParallelReach::kWithinNode ? step_within_node_ : step_across_nodes_;
  }

  const RuntimeTraits& runtime() const { return runtime_; }

  // Where the numbers of a definition come from.
  const LayerSource& layer_source(int definition_index) const { return layers_[definition_index]; }

  // What rests on no measurement, one sentence an entry, sorted.
  const std::vector<std::string>& estimated_items() const { return estimated_items_; }

  // Whether any layer time was measured, and whether any number was not.
  Confidence confidence() const { return confidence_; }

 private:
  friend class LayerPricing;
  CostModel() = default;

  // Times of one layer's collectives.
  struct Exchange {
    Seconds forward;
    Seconds backward;
  };
  Exchange TensorParallel(const LayerDefinition& definition, const Strategy& strategy,
                          double samples, Seconds hiding_backward) const;
  // As far as attention does not hide it, which is nothing of Ulysses.
  Exchange ContextParallel(const LayerDefinition& definition, const Strategy& strategy,
                           double samples, const LayerPasses& passes) const;
  Exchange UlyssesExchange(const LayerDefinition& definition, const Strategy& strategy,
                           double samples) const;
  Exchange ExpertParallel(const LayerDefinition& definition, const Strategy& strategy,
                          double samples) const;
  // Parameters gathered and gradients reduced, both whole.
  Exchange DataParallel(const LayerFootprint& footprint, const Strategy& strategy,
                        ShardingLevel level) const;
  // `forward` and `backward` are the computation that hides traffic.
  void AddDataParallel(LayerKind kind, const Exchange& exchange, ShardingLevel level,
                       Seconds forward, Seconds backward, LayerCost& cost) const;
  // Gradients or parameters that are exchanged in buckets, or alone.
  Seconds BucketTime(Collective collective, const GroupShape& group, double bytes,
                     bool in_buckets) const;
  // What communication that may overlap computation adds to it.
  Seconds Exposed(Seconds compute, Seconds communication, bool overlaps) const;
  // Gradients of a table of which both the first and the last stage have a copy.
  bool SharesTable(const LayerDefinition& definition) const;
  Seconds TiedTableSync(const LayerFootprint& footprint, int pipeline_parallel_degree) const;
  // What a rank sends to the next stage, before any scattering.
  double MessageBytes(const LayerDefinition& definition, const Strategy& strategy,
                      double samples) const;
  // Bytes of one activation or parameter in a message.
  double ElementBytes() const {
    return static_cast<double>(BytesPerElement(TraitsOf(precision_).communication));
  }

  void ResolveOverheads(const PlanningProblem& problem, bool has_overlap, ResolutionNotes& notes);
  void ResolveRanges(const PlanningProblem& problem);
  void ResolveOptimizer(const PlanningProblem& problem);
  // Of the step over a layer's parameters, of which `replica_count` ranks have the same.
  Seconds OptimizerTime(int64_t parameter_count, ShardingLevel level, int replica_count) const;

  Precision precision_ = Precision::kBf16;
  Optimizer optimizer_ = Optimizer::kAdam;
  RuntimeTraits runtime_;
  int device_count_ = 1;
  int devices_per_node_ = 1;
  // Of the head's table, where it is the embedding's; else 0.
  int tied_vocabulary_size_ = 0;
  double overlap_slowdown_ = 1.0;
  std::optional<DeviceDescription> device_;
  // Over the parameters a device steps; absent where the optimizer was not measured.
  std::optional<SizeCurve> optimizer_time_;
  Coefficients coefficients_;
  Coefficients memory_coefficients_;
  MemoryOverheads overheads_;
  Seconds step_overhead_;
  RangeFactors step_within_node_;
  RangeFactors step_across_nodes_;
  // One entry a definition of the model.
  std::vector<LayerSource> layers_;
  CollectiveCosts collectives_;
  std::vector<std::string> estimated_items_;
  Confidence confidence_ = Confidence::kMeasured;
};

// Time of computation `compute` and communication `communication` that run at
// the same time, each `slowdown` times slower while the other runs:
// max(a, d) + (k - 1) * min(a, d) (papers.md 1.5). REQUIRES slowdown >= 1.
Seconds OverlappedTime(Seconds compute, Seconds communication, double slowdown);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_COST_MODEL_H_
