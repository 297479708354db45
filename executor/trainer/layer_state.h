// Parameters, gradients and optimizer states of one layer on one rank, sharded over the ranks with
// the same part as the strategy says (ZeRO; Rajbhandari et al. 2020, section 5).
//
// `TrainerLayer` has one and calls, for every pass: Parameters, before a backward pass Gradients,
// Release, and after a backward pass EndBackward. `RankTrainer` calls once a step: StartSynchronize
// after the last backward pass, Synchronize, perhaps AddUpWith, and Step.

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

// Returns the default settings of a model's optimizer: those of Adam, or SGD without momentum,
// which has no state.
OptimizerSettings SettingsOf(Optimizer optimizer);

// State that a layer keeps from one step to the next; each kind has a value for every parameter.
enum class StateKind { kParameters, kMasters, kFirstMoments, kSecondMoments };
inline constexpr int kStateKindCount = 4;

// The state of one kind that a rank holds of a layer.
struct StatePart {
  StateKind kind = StateKind::kParameters;
  // `count` elements in device memory.
  void* data = nullptr;
  // Index of the first of them among the layer's parameters on this rank (ParameterLayout); their
  // number may be 0.
  int64_t first = 0;
  int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

// Returns the elements of each rank's shard of `size` elements, of `element_size` bytes each, that
// `rank_count` ranks share: whole 128 bytes, so that the last shards may be short or empty. Sizes
// of states follow from the element that the kernels compute with, whatever theirs is. REQUIRES,
// unchecked: `rank_count` is above 0, and `element_size` divides 128.
int64_t ShardSize(int64_t size, int64_t rank_count, int64_t element_size);

// Used by the thread of the trainer. Errors are those of memory and of communicators
// (layer_tools.h); after one the state must be destroyed. All ranks of the gradient group, and with
// sequence parallelism those of the tensor-parallel group, call the same methods in the same order.
class LayerState {
 public:
  // Waits for a synchronization, a gathering and a scattering under way.
  ~LayerState();

  // Makes the state with initial parameters. `gradient_group`: ranks with the same part; null if
  // this rank alone has it. `tools` and `layout` outlive it. Returns RESOURCE_EXHAUSTED if memory
  // does not suffice (ArrayPool::Take), and errors of the device. Not collective.
  static absl::StatusOr<std::unique_ptr<LayerState>> Create(const LayerTools& tools,
                                                            const ParameterLayout& layout,
                                                            Communicator* gradient_group,
                                                            int layer_index, uint64_t seed,
                                                            const OptimizerSettings& optimizer);

  // Starts to gather the parameters, if they are sharded and neither gathered nor being gathered;
  // it proceeds while other layers compute. `Parameters` comes before `Release` and the next step.
  // Does nothing unless the tools' setting communicates ahead.
  absl::Status StartGather();
  // Returns all parameters of this rank [layout.size], valid until `Release`. Waits for those that
  // are being gathered; gathers them if they are sharded and that was not started.
  absl::StatusOr<const void*> Parameters();
  // Frees what `Parameters` gathered.
  void Release();
  // Returns the array [layout.size] of statistics to which the backward pass of a micro-batch adds
  // gradients, valid until `EndBackward`. It begins with zeros if gradients are sharded, else with
  // those of the micro-batches before.
  absl::StatusOr<void*> Gradients();
  // Ends the backward pass of a micro-batch: sharded gradients are reduced to their owners. If the
  // tools' setting communicates ahead, that only starts, and proceeds while other layers compute.
  absl::Status EndBackward();
  // Waits until they have been reduced, and adds them to those of earlier micro-batches. Does
  // nothing if none are under way. Not collective.
  absl::Status FinishScatter();

