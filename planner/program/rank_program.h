// What one rank has to do to run a plan: its layers and their shards, the groups it talks
// in, how activations move between layouts and stages, and the order of its passes.
//
// A pure projection of the plan. It is made whole or not at all: a plan that cannot be run
// exactly is refused, with what stands in the way.

#ifndef PARPLAN_PLANNER_PROGRAM_RANK_PROGRAM_H_
#define PARPLAN_PLANNER_PROGRAM_RANK_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/model/model_spec.h"
#include "planner/model/pass_order.h"
#include "planner/model/plan.h"
#include "planner/program/activation_layout.h"
#include "planner/program/reshard.h"

namespace parplan {

// Ranks of the job that talk to one another, in order.
struct GroupSpec {
  // `tensor`, `context`, `gradient`, `stage`, `forward 3` and `backward 3` (between stages 3
  // and 4), `tied`, `loss`.
  std::string purpose;
  std::vector<int> ranks;
  friend auto operator<=>(const GroupSpec&, const GroupSpec&) = default;
};

// One layer on one rank. Groups are indices into `RankProgram::groups`, -1 where the rank
// would be alone.
struct LayerProgram {
  int layer_index = 0;
  int definition_index = 0;
  Strategy strategy;
  GridPlace place;
  // Ranks that share its matrices.
  int tensor_group = -1;
  // Ranks that share the tokens of its samples.
  int context_group = -1;
  // Ranks with the same part of its parameters, which add up gradients and share what is
  // sharded: data- and context-parallel ones.
  int gradient_group = -1;
  ActivationLayout layout;
  // From the layer before to this one; empty in the first layer of a stage, and where the
  // layouts are the same. And gradients back again.
  ReshardProgram enter;
  ReshardProgram leave_backward;
};

// One stage of the plan on this rank.
struct StageProgram {
  int stage_index = 0;
  std::vector<LayerProgram> layers;
  // Activations from the stage before and to the next, gradients from the next and to the
  // one before. Each has a group of its own, since devices take turns at them in different
  // orders where stages are interleaved.
  ReshardProgram receive_forward;
  ReshardProgram send_forward;
  ReshardProgram receive_backward;
  ReshardProgram send_backward;
  int receive_forward_group = -1;
  int send_forward_group = -1;
  int receive_backward_group = -1;
  int send_backward_group = -1;
  // All ranks of the stage: for resharding.
  int stage_group = -1;
};

struct RankProgram {
  // INVALID_ARGUMENT (SPEC_INVALID) naming the stage or layer and what the executor cannot
  // do. `rank`: of the job. O(layers + passes + ranks of the stage) time.
  static absl::StatusOr<RankProgram> Create(const Plan& plan, const ModelSpec& model, int rank);

  int rank = 0;
  int device_count = 0;
  // Place in the pipeline, from 0.
  int pipeline_place = 0;
  int pipeline_parallel_degree = 1;
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  // Sorted, none twice: ranks that make theirs in this order never wait for each other in a
  // circle.
  std::vector<GroupSpec> groups;
  // One for each virtual stage, in the order of the model.
  std::vector<StageProgram> stages;
  std::vector<PipelinePass> passes;
  // The ranks with the embedding whose weights the head uses too, and with that head; -1
  // where they are not tied or this rank has neither.
  int tied_group = -1;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_RANK_PROGRAM_H_
