// The formats in which Megatron-LM's optimizer keeps its states. `ImportMegatronRun`
// (megatron_run.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/argument_list.h"

namespace parplan {

// Returns notes, one sentence each, on --use-precision-aware-optimizer and the formats beside it:
// how many bytes of states and gradients the run keeps for a parameter, and how many the runtimes
// of a prediction price. No notes without these arguments, or if they change nothing.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument for what the program refuses as well: an
// unknown format, one other than fp32 without the optimizer, another optimizer than Adam, and
// states that are not sharded. `arguments` were read by `MegatronRules` (megatron_rules.h).
absl::StatusOr<std::vector<std::string>> NotesOnMegatronStates(const ArgumentList& arguments);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_STATES_H_
