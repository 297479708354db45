// Memory of layers from Galvatron's raw blocks.
//
// A block `1_{tp}_{dp}` holds, for models of n layers at global batch B, what
// one rank has: model states (`_ms`), activations (`_act`) and their peak. The
// states are those of n layers and of embedding and head, split over tp * dp
// ranks (the raw models train with ZeRO-3), so with S = 4 P states of a layer:
//
//   P = (ms(n2) - ms(n1)) / (n2 - n1) * tp * dp / 4
//   activation per sample = (act(n2) - act(n1)) / (n2 - n1) / (B / dp)

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_file_rules.h"
#include "clients/import/galvatron_memory.h"
#include "clients/import/galvatron_names.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

using nlohmann::json;

// The memory of rank 0 of one raw model.
struct RawModel {
  std::optional<double> states;
  std::optional<double> activation;
  std::optional<double> peak;
};

// The models of one block: by (sequence length, batch size), then by layer count.
using RawBlock = std::map<std::pair<int, int>, std::map<int, RawModel>>;

absl::StatusOr<RawBlock> ReadBlock(const json& block, absl::string_view file_name,
                                   const std::string& field) {
  RawBlock models;
  if (!block.is_object()) return ImportError(kFileReason, file_name, field, "must be an object");
  for (const auto& [name, value] : block.items()) {
    const std::string at = absl::StrCat(field, ".", name);
    PARPLAN_ASSIGN_OR_RETURN(const double size, ReadNumber(value, kFileReason, file_name, at));
    const std::optional<GalvatronMemoryKey> key = ParseGalvatronMemoryKey(name);
    if (!key.has_value() || key->rank != 0 || key->layer_counts.size() != 1 ||
        key->sequence_lengths.size() > 1) {
      continue;
    }
    const int length = key->sequence_lengths.empty() ? 0 : key->sequence_lengths.front();
    RawModel& model = models[{length, key->batch_size}][key->layer_counts.front()];
    switch (key->kind) {
      case GalvatronMemoryKey::Kind::kModelStates:
        model.states = size;
        break;
      case GalvatronMemoryKey::Kind::kActivation:
        model.activation = size;
        break;
      case GalvatronMemoryKey::Kind::kActivationPeak:
        model.peak = size;
        break;
    }
  }
  return models;
}

// States and activations of one layer on rank 0: the difference between the
// smallest and the largest model.
struct RawLayer {
  double states = 0.0;
  double activation = 0.0;
};
std::optional<RawLayer> Difference(const std::map<int, RawModel>& models) {
  if (models.size() < 2) return std::nullopt;
  const auto& [low_count, low] = *models.begin();
  const auto& [high_count, high] = *models.rbegin();
  if (!low.states || !low.activation || !high.states || !high.activation) return std::nullopt;
  const double layers = high_count - low_count;
  RawLayer layer{(*high.states - *low.states) / layers,
                 (*high.activation - *low.activation) / layers};
  if (!(layer.states > 0.0) || layer.activation < 0.0) return std::nullopt;
  return layer;
}

}  // namespace

absl::Status ReadRawGalvatronMemory(const json& object, absl::string_view file_name,
                                    GalvatronMemory* memory) {
  // Memory of layers by (sequence parallel, sequence length).
  std::map<std::pair<bool, int>, GalvatronLayerMemory> layers;
  std::map<std::pair<bool, int>, GalvatronOtherMemory> other;
  std::map<std::tuple<bool, int, int>, RawLayer> layer_at;  // and tensor-parallel degree
  std::map<std::pair<bool, int>, double> checkpoints;
  const auto read = [&](bool vocabulary_tensor) -> absl::Status {
    for (const auto& [name, value] : object.items()) {
      const std::optional<GalvatronMemoryBlock> block = ParseGalvatronMemoryBlock(name);
      if (!block.has_value() || block->pipeline != 1 ||
          block->vocabulary_tensor != vocabulary_tensor || block->data > kMaxDeviceCount ||
          block->tensor > kMaxDeviceCount) {
        continue;
      }
      PARPLAN_ASSIGN_OR_RETURN(const RawBlock models, ReadBlock(value, file_name, name));
      for (const auto& [where, by_count] : models) {
        const auto& [length, batch] = where;
        const std::pair<bool, int> key(block->sequence_parallel, length);
        const std::tuple<bool, int, int> key_at(block->sequence_parallel, length, block->tensor);
        const double samples = static_cast<double>(batch) / block->data;
        std::optional<RawLayer> layer = Difference(by_count);
        if (block->checkpoint) {
          if (layer.has_value() && block->tensor == 1) {
            checkpoints[key] = layer->activation / samples;
          }
          continue;
        }
        if (vocabulary_tensor) {
          const auto found = layer_at.find(key_at);
          if (found == layer_at.end()) continue;
          layer = found->second;
        }
        if (!layer.has_value()) continue;
        if (!vocabulary_tensor) {
          layer_at.emplace(key_at, *layer);
          GalvatronLayerMemory& entry = layers[key];
          entry.sequence_parallel = block->sequence_parallel;
          entry.sequence_length = length;
          entry.differenced = true;
          // The smallest degree gives the parameters: others hold copies of what is not split.
          if (entry.activation_megabytes.empty() ||
              block->tensor < entry.activation_megabytes.begin()->first) {
            entry.parameter_megabytes = layer->states * block->tensor * block->data / 4.0;
          }
          entry.activation_megabytes[block->tensor] = layer->activation / samples;
        }
        // Embedding and head together: what n layers leave. Beyond degree 1 only
        // the `_vtp` blocks split the vocabulary.
        if (block->tensor > 1 && !vocabulary_tensor) continue;
        const auto& [count, model] = *by_count.begin();
        if (!model.states || !model.peak) continue;
        const double states = (*model.states - count * layer->states) * block->data;
        const double activation = (*model.peak - count * layer->activation) / samples;
        if (states <= 0.0 || activation < 0.0) continue;
        GalvatronOtherMemory& rest = other[key];
        rest.sequence_parallel = block->sequence_parallel;
        if (length > 0) rest.sequence_lengths = {length};
        rest.state_megabytes[block->tensor] = states;
        rest.activation_megabytes[block->tensor] = activation;
        rest.differenced = true;
      }
    }
    return absl::OkStatus();
  };
  PARPLAN_RETURN_IF_ERROR(read(/*vocabulary_tensor=*/false));
  PARPLAN_RETURN_IF_ERROR(read(/*vocabulary_tensor=*/true));
  for (auto& [key, layer] : layers) {
    const auto found = checkpoints.find(key);
    if (found != checkpoints.end()) layer.checkpoint_megabytes = found->second;
    memory->layers.push_back(std::move(layer));
    memory->layer_type_count = 1;
  }
  for (auto& [key, rest] : other) memory->other.push_back(std::move(rest));
  if (!memory->layers.empty()) {
    memory->notes.push_back(
        absl::StrCat(file_name,
                     ": memory is computed from the raw blocks, as the difference of two models "
                     "sharded over their data-parallel ranks"));
  }
  return absl::OkStatus();
}

}  // namespace parplan
