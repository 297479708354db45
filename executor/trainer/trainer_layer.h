// One layer of a rank's stage: tools, parameters, and the activations it keeps of micro-batches
// between their forward and backward pass. `RankTrainer` has one for each layer of its stages.

#ifndef PARPLAN_EXECUTOR_TRAINER_TRAINER_LAYER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRAINER_LAYER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/layer_state.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/table_layers.h"
#include "executor/trainer/token_source.h"
#include "executor/trainer/trainer_observer.h"
#include "executor/trainer/transformer_layer.h"
#include "planner/program/rank_program.h"

namespace parplan {

// Used by the thread of the trainer (RankTrainer). Collective: all ranks that share the layer call
// its methods, and those of its state, in the same order. Errors are those of memory and
// communicators (layer_tools.h); after one the trainer must be destroyed.
class TrainerLayer {
 public:
  // The layer's place in the model and in the job, and what it runs with. No pointer is null unless
  // its comment says so.
  struct Setting {
    LayerTools::Setting tools;
    LayerProgram program;
    // Ranks with the same part of the parameters; null if this rank alone has it.
    Communicator* gradient_group = nullptr;
    const TokenSource* tokens = nullptr;
    OptimizerSettings optimizer;
    uint64_t seed = 1;
    // Samples of a micro-batch over all data-parallel ranks.
    int64_t micro_batch_size = 1;
    // Tokens of the whole step.
    int64_t global_token_count = 1;
    // The embedding on this rank if this is a head that shares its table, else null.
    TrainerLayer* tied = nullptr;
    // Whether this is a head that shares the table of an embedding on other ranks; it then has a
    // copy.
    bool copies_embedding = false;
    // May be null.
    TrainerObserver* observer = nullptr;
  };
  // Makes the layer with its initial state. Everything that `setting` points to outlives it.
  // Returns the errors of LayerState::Create, and UNIMPLEMENTED if the device has no kernels for
  // the layer's attention.
  static absl::StatusOr<std::unique_ptr<TrainerLayer>> Create(const Setting& setting);

  // Returns the layer's output [row_count x hidden]; null for a head. `input` has the same shape
  // and is null for an embedding. `step` and `micro_batch` are counted from 0. REQUIRES, unchecked:
  // no earlier `Forward` of this micro-batch still waits for its `Backward`.
  absl::StatusOr<Array> Forward(int64_t step, int64_t micro_batch, Array input);
  // Returns the gradient of the input [row_count x hidden]; null for an embedding.
  // `output_gradient` is null for a head, which adds the losses of its rows to `*loss`, one fp64 in
  // device memory, on the first of its tensor-parallel ranks alone; other layers ignore `loss`.
  // REQUIRES, unchecked: `Forward` of this micro-batch came before, and no `Backward` of it since.
  absl::StatusOr<Array> Backward(int64_t step, int64_t micro_batch, Array output_gradient,
                                 double* loss);

  // Starts to gather the parameters that the next pass reads, if they are sharded. Collective over
  // the gradient group; the pass waits for them. REQUIRES, unchecked: that pass comes before one in
  // the other direction.
  absl::Status StartGather(bool is_backward) {
    // The backward pass of an embedding needs no parameters.
    return is_backward && embedding_.has_value() ? absl::OkStatus() : state_->StartGather();
  }

  // Return parts of the layer, valid as long as it.
  const LayerProgram& program() const { return setting_.program; }
  LayerState& state() { return *state_; }
  const ParameterLayout& layout() const { return layout_; }

 private:
  // Activations of one micro-batch; only those of the layer's kind are set.
  struct Kept {
    TransformerLayer::Kept transformer;
    HeadLayer::Kept head;
    // The input of a transformer layer [row_count x hidden], kept in place of `transformer` if the
    // layer is recomputed.
    Array checkpoint;
    // Tokens of an embedding, one per row of products.
    std::vector<int32_t> tokens;
  };

  explicit TrainerLayer(const Setting& setting);
  RecomputeLevel recompute_level() const { return setting_.program.strategy.recompute_level; }
  // Returns the token of each row of products; with `shift` 1 the token after it.
  std::vector<int32_t> Tokens(int64_t step, int64_t micro_batch, int shift) const;
  absl::StatusOr<Array> ForwardTransformer(const void* parameters, Array input, Kept& kept) const;
  absl::StatusOr<Array> BackwardTransformer(Kept kept, Array output_gradient);
  absl::StatusOr<Array> BackwardHead(int64_t step, int64_t micro_batch, Kept kept, double* loss);
  const ParameterTensor& Table() const;
  void Enter(TrainerPhase phase) const {
    if (setting_.observer != nullptr) setting_.observer->Enter(phase, program().layer_index);
  }

  const Setting setting_;
  const LayerTools tools_;
  const ParameterLayout layout_;
  std::unique_ptr<LayerState> state_;
  std::optional<TransformerLayer> transformer_;
  std::optional<EmbeddingLayer> embedding_;
  std::optional<HeadLayer> head_;
  // Micro-batches between their forward and backward pass.
  std::map<int64_t, Kept> kept_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRAINER_LAYER_H_
