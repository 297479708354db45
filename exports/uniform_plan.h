// Plans with one strategy for all layers, which is all that the arguments of Megatron-LM can
// express.

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
// layers, are never recomputed, and have no experts to spread; nor have layers without experts.
struct UniformPlan {
  int device_count = 0;
  int64_t global_batch_size = 0;
  int64_t micro_batch_count = 1;
  int virtual_stage_count = 1;
  // Layers of each stage with embedding and head, in the order of the model.
  std::vector<int> stage_layer_counts;
  // The strategy of a decoder layer with experts, if the model has such a layer.
  Strategy strategy;
  // If `strategy` recomputes whole layers: the first so many decoder layers of each stage do so,
  // and no layer that predicts further tokens. 0: all of both.
  int recomputed_layer_count = 0;

  int pipeline_parallel_degree() const {
    return static_cast<int>(stage_layer_counts.size()) / virtual_stage_count;
  }
  // Returns the samples of one micro-batch on one data-parallel replica, which is what these
  // programs call micro-batch size.
  int64_t micro_batch_size_per_rank() const {
    return global_batch_size / micro_batch_count / strategy.data_parallel_degree;
  }
  friend bool operator==(const UniformPlan&, const UniformPlan&) = default;
};

// Returns INVALID_ARGUMENT (SPEC_INVALID) naming the run of layers unless `model` is an embedding,
// decoder layers and a head. `program` is named in the error.
absl::Status RequireDecoderModel(const ModelSpec& model, absl::string_view program);

// Returns the layers of `model` that predict further tokens, and its decoder layers before them.
// REQUIRES: `RequireDecoderModel`.
int FurtherTokenCount(const ModelSpec& model);
int DecoderLayerCount(const ModelSpec& model);

// Returns the facts of `plan`, for which `PlanOf` gives `plan` again. INVALID_ARGUMENT
// (SPEC_INVALID) with field, layer and reason for every other plan: layers that differ in degrees,
// order of ranks, sharding or sequence parallelism, stages of unequal ranks, ranks or layers out of
// order, data-parallel ranks innermost, recomputation that is not the beginning of each stage,
// GPipe, interleaving without a pipeline, micro-batches that replicas do not divide. `program` is
// named in the error.
absl::StatusOr<UniformPlan> UniformPlanOf(const Plan& plan, const ModelSpec& model,
                                          absl::string_view program);

// Returns the plan with these facts. REQUIRES: `RequireDecoderModel`, and `stage_layer_counts` are
// above 0 and add up to the layers of `model`.
Plan PlanOf(const UniformPlan& facts, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_UNIFORM_PLAN_H_
