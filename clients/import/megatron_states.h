// Notes on the number formats in which Megatron-LM's optimizer keeps its states.
// `ImportMegatronRun` (megatron_run.h) adds them to its own.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/argument_list.h"

namespace parplan {

// Returns notes, one sentence each, on --use-precision-aware-optimizer and the formats of its
// states (--main-grads-dtype, --main-params-dtype, --exp-avg-dtype, --exp-avg-sq-dtype): how many
// bytes of states and gradients the run keeps for a parameter, and how many a prediction of parplan
// counts. Empty without these arguments, or if both numbers are the same.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument for what Megatron-LM refuses as well: an
// unknown format, a format other than fp32 without --use-precision-aware-optimizer, and that switch
// with an optimizer other than Adam or with states that are not sharded
// (--use-distributed-optimizer, --use-megatron-fsdp). REQUIRES, unchecked: `arguments` were read by
// `MegatronRules` (megatron_rules.h).
absl::StatusOr<std::vector<std::string>> NotesOnMegatronStates(const ArgumentList& arguments);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_
