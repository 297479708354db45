// A configuration of torchtitan and its model, and a reader of such files for tests.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_TORCHTITAN_FILES_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_TORCHTITAN_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/torchtitan_plan.h"
#include "exports/layer_strategies.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "tests/clients/import/decoder_models.h"

namespace parplan {

inline ModelSpec TorchtitanModel() {
  return DecoderModel({.dense_layer_count = 10, .tied_embedding = false});
}

// A configuration as people have it, in the form of 2026.
inline constexpr char kTorchtitanPython[] = R"(
def llama() -> Trainer.Config:
    return Trainer.Config(
        hf_assets_path="./assets",
        model_spec=model_registry("8B"),
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(local_batch_size=4, global_batch_size=64, seq_len=1024),
        parallelism=ParallelismConfig(tensor_parallel_degree=2),
        activation_checkpoint=FullAC.Config(),
        extra=Surprise.Config(size=1),
    )
)";

// Reads a file with this name for `TorchtitanModel` on so many devices.
inline absl::StatusOr<TorchtitanPlanImport> ReadTorchtitan(const std::string& name,
                                                           const std::string& text,
                                                           int devices = 8) {
  return ImportTorchtitanPlan({name, text}, std::nullopt, "", TorchtitanModel(), devices);
}

// The layers that are recomputed whole, counted from 0 with the embedding.
inline std::vector<int> RecomputedLayers(const Plan& plan) {
  const LayerStrategies layers = LayerStrategiesOf(plan);
  std::vector<int> found;
  for (size_t i = 0; i < layers.strategies.size(); ++i) {
    if (layers.strategies[i].recompute_level == RecomputeLevel::kFull) {
      found.push_back(static_cast<int>(i));
    }
  }
  return found;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_TORCHTITAN_FILES_H_
