#include "executor/layer_probe/memory_probe.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/status_macros.h"
#include "executor/layer_probe/probe_run.h"
#include "executor/trainer/parameter_layout.h"
#include "executor/trainer/token_source.h"

namespace parplan {
namespace {

// Number of layers: the embedding, one layer of the definition, and the head.
constexpr int kLayerCount = 3;

// Observes the memory that each layer keeps after its forward pass.
class KeptRecorder : public TrainerObserver {
 public:
  explicit KeptRecorder(const ArrayPool& pool) : pool_(pool) {}

  void Enter(TrainerPhase phase, int layer_index) override {
    const ArrayUsage& usage = pool_.usage();
    const Bytes held = usage[ArrayUse::kActivations] + usage[ArrayUse::kCheckpoints];
    if (layer_ >= 0) kept_[layer_] = std::max(kept_[layer_], held - before_);
    layer_ = phase == TrainerPhase::kForward ? layer_index : -1;
    before_ = held;
  }

  const std::array<Bytes, kLayerCount>& kept() const { return kept_; }

 private:
  const ArrayPool& pool_;
  std::array<Bytes, kLayerCount> kept_ = {};
  // Layer whose forward pass is under way; -1: none.
  int layer_ = -1;
  Bytes before_;
};

struct SmallModelSizes {
  std::array<int64_t, kLayerCount> parameter_counts = {};
  std::array<Bytes, kLayerCount> kept = {};
};

absl::StatusOr<SmallModelSizes> MeasureOnce(const ModelSpec& model, int middle_index,
                                            RecomputeLevel recompute_level,
                                            const LayerProbeShape& shape,
                                            const LayerProbeSetting& setting) {
  PARPLAN_ASSIGN_OR_RETURN(const ProbeJob job, MakeProbeJob(model, middle_index, /*depth=*/1,
                                                            recompute_level, shape, setting));
  SmallModelSizes sizes;
  const std::vector<LayerProgram>& layers = job.program.stages.front().layers;
  for (int k = 0; k < kLayerCount; ++k) {
    sizes.parameter_counts[k] =
        LayoutOfParameters(job.model.layer(k), layers[k].strategy.tensor_parallel_degree,
                           layers[k].place.tensor)
            .size;
  }
  ArrayPool pool(*setting.memory);
  KeptRecorder recorder(pool);
  const std::unique_ptr<TokenSource> tokens =
      MakeSyntheticTokens(job.model.layer(0).vocabulary_size, kProbeSeed);
  // Activations do not depend on the optimizer; this one has no state.
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
                           RankTrainer::Create(job.program, job.model,
                                               {.kernels = setting.kernels,
                                                .pool = &pool,
                                                .tokens = tokens.get(),
                                                .make_group = job.make_group,
                                                .optimizer = SgdSettings{.momentum = 0.0},
                                                .seed = kProbeSeed,
                                                .observer = &recorder}));
  PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
  sizes.kept = recorder.kept();
  return sizes;
}

// Returns the largest value of all ranks.
absl::StatusOr<int64_t> MostOf(Communicator* control, int64_t own) {
  auto most = static_cast<double>(own);
  if (control != nullptr) {
    PARPLAN_RETURN_IF_ERROR(control->AllReduce(ElementType::kFloat64, &most, 1, Reduction::kMax));
  }
  return static_cast<int64_t>(most);
}

absl::StatusOr<std::array<LayerSizes, kLayerCount>> MeasureMiddle(
    const ModelSpec& model, int middle_index, const LayerProbeShape& shape,
    const LayerProbeSetting& setting) {
  PARPLAN_ASSIGN_OR_RETURN(const SmallModelSizes plain,
                           MeasureOnce(model, middle_index, RecomputeLevel::kNone, shape, setting));
  PARPLAN_ASSIGN_OR_RETURN(const SmallModelSizes recomputed,
                           MeasureOnce(model, middle_index, RecomputeLevel::kFull, shape, setting));
  const std::vector<int>& definition_of_layer = model.definition_of_layer();
  const int definitions[] = {definition_of_layer.front(), middle_index, definition_of_layer.back()};
  std::array<LayerSizes, kLayerCount> sizes;
  for (int k = 0; k < kLayerCount; ++k) {
    LayerSizes& of_layer = sizes[k];
    of_layer.definition_index = definitions[k];
    of_layer.shape = shape;
    of_layer.sequence_length =
        shape.sequence_length > 0 ? shape.sequence_length : model.layer(0).sequence_length;
    PARPLAN_ASSIGN_OR_RETURN(of_layer.parameter_count,
                             MostOf(setting.control, plain.parameter_counts[k]));
    const auto per_sample = [&](Bytes kept) -> absl::StatusOr<Bytes> {
      PARPLAN_ASSIGN_OR_RETURN(const int64_t most, MostOf(setting.control, kept.count()));
      return Bytes::Of((most + shape.samples - 1) / shape.samples);
    };
    PARPLAN_ASSIGN_OR_RETURN(of_layer.activation_per_sample, per_sample(plain.kept[k]));
    PARPLAN_ASSIGN_OR_RETURN(of_layer.checkpoint_per_sample, per_sample(recomputed.kept[k]));
  }
  return sizes;
}

}  // namespace

absl::StatusOr<std::vector<LayerSizes>> ProbeMemory(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting) {
  PARPLAN_RETURN_IF_ERROR(CheckProbeShape(shape, setting));
  const int first = model.definition_of_layer().front();
  const int last = model.definition_of_layer().back();
  std::vector<LayerSizes> all(model.layer_definitions().size());
  bool has_ends = false;
  for (int index = 0; index < static_cast<int>(all.size()); ++index) {
    if (index == first || index == last) continue;
    auto sizes = MeasureMiddle(model, index, shape, setting);
    if (!sizes.ok()) {
      // All ranks refuse what cannot be run, so no rank waits for another.
      if (setting.control != nullptr && !absl::IsInvalidArgument(sizes.status())) {
        setting.control->Abort(sizes.status().message());
      }
      return sizes.status();
    }
    all[first] = (*sizes)[0];
    all[index] = (*sizes)[1];
    all[last] = (*sizes)[2];
    has_ends = true;
  }
  if (!has_ends) {
    return FieldError(Reason::kSpecInvalid, "layer_definitions",
                      "at least one between embedding and head");
  }
  return all;
}

}  // namespace parplan
