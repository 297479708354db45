// The common parts of plans for PyTorch: names of modules, and what every such plan must be. The
// exporters torch-pipelining, fsdp2 and torchtitan use them, and the importer of torchtitan.

#ifndef PARPLAN_EXPORTS_TORCH_PLAN_H_
#define PARPLAN_EXPORTS_TORCH_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns the modules of layer `layer` by the names that torchtitan's decoders give them:
// `tok_embeddings`; `layers.0`, counted without the embedding; `norm` and `lm_head` for the head.
// REQUIRES, unchecked: the model is an embedding, other layers and a head, and has layer `layer`,
// counted from 0.
std::vector<std::string> TorchModulesOf(const ModelSpec& model, int layer);

// Returns INVALID_ARGUMENT (SPEC_INVALID) for a model with layers that predict further tokens: they
// are no `layers.N` of a decoder, and have no names here.
absl::Status CheckHasNamedLayers(const ModelSpec& model);

// Returns OK for a model of an embedding, encoder or decoder layers and a head, none of which
// predicts further tokens. INVALID_ARGUMENT (SPEC_INVALID) with the layer for all others, of which
// `program` runs no plan.
absl::Status CheckTorchModel(const ModelSpec& model, absl::string_view program);

// Checks for a model that `CheckTorchModel` accepts, and a plan of it that can run at all: stages
// of equal ranks in order with at least one layer, in runs as `StagePlan` asks, virtual stages only
// of the interleaved schedule and beside a pipeline, no `micro_batch_group_size`, degrees that
// multiply to the ranks of a stage and divide samples, tokens, heads and matrices, context
// parallelism by a plain ring, Ulysses or, if `may_gather`, by keys and values gathered, no rank
// order or kind of context parallelism without the degrees that give it a meaning, recomputation
// and experts only where the layer has them, no modules recomputed by name, experts on no other
// ranks than the rest of their layer, at most `kMaxForwardPassCount` (planner/model/plan.h) forward
// passes, and a tied head that is spread as the embedding is and, on other ranks, not sharded.
// INVALID_ARGUMENT (SPEC_INVALID) with field and reason, and the layer if it is about one.
// `program` is named in the error. Precision, frozen layers, and whether what is sharded has a
// second replica are not checked. O(layers).
absl::Status CheckTorchPlan(const Plan& plan, const ModelSpec& model, absl::string_view program,
                            bool may_gather);

// Returns the field that holds the strategy of layer `layer` of `plan`, for example
// `stages[1].layer_runs[0].strategy`. Returns `stages` if the plan has no such layer.
std::string StrategyFieldOf(const Plan& plan, int layer);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_TORCH_PLAN_H_
