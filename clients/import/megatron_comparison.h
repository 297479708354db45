// Compares arguments of Megatron-LM with a model. `MegatronPlanOf` calls it for a model that is not
// made from the arguments.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_

#include "absl/status/status.h"
#include "clients/import/argument_list.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns INVALID_ARGUMENT (SPEC_INVALID) with file and argument if the arguments are of another
// model. Sizes that are absent are those of the model; --num-layers must be there. REQUIRES:
// `model` is an embedding, decoder layers and a head.
absl::Status CompareMegatronModel(const ArgumentList& arguments, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_COMPARISON_H_
