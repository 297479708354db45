// Compares arguments of Megatron-LM with a model. `MegatronPlanOf` (megatron_plan.h) calls it for a
// model that is not made from the arguments.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_

#include "absl/status/status.h"
#include "clients/import/argument_list.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns OK if the arguments may be those of `model`, else INVALID_ARGUMENT (SPEC_INVALID) with
// file and argument of the first difference.
//
// Compared are the number of layers, the length of the sequence, the sizes of embedding, attention,
// feed-forward parts and experts, windows, whether the embedding is tied, precision, the layers
// that multiply in 16 bits beside others that do so in fewer, and optimizer; norms, biases and
// positions are not compared. A size that is absent is taken to be the model's, but --num-layers
// must be there. Every other argument that is absent has Megatron-LM's default: switches such as
// --swiglu and --bf16 are off, there are no experts, shared experts, windows, layers for further
// tokens, compressed queries (--q-lora-rank) or groups of heads, and the optimizer is Adam.
// --padded-vocab-size is not compared.
//
// REQUIRES, unchecked: `arguments` were read by `MegatronRules` (megatron_rules.h), which refuse
// values that are no numbers; `model` is an embedding, decoder layers and a head.
absl::Status CompareMegatronModel(const ArgumentList& arguments, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_
