// Trains a model on one rank as its program says.

#ifndef PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_
#define PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
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

struct TrainerSetting {
  LayerKernels* kernels = nullptr;
  ArrayPool* pool = nullptr;
  const TokenSource* tokens = nullptr;
  // Called for every group of the program, in its order.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const GroupSpec& group)> make_group;
  OptimizerSettings optimizer = AdamSettings{};
  // Of the parameters.
  uint64_t seed = 1;
  // May be null.
  TrainerObserver* observer = nullptr;
};

// Of one thread. What `setting` points to outlives it.
class RankTrainer {
 public:
  // Makes groups and parameters.
  static absl::StatusOr<std::unique_ptr<RankTrainer>> Create(const RankProgram& program,
                                                             const ModelSpec& model,
                                                             const TrainerSetting& setting);
  ~RankTrainer();

  // One optimizer step over the global batch; gives the mean loss of its tokens, the same on
  // all ranks. After an error the trainer is of no more use.
  absl::StatusOr<double> Step();
  // Steps made so far.
  int64_t step_count() const { return step_count_; }

  // Counts on from there: for parameters and states that come from another trainer.
  void ContinueFrom(int64_t step_count) { step_count_ = step_count; }

  // Calls `visit` for every layer of this rank in order, with what of it lives from step to
  // step.
  void VisitStates(const std::function<void(int layer_index, const ParameterLayout& layout,
                                            const std::vector<StatePart>& parts)>& visit);

  // Calls `visit` for every parameter of this rank with its elements, in memory of the device
  // (host_elements.h reads them); all ranks call it.
  absl::Status VisitParameters(
      const std::function<void(int layer_index, const ParameterTensor& tensor, const void* data)>&
          visit);

 private:
  class Stage;
  friend class Stage;

  RankTrainer(const RankProgram& program, const ModelSpec& model, const TrainerSetting& setting);
  absl::Status Prepare();
  Communicator* Group(int index) const { return index < 0 ? nullptr : groups_[index].get(); }
  const std::vector<int>& RanksOf(int group) const { return program_.groups[group].ranks; }
  // The loss of all ranks in place of this rank's.
  absl::Status AllReduceLoss();
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
  // Of this step and rank.
  double loss_ = 0.0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_RANK_TRAINER_H_
