// CUDA graphs that arguments of Megatron-LM ask for. The reader of runs (megatron_run.h) and that
// of published runs (clients/calibrate) call it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_GRAPHS_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_GRAPHS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/import/argument_list.h"

namespace parplan {

// Returns the argument, without dashes, by which CUDA graphs launch whole layers or whole steps;
// empty if no graphs are asked for, or those of the modules of --cuda-graph-scope alone, which
// leave the rest of a layer to the host. The text lives as long as the process. `arguments` were
// read by `MegatronRules` (megatron_rules.h).
absl::string_view FindMegatronWholeGraphs(const ArgumentList& arguments);

// Returns notes, one sentence each, on the arguments that change when the host launches kernels:
// those of CUDA graphs, and --moe-pad-expert-input-to-capacity. The runtimes of a prediction launch
// one kernel after another, and wait for the counts of tokens that experts get
// (`RuntimeTraits::reads_expert_counts`). `has_experts` says whether the model has experts. There
// are no notes without such arguments.
std::vector<std::string> NotesOnMegatronLaunches(const ArgumentList& arguments, bool has_experts);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_GRAPHS_H_
