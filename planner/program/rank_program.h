// The program of one rank that runs a plan: its layers and their shards, the groups in which it
// communicates, the movement of activations between layouts and stages, and the order of its
// passes.
//
// A pure projection of the plan onto a rank. A plan that cannot be run exactly is refused with the
// reason.
//
//   PARPLAN_ASSIGN_OR_RETURN(const RankProgram program, RankProgram::Create(plan, model, rank));
//   for (const GroupSpec& group : program.groups) MakeCommunicator(group.ranks);  // in this order
//   for (const PipelinePass& pass : program.passes) {
//     const StageProgram& stage =
//         program.stages[pass.stage_index / program.pipeline_parallel_degree];
//     if (pass.is_backward()) {
//       // Receive by stage.receive_backward, run stage.layers from the last to the first, send by
//       // stage.send_backward.
//     } else {
//       // The same with the forward members, from the first layer to the last.
//     }
//   }
//
// The executor runs it, and launch variables and the C interface describe it.

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

// The purposes of groups of ranks: those that share a layer's matrices, its tokens, and its
// gradients; all ranks of a stage; the two with one part of the shared table; all ranks of the job;
// and all ranks of two neighbouring stages, for activations and for gradients. `parplan_group`
// (executor/capi/parplan_executor.h) and the files of a launch carry these words: they do not
// change.
namespace group_purpose {
inline constexpr char kTensor[] = "tensor";
inline constexpr char kContext[] = "context";
inline constexpr char kGradient[] = "gradient";
inline constexpr char kStage[] = "stage";
inline constexpr char kTied[] = "tied";
inline constexpr char kLoss[] = "loss";
inline constexpr char kForward[] = "forward";
inline constexpr char kBackward[] = "backward";
}  // namespace group_purpose

// A group of ranks of the job that communicate.
struct GroupSpec {
  // One of `group_purpose`; the last two with a stage of the plan, from 0: `forward 3` and
  // `backward 3` are for messages between stages 3 and 4.
  std::string purpose;
  // Ranks of the job in the order of the communicator, ascending.
  std::vector<int> ranks;
  friend auto operator<=>(const GroupSpec&, const GroupSpec&) = default;
};

// One layer on one rank. Groups are indices into `RankProgram::groups`, -1 if the rank would be
// alone in the group.
struct LayerProgram {
  // Place of the layer in the model, from 0, and its index in `ModelSpec::layer_definitions()`.
  int layer_index = 0;
  int definition_index = 0;
  Strategy strategy;
  // Place of the rank among those of the stage.
  GridPlace place;
  // Ranks that share the layer's matrices.
  int tensor_group = -1;
  // Ranks that share the tokens of each sample.
  int context_group = -1;
  // Data- and context-parallel ranks with the same part of the parameters. They all-reduce
  // gradients and share sharded states.
  int gradient_group = -1;
  ActivationLayout layout;
  // Movement of activations from the previous layer to this one, and of gradients back. Empty for
  // the first layer of a stage, and if both layouts are the same.
  ReshardProgram enter;
  ReshardProgram leave_backward;
};

// One stage of the plan on this rank.
struct StageProgram {
  // Index in `Plan::stages`.
  int stage_index = 0;
  // At least one, in the order of the model.
  std::vector<LayerProgram> layers;
  // Activations from the previous stage and to the next, gradients from the next and to the
  // previous; empty, without a group, at the ends of the model. Neighbouring stages have no rank in
  // common, so each only receives or only sends, as its name says. Each has a group of its own,
  // since devices of interleaved stages take turns at them in different orders.
  ReshardProgram receive_forward;
  ReshardProgram send_forward;
  ReshardProgram receive_backward;
  ReshardProgram send_backward;
  int receive_forward_group = -1;
  int send_forward_group = -1;
  int receive_backward_group = -1;
  int send_backward_group = -1;
  // Group of all ranks of the stage, for resharding; -1 if the rank is alone in it.
  int stage_group = -1;
};

// See the head of the file. Plain data.
struct RankProgram {
  // Makes the program of `rank`, a rank of the job, from 0. Returns INVALID_ARGUMENT (SPEC_INVALID)
  // if the executor cannot run the plan or `rank` is not one of it, with the first reason; `field`
  // in its metadata is the stage (`stages[2]`), the layer of the model, from 0 (`layer 7`), the
  // field of the plan (`micro_batch_count`) or `rank`. The whole plan is checked, so a plan has a
  // program for every rank or for none. Memory is not looked at. O(layers + passes) time, and for
  // each run of equal layers O(ranks of the stage times tensor-parallel degree).
  static absl::StatusOr<RankProgram> Create(const Plan& plan, const ModelSpec& model, int rank);

  int rank = 0;
  int device_count = 0;
  // Position of the rank's device in the pipeline, from 0.
  int pipeline_place = 0;
  int pipeline_parallel_degree = 1;
  // Samples of a micro-batch over all ranks of a stage, and micro-batches of a step.
  int64_t micro_batch_size = 1;
  int64_t micro_batch_count = 1;
  // The groups of two or more ranks that this rank is in. Sorted and distinct: ranks that make
  // their groups in this order never wait for each other in a circle. Only the group of purpose
  // `loss`, all ranks of the job, is named by no index below or above.
  std::vector<GroupSpec> groups;
  // [virtual stage of the device], in the order of the model.
  std::vector<StageProgram> stages;
  // One step of training (planner/model/pass_order.h).
  std::vector<PipelinePass> passes;
  // Group of two ranks that have the same part of the table that embedding and head share: this
  // one, and the one at the same place in the stage at the other end of the model. -1 if there is
  // no such table, if the same ranks have both layers, or if this rank has neither.
  int tied_group = -1;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PROGRAM_RANK_PROGRAM_H_