  // Starts to sum the step's gradients over all ranks, after the last micro-batch. If gradients are
  // sharded, `EndBackward` does, and nothing is left to start. It proceeds while other
  // layers compute; nothing may be added to the gradients after it.
  absl::Status StartSynchronize();
  // Waits for that sum; starts it if it was not started.
  absl::Status Synchronize();
  // Sums the gradients of `tensor` with those of another layer that shares it, on the rank of
  // `other` that has the same part. After `Synchronize`. REQUIRES: no state is sharded; aborts
  // otherwise.
  absl::Status AddUpWith(Communicator& other, const ParameterTensor& tensor);
  // Makes the optimizer's step, counted from 1, and clears the gradients; it takes them as they
  // are, so `Synchronize` comes before, which is not checked. Gathers the parameters if only
  // optimizer states or gradients are sharded; if it communicates ahead, that only starts, and
  // `Parameters` waits for them.
  absl::Status Step(int64_t step);

  // Returns the state of each kind that the layer has, in the order of StateKind, to be read or
  // overwritten between two steps. Their pointers are valid as long as this object. A layer has
  // masters if its elements have 16 bits, and the moments that its optimizer needs. Waits for
  // parameters that are being gathered; returns the error of that.
  absl::StatusOr<std::vector<StatePart>> Parts();

  // Returns the layout given to `Create`.
  const ParameterLayout& layout() const { return layout_; }

 private:
  LayerState(const LayerTools& tools, const ParameterLayout& layout, Communicator* group,
             const OptimizerSettings& optimizer);
  absl::Status Fill(int layer_index, uint64_t seed);
  absl::Status MakeOptimizerStates();
  bool Shards(ShardingLevel level) const {
    return group_ != nullptr && tools_.strategy().sharding_level >= level;
  }
  // Starts to gather the ranks' shards, of which `shard` is this rank's, into `whole`.
  absl::Status StartGatherInto(const void* shard, void* whole);
  // Returns the operation that sums the ranks' `gradients` [padded_size_] and leaves each rank its
  // shard, in its place of the same array.
  CollectiveCall Scatter(const Array& gradients) const;
  // Adds this rank's shard of `leaving_gradients_` to `gradient_shard_`, and frees the former.
  void AddScattered();
  bool communicates_ahead() const { return tools_.setting().communicates_ahead; }
  // Waits for parameters that are being gathered, if there are any.
  absl::Status AwaitGather();
  // Sums the gradients of parameters that all tensor-parallel ranks have, since with sequence
  // parallelism each rank saw only its own tokens.
  absl::Status SumShared();

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  Communicator* const group_;
  const OptimizerSettings optimizer_;
  // Elements padded to a multiple of the group's size, and elements of one shard: if states are
  // sharded, a multiple of 128 bytes of the kernels' type.
  int64_t padded_size_ = 0;
  int64_t shard_size_ = 0;
  // All parameters [padded_size_], or this rank's shard [shard_size_] if parameters are sharded.
  Array parameters_;
  // The gathered parameters [padded_size_] between `StartGather` or `Parameters` and `Release`, if
  // they are sharded.
  Array gathered_;
  // The gathering under way, of these or of `parameters_`; null if there is none.
  std::unique_ptr<PendingWork> gathering_;
  // Gradients [padded_size_] of one micro-batch if gradients are sharded, else of the step. These
  // and the next two are statistics: in 16 bits a sum of many micro-batches would stop growing.
  Array gradients_;
  // The gradients [padded_size_] that are being scattered, and that operation; null if none are.
  Array leaving_gradients_;
  std::unique_ptr<PendingWork> scattering_;
  // This rank's shard [shard_size_] of the step's gradients so far, if gradients are sharded.
  Array gradient_shard_;
  // Parameters in fp32 if they are of 16 bits. As the moments: of all parameters [padded_size_], or
  // of this rank's shard [shard_size_] if optimizer states are sharded.
  Array masters_;
  Array first_moments_;
  Array second_moments_;
  // Set between `StartSynchronize` and `Synchronize`.
  bool is_synchronizing_ = false;
  std::unique_ptr<PendingWork> synchronization_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_LAYER_STATE_H_
