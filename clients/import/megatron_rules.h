// The arguments of Megatron-LM, core 0.14 to 0.20, and what becomes of each. The importers of
// Megatron-LM and the reader of published runs look arguments up in it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_RULES_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_RULES_H_

#include "absl/types/span.h"
#include "clients/import/argument_list.h"

namespace parplan {

// Returns the rules of the arguments of megatron/training/arguments.py that are known here: those
// of the model and of the plan, those that change neither and are ignored, and those that change
// one of them in a way that has no counterpart here, which are refused with the reason. The rules
// live as long as the process.
absl::Span<const ArgumentRule> MegatronRules();

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_RULES_H_
