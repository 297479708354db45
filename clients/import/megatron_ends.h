// Pipelines of Megatron-LM that are even but for their ends: without a layout, but with arguments
// that count the embedding and the loss as layers or name the layers of the first and last rank.
// `MegatronPlanOf` (megatron_plan.h) calls both functions.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_ENDS_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_ENDS_H_

#include "absl/status/status.h"
#include "clients/import/argument_list.h"
#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns whether `arguments` has one of --account-for-embedding-in-pipeline-split,
// --account-for-loss-in-pipeline-split, --decoder-first-pipeline-num-layers and
// --decoder-last-pipeline-num-layers.
bool HasMegatronEnds(const ArgumentList& arguments);

// Sets `virtual_stage_count` and `stage_layer_counts` of `facts` for `pipeline` ranks: the layers
// of each virtual stage in the order of the model, the embedding in the first, the head and layers
// that predict further tokens in the last. INVALID_ARGUMENT (SPEC_INVALID) with file and argument
// if two ways to divide layers are given, or layers do not divide; `facts` must not be used then.
// REQUIRES, unchecked: HasMegatronEnds(arguments); `RequireDecoderModel` (exports/uniform_plan.h)
// accepts `model`; `stage_layer_counts` is empty.
absl::Status ReadMegatronEnds(const ArgumentList& arguments, const ModelSpec& model, int pipeline,
                              UniformPlan* facts);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_ENDS_H_
