// One layer of a rank's stage with all it needs: tools, parameters, and what it keeps of
// micro-batches under way.

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

class TrainerLayer {
 public:
  struct Setting {
    LayerTools::Setting tools;
    LayerProgram program;
    // Null where this rank alone has its part of the parameters.
    Communicator* gradient_group = nullptr;
    const TokenSource* tokens = nullptr;
    OptimizerSettings optimizer;
    uint64_t seed = 1;
    int64_t micro_batch_size = 1;
    // Of the whole step.
    int64_t global_token_count = 1;
    // The embedding on this rank, for a head that shares its weights; null else.
    TrainerLayer* tied = nullptr;
    // A head whose weights are those of an embedding on other ranks.
    bool copies_embedding = false;
    // May be null.
    TrainerObserver* observer = nullptr;
  };
  static absl::StatusOr<std::unique_ptr<TrainerLayer>> Create(const Setting& setting);

  // The layer's output; of a head nothing. `input` is null of an embedding.
  absl::StatusOr<Array> Forward(int64_t step, int64_t micro_batch, Array input);
  // The gradient of its input; of an embedding nothing. `output_gradient` is null of a head,
  // which adds its rows' losses to `loss`.
  absl::StatusOr<Array> Backward(int64_t step, int64_t micro_batch, Array output_gradient,
                                 double& loss);

  const LayerProgram& program() const { return setting_.program; }
  LayerState& state() { return *state_; }
  const ParameterLayout& layout() const { return layout_; }

 private:
  // Of a micro-batch: what the kind of layer keeps.
  struct Kept {
    TransformerLayer::Kept transformer;
    HeadLayer::Kept head;
    // Instead, where the layer is recomputed.
    Array checkpoint;
    // Of an embedding.
    std::vector<int32_t> tokens;
  };

  explicit TrainerLayer(const Setting& setting);
  RecomputeLevel recompute_level() const { return setting_.program.strategy.recompute_level; }
  // For each row of products; `shift` 1 for what follows.
  std::vector<int32_t> Tokens(int64_t step, int64_t micro_batch, int shift) const;
  absl::StatusOr<Array> ForwardTransformer(const void* parameters, Array input, Kept& kept) const;
  absl::StatusOr<Array> BackwardTransformer(Kept kept, Array output_gradient);
  absl::StatusOr<Array> BackwardHead(int64_t step, int64_t micro_batch, Kept kept, double& loss);
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
  // By micro-batch.
  std::map<int64_t, Kept> kept_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRAINER_LAYER_H_
