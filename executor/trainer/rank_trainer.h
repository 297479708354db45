// Trains a model on one rank as its program says.
//
//   PARPLAN_ASSIGN_OR_RETURN(const RankProgram program, RankProgram::Create(plan, model, rank));
//   PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
//                            RankTrainer::Create(program, model, setting));
//   for (int step = 0; step < step_count; ++step) {
//     PARPLAN_ASSIGN_OR_RETURN(const double loss, trainer->Step());
//   }
//
// PlanApplier (executor/apply) does this with a verified plan, and measures it.

#ifndef PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_
#define PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/trainer/block_mover.h"
#include "executor/trainer/layer_state.h"
#include "executor/trainer/token_source.h"
#include "executor/trainer/trainer_observer.h"
#include "planner/model/model_spec.h"
#include "planner/program/rank_program.h"

namespace parplan {

// The things with which a rank trains.
struct TrainerSetting {
  // Kernels, memory of the same device, and tokens; none may be null, which is not checked.
  LayerKernels* kernels = nullptr;
  ArrayPool* pool = nullptr;
  const TokenSource* tokens = nullptr;
  // Makes the communicator of a group. Must be set, and must not return null, which is not checked.
  // Only `Create` calls it, once for every group of the program, in the order of the program. These
  // are the groups that this rank is in (rank_program.h).
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const GroupSpec& group)> make_group;
  OptimizerSettings optimizer = AdamSettings{};
  // Seed of the initial parameters; the same on all ranks, so that replicas are equal.
  uint64_t seed = 1;
  // May be null.
  TrainerObserver* observer = nullptr;
  // Whether communication runs beside the passes:
  //   - Sharded parameters are gathered one layer ahead.
  //   - Parameters of which only the optimizer's states or the gradients are sharded are gathered
  //     while the next step begins.
  //   - Sharded gradients are scattered while the next layer's backward pass runs, and have until
  //     the next forward pass begins.
  //   - Messages between stages are received one pass ahead.
  // A layer's parameters, its gradients and the input of the next pass are then held beside those
  // in use. Results are the same to the last bit. `Create` also exchanges a message between the
  // ranks of every pair that has messages in a step.
  bool communicates_ahead = false;
  // Whether `Create` first runs the passes of one micro-batch, and an optimizer's step, of a
  // trainer whose groups do nothing. GPUs need it: the first launch of a kernel loads it, and the
  // first product or attention of a shape looks for its algorithm and its workspace. That may wait
  // until the device is idle. If the device then holds a collective that waits for another rank,
  // which itself waits for a later operation of this rank, both wait for ever. Takes as long as a
  // step of one micro-batch and no more memory than training does.
  bool rehearses = false;
};

// The trainer of one rank, used by one thread. Everything that `setting` points to outlives it.
class RankTrainer {
 public:
  // Makes groups and parameters, and connects the ranks of every group that a step uses
  // (Communicator::Warm). `program` is that of this rank for `model`, which is not checked; both
  // are copied. Collective: all ranks of the job call it. Returns the errors of `make_group` and
  // `Warm`, RESOURCE_EXHAUSTED if memory does not suffice (ArrayPool::Take), UNIMPLEMENTED if the
  // device has no kernels for the model's attention, and errors of the device (LayerKernels).
  static absl::StatusOr<std::unique_ptr<RankTrainer>> Create(const RankProgram& program,
                                                             const ModelSpec& model,
                                                             const TrainerSetting& setting);
  // Waits for the collectives of parameters and gradients that are under way (LayerState), and
  // ignores their errors. Not collective.
  ~RankTrainer();

  // Makes one optimizer step over the global batch and returns the mean loss of its tokens (cross
  // entropy, in nats), the same on all ranks. Collective: all ranks of the job call it equally
  // often. Waits until the device has done all of it, except, with `communicates_ahead`, the
  // gathering of parameters. Has no time limit of its own, beyond those of communicators.
  //
  // Returns the errors of communicators (PendingWork::Wait: DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED
  // or INTERNAL), RESOURCE_EXHAUSTED if memory does not suffice, and the errors of the device
  // (LayerKernels::Synchronize). After an error the trainer must be destroyed: the parameters of
  // some layers may have taken the step and those of others not.
  absl::StatusOr<double> Step();
  // Number of steps so far.
  int64_t step_count() const { return step_count_; }

  // Sets the number of steps so far, for parameters and states that come from another trainer: a
  // visitor of `VisitStates` writes them. The next step then trains on the samples of that step,
  // and Adam corrects the bias of its moments for it. Called between two steps, with the same
  // number on all ranks. REQUIRES, unchecked: `step_count` is at least 0.
  void ContinueFrom(int64_t step_count) { step_count_ = step_count; }

  // Calls `visit` for every layer of this rank, in the order of the model, with the index of the
  // layer in the model and the state it keeps from step to step. Each part says the type of its
  // elements. The parts lie in device memory, stay valid until the trainer is destroyed,
  // and may be read or overwritten between two steps. Not collective, but waits for the parameters
  // that the last step gathers; returns the errors of that (`Step`).
  absl::Status VisitStates(const std::function<void(int layer_index, const ParameterLayout& layout,
                                                    const std::vector<StatePart>& parts)>& visit);

  // Calls `visit` for every parameter of this rank with its elements in device memory, [local rows
  // x local columns] of the type that the kernels compute with, as the next step will use them:
  // gathered if they are sharded. They are valid until `visit` returns. Collective; returns the
  // errors of `Step`. Nothing but tests calls it; they have no other way to see what ranks gather.
  absl::Status VisitParameters(
      const std::function<void(int layer_index, const ParameterTensor& tensor, const void* data)>&
          visit);

 private:
  class Stage;
  friend class Stage;

  RankTrainer(const RankProgram& program, const ModelSpec& model, const TrainerSetting& setting);
  absl::Status Prepare();
  // Returns the groups of this rank, by index, whose ranks communicate during a step.
  std::set<int> UsedGroups() const;
  Communicator* Group(int index) const { return index < 0 ? nullptr : groups_[index].get(); }
  const std::vector<int>& RanksOf(int group) const { return program_.groups[group].ranks; }
  double* loss() const { return static_cast<double*>(loss_.data()); }
  // Exchanges a message between all ranks that exchange some during a step (BlockMover::Connect).
  absl::Status ConnectPeers();
  // Finishes the scattering of the layer of the latest backward pass, if it is under way
  // (LayerState::FinishScatter).
  absl::Status FinishScatter();
  absl::Status SynchronizeGradients();
  void Enter(TrainerPhase phase, int layer_index = -1) const {
    if (setting_.observer != nullptr) setting_.observer->Enter(phase, layer_index);
  }

  const RankProgram program_;
  const ModelSpec model_;
  const TrainerSetting setting_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  Communicator* loss_group_ = nullptr;
  BlockMover mover_;
  std::vector<std::unique_ptr<Stage>> stages_;
  int64_t step_count_ = 0;
  // The layer of the latest backward pass; null before the first, and once its scattering has been
  // finished.
  LayerState* scattering_ = nullptr;
  // This rank's part of the mean loss of a step, one fp64 in device memory; empty between steps.
  Array loss_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_
