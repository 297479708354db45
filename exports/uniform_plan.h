// Plans with one strategy for all layers: the only plans that the files of Megatron-LM, DeepSpeed,
// Accelerate and torchtitan can express. Their exporters take the facts of a plan from here, and
// their importers (clients/import) make a plan of the facts.

#ifndef PARPLAN_EXPORTS_UNIFORM_PLAN_H_
#define PARPLAN_EXPORTS_UNIFORM_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The facts of such a plan. Embedding and head have the degrees and the sharding of the decoder
// layers and are never recomputed. The expert-parallel degree of layers without experts is 1, and
// they have no tensor degree of experts. The schedule is not kept: it is interleaved 1F1B with
// several virtual stages a device, and 1F1B otherwise.
struct UniformPlan {
  // The fields of `Plan` (planner/model/plan.h) with these names.
  int device_count = 0;
  int64_t global_batch_size = 0;
  int64_t micro_batch_count = 1;
  int virtual_stage_count = 1;
  // The field of `Plan` with this name: 0 for groups of as many micro-batches as the pipeline has
  // devices.
  int64_t micro_batch_group_size = 0;
  // Layers of each stage with embedding and head, in the order of the model. The first and the last
  // are above 0; a 0 between them is a stage that only hands on what it receives.
  std::vector<int> stage_layer_counts;
  // The strategy of a decoder layer; its expert-parallel degree and its tensor degree of experts
  // are those of the layers with experts, 1 and 0 if the model has none.
  Strategy strategy;
  // Used if `strategy` recomputes whole layers. 0: every decoder layer is recomputed. Above 0: so
  // many decoder layers at the beginning of each stage (virtual stages one by one), or all of a
  // stage that has fewer; layers that predict further tokens are counted with them, and are not
  // recomputed then.
  int recomputed_layer_count = 0;

  int pipeline_parallel_degree() const {
    return static_cast<int>(stage_layer_counts.size()) / virtual_stage_count;
  }
  // Returns the samples of one micro-batch on one data-parallel replica, which is what these
  // programs call micro-batch size. Exact for the facts of `UniformPlanOf`; both divisions round
  // down otherwise.
  int64_t micro_batch_size_per_rank() const {
    return global_batch_size / micro_batch_count / strategy.data_parallel_degree;
  }
  friend bool operator==(const UniformPlan&, const UniformPlan&) = default;
};

// Returns OK if `model` is an embedding, one or more decoder layers and a head. Otherwise returns
// INVALID_ARGUMENT (SPEC_INVALID) for `model.layer_runs`, with the first layer that is out of place
// and `program`, the name of the program that cannot run it.
absl::Status RequireDecoderModel(const ModelSpec& model, absl::string_view program);

// Returns the number of layers of `model` that predict further tokens. REQUIRES, unchecked:
// `RequireDecoderModel(model, ...)` is OK.
int FurtherTokenCount(const ModelSpec& model);
// Returns the number of decoder layers without those that predict further tokens. REQUIRES,
// unchecked: `RequireDecoderModel(model, ...)` is OK.
int DecoderLayerCount(const ModelSpec& model);

// Whether the program runs stages without layers between the first and the last.
enum class EmptyStages { kRefused, kAllowed };

// Returns the facts of `plan`, from which `PlanOf` makes `plan` again, but for runs that could be
// one and are one then (`WithJoinedRuns`, layer_strategies.h). Every other plan is
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, the layer if it is about one, and
// `program`:
//   - models that `RequireDecoderModel` refuses, and plans for another number of layers, with
//     layers in another order, or in runs of several definitions;
//   - GPipe; no stages;
//   - a `virtual_stage_count` that does not divide the stages; one above 1 with degree 1 or under
//     another schedule than interleaved 1F1B; interleaved 1F1B with a count of 1;
//   - a `micro_batch_group_size` other than 0 without virtual stages, one that is no larger than
//     the pipeline degree, and one that `IsGroupSize` (planner/model/pass_order.h) does not allow;
//   - stages of unequal ranks, of ranks out of order, or of other ranks than the degrees multiply
//     to; a first or last stage without layers, and other stages without unless `empty_stages`
//     allows them;
//   - layers that differ in tensor-, data- or context-parallel degree, kind of context parallelism,
//     sharding or sequence parallelism; data-parallel ranks innermost;
//   - expert parallelism, or a tensor degree of experts, that differs between layers with experts,
//     or expert parallelism in a layer without;
//   - recomputation of embedding or head, selective recomputation of only some decoder layers,
//     modules recomputed by name that differ between them, and full recomputation of other layers
//     than `UniformPlan::recomputed_layer_count` describes;
//   - micro-batches that do not divide the batch, or that replicas do not divide.
absl::StatusOr<UniformPlan> UniformPlanOf(const Plan& plan, const ModelSpec& model,
                                          absl::string_view program,
                                          EmptyStages empty_stages = EmptyStages::kRefused);

// Returns the plan with these facts, whose stage i begins at rank (i modulo the pipeline degree)
// times the ranks of `strategy`. REQUIRES: `RequireDecoderModel(model, ...)` is OK;
// `stage_layer_counts` are not negative and add up to the layers of `model`, and
// `virtual_stage_count` divides their number. Aborts if the counts add up to more layers; the rest
// is not checked.
Plan PlanOf(const UniformPlan& facts, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_UNIFORM_PLAN_H_
