#include "clients/calibrate/run_stages.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "clients/calibrate/run_error.h"

namespace parplan::accuracy {
namespace {

std::vector<int> SpreadLayers(int layer_count, int stage_count) {
  std::vector<int> layers(stage_count, layer_count / stage_count);
  for (int i = 0; i < layer_count % stage_count; ++i) ++layers[i];
  return layers;
}

}  // namespace

std::vector<int> SplitLayers(int layer_count, int stage_count, bool from_front) {
  if (!from_front) return SpreadLayers(layer_count, stage_count);
  const int full = (layer_count + stage_count - 1) / stage_count;
  // Only the last stage may be left without layers: it has the head.
  if (full * (stage_count - 2) >= layer_count) return SpreadLayers(layer_count, stage_count);
  std::vector<int> layers(stage_count, 0);
  int left = layer_count;
  for (int& count : layers) {
    count = std::min(full, left);
    left -= count;
  }
  return layers;
}

absl::StatusOr<std::vector<int>> LayersPerStage(const PublishedRun& run, int stage_count,
                                                bool from_front,
                                                std::vector<std::string>* assumptions) {
  const int layer_count = run.model.layer_count;
  std::vector<int> layers = run.parallelism.layers_per_stage;
  bool with_ends = run.parallelism.ends_count_as_layers;
  if (!layers.empty()) {
    if (static_cast<int>(layers.size()) != stage_count) {
      return RunFieldError(
          "parallel.layers_per_stage",
          absl::StrCat("has ", layers.size(), " entries for ", stage_count, " stages"));
    }
    const int sum = std::accumulate(layers.begin(), layers.end(), 0);
    if (sum != layer_count && sum != layer_count + 2) {
      return RunFieldError("parallel.layers_per_stage",
                           absl::StrCat("adds up to ", sum, ", where the model has ", layer_count,
                                        " layers, ", layer_count + 2, " with embedding and head"));
    }
    with_ends = sum == layer_count + 2;
  } else {
    const int slots = with_ends ? layer_count + 2 : layer_count;
    layers = SplitLayers(slots, stage_count, from_front);
    if (slots % stage_count != 0) {
      assumptions->push_back(absl::StrCat(
          slots, " layers do not divide into ", stage_count, " stages; ",
          layers.front() - layers.back() > 1 ? "filled from the front" : "the first have one more",
          " (", layers.front(), " to ", layers.back(), " each)"));
    }
  }
  if (with_ends) {
    --layers.front();
    --layers.back();
  }
  for (int i = 0; i < stage_count; ++i) {
    const bool end = i == 0 || i == stage_count - 1;
    if (layers[i] < (end ? 0 : 1)) {
      return RunFieldError("parallel.pp",
                           absl::StrCat("leaves stage ", i, " of ", stage_count,
                                        " without layers: the model has ", layer_count));
    }
  }
  return layers;
}

}  // namespace parplan::accuracy
