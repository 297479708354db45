// Parameters, gradients and optimizer states of one layer on one rank, and what of them is
// sharded over the ranks with the same part (ZeRO; Rajbhandari et al. 2020, section 5).

#ifndef PARPLAN_EXECUTOR_TRAINER_LAYER_STATE_H_
#define PARPLAN_EXECUTOR_TRAINER_LAYER_STATE_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/parameter_layout.h"
#include "planner/model/model_spec.h"

namespace parplan {

using OptimizerSettings = std::variant<AdamSettings, SgdSettings>;

// What a model's optimizer is: Adam as usual, or SGD without momentum, which has no state.
OptimizerSettings SettingsOf(Optimizer optimizer);

// What of a layer lives from one step to the next, each with a value for every parameter.
enum class StateKind { kParameters, kMasters, kFirstMoments, kSecondMoments };
inline constexpr int kStateKindCount = 4;

// Elements of one kind on one rank.
struct StatePart {
  StateKind kind = StateKind::kParameters;
  // In memory of the device.
  void* data = nullptr;
  // Its elements are those of the layer's parameters on this rank (ParameterLayout) from
  // `first` on.
  int64_t first = 0;
  int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

class LayerState {
 public:
  // Waits for what is under way.
  ~LayerState();

  // `gradient_group` is null where this rank alone has its part. `tools` and `layout`
  // outlive it. Parameters get the values they begin with.
  static absl::StatusOr<std::unique_ptr<LayerState>> Create(const LayerTools& tools,
                                                            const ParameterLayout& layout,
                                                            Communicator* gradient_group,
                                                            int layer_index, uint64_t seed,
                                                            const OptimizerSettings& optimizer);

  // Whole parameters of this rank, until `Release`; gathered where they are sharded.
  absl::StatusOr<const void*> Parameters();
  void Release();
  // Where the backward pass of a micro-batch adds gradients of whole parameters.
  absl::StatusOr<void*> Gradients();
  // That pass is over: sharded gradients go to their owners.
  absl::Status EndBackward();

  // After the last micro-batch: gradients of the step are added up over all ranks. It goes on
  // while other layers compute; nothing is to be added to the gradients any more.
  absl::Status StartSynchronize();
  // Waits for that, having begun it where it was not.
  absl::Status Synchronize();
  // Then, where another layer has the same weights: the sum of both layers' gradients of
  // `tensor`, with the rank that has the same part. REQUIRES: not sharded.
  absl::Status AddUpWith(Communicator& other, const ParameterTensor& tensor);
  // And the optimizer's step, counted from 1; sharded parameters are whole again after it
  // where only optimizer states or gradients are sharded.
  absl::Status Step(int64_t step);

  // All there is, for those who read it or put other values there between two steps.
  std::vector<StatePart> Parts();

  const ParameterLayout& layout() const { return layout_; }

 private:
  LayerState(const LayerTools& tools, const ParameterLayout& layout, Communicator* group,
             const OptimizerSettings& optimizer);
  absl::Status Fill(int layer_index, uint64_t seed);
  absl::Status MakeOptimizerStates();
  bool Shards(ShardingLevel level) const {
    return group_ != nullptr && tools_.strategy().sharding_level >= level;
  }
  // Adds up gradients of parameters that tensor-parallel ranks all have, of which each saw
  // only its tokens.
  absl::Status SumShared();
  absl::Status ReduceToShard();

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  Communicator* const group_;
  const OptimizerSettings optimizer_;
  // Elements with what fills them up to a multiple of the group, and of a shard.
  int64_t padded_size_ = 0;
  int64_t shard_size_ = 0;
  // Whole, or this rank's shard where parameters are sharded.
  Array parameters_;
  // While they are whole, where they are sharded.
  Array gathered_;
  // Of the micro-batch or the step.
  Array gradients_;
  // Where gradients are sharded: of the step so far; else of the step, once reduced.
  Array gradient_shard_;
  // In fp32, where parameters are of 16 bits.
  Array masters_;
  Array first_moments_;
  Array second_moments_;
  // Between `StartSynchronize` and `Synchronize`.
  bool is_synchronizing_ = false;
  std::unique_ptr<PendingWork> synchronization_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_LAYER_STATE_H_
