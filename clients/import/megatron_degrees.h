// Degrees, sharding and recomputation that arguments of Megatron-LM name, with that program's
// defaults. Whether they fit a model and devices is not checked here. The importers of
// Megatron-LM's plans and the reader of published runs (clients/calibrate) call it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_DEGREES_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_DEGREES_H_

#include "absl/status/statusor.h"
#include "clients/import/argument_list.h"
#include "planner/model/strategy.h"

namespace parplan {

// The strategy of the layers, as far as the arguments give it.
struct MegatronDegrees {
  int tensor = 1;
  int context = 1;
  int pipeline = 1;
  int expert = 1;
  // `tensor` unless an argument says otherwise.
  int expert_tensor = 1;
  // The switch; it has no meaning if `tensor` is 1.
  bool sequence_parallel = false;
  // It has no meaning if `context` is 1.
  ContextKind context_kind = ContextKind::kRing;
  // See `Strategy::context_exchange_degree`.
  int context_exchange = 1;
  ShardingLevel sharding_level = ShardingLevel::kNone;
  // Copies of the optimizer's states, each of which is sharded.
  int optimizer_instances = 1;
  Recomputation recomputation;
  // If whole layers are recomputed: the first so many of each stage. 0: all of them.
  int recomputed_layer_count = 0;
};

// Reads them from arguments that were read by `MegatronRules` (megatron_rules.h). INVALID_ARGUMENT
// (SPEC_INVALID) with file and argument for values that are unknown, lack another argument or
// contradict one, and for recomputation of several layers at once or of unknown parts.
absl::StatusOr<MegatronDegrees> ReadMegatronDegrees(const ArgumentList& arguments);

// Returns the virtual stages of a pipeline rank, whose part of the model is `rank_layers` layers; 1
// if no argument asks for several. INVALID_ARGUMENT (SPEC_INVALID) with file and argument if two
// ways to divide it are given, or the layers of a virtual stage do not divide `rank_layers`.
// Whether a number of virtual stages that is given divides them is left to the caller. REQUIRES,
// unchecked: `rank_layers` is at least 1; for 0 the result may be 0.
absl::StatusOr<int> ReadMegatronVirtualStages(const ArgumentList& arguments, int rank_layers);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_DEGREES_H_
