#include "clients/calibrate/run_stages.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/calibrate/run_error.h"

namespace parplan::accuracy {
namespace {

std::vector<int> SpreadLayers(int layer_count, int stage_count) {
  std::vector<int> layers(stage_count, layer_count / stage_count);
  for (int i = 0; i < layer_count % stage_count; ++i) ++layers[i];
  return layers;
}

constexpr size_t kMaxLayoutSize = 4096;
constexpr int kMaxLayoutDepth = 8;

// Returns the split by the costs that nanotron gives a model (models/llama.py,
// get_block_compute_costs): elements of the matrices of attention with as many keys and values as
// queries, of a gated feed-forward part, and of the head.
std::vector<int> SplitByCostOf(const PublishedModel& model, int stage_count) {
  const double hidden = model.hidden_size;
  const double layer_cost = hidden * (4.0 * hidden + 3.0 * model.feed_forward_size);
  return SplitLayersByCost(model.layer_count, stage_count, layer_cost,
                           hidden * model.vocabulary_size);
}

// Appends what `layout` stands for from `*at` to its end, or to the bracket that closes `depth`.
// Returns whether it is a layout.
bool ExpandLayout(absl::string_view layout, int depth, size_t* at, std::string* expanded) {
  while (*at < layout.size()) {
    const char symbol = layout[*at];
    if (symbol == ')') return depth > 0;
    ++*at;
    std::string item;
    if (symbol == '(') {
      if (depth == kMaxLayoutDepth || !ExpandLayout(layout, depth + 1, at, &item)) return false;
      if (*at == layout.size()) return false;
      ++*at;
    } else if (absl::string_view("EtmL|").find(symbol) != absl::string_view::npos) {
      item = symbol;
    } else {
      return false;
    }
    size_t count = 1;
    if (*at < layout.size() && layout[*at] == '*') {
      ++*at;
      count = 0;
      for (; *at < layout.size() && absl::ascii_isdigit(layout[*at]); ++*at) {
        count = 10 * count + static_cast<size_t>(layout[*at] - '0');
        if (count > kMaxLayoutSize) return false;
      }
      if (count == 0) return false;
    }
    if (expanded->size() + count * item.size() > kMaxLayoutSize) return false;
    for (size_t i = 0; i < count; ++i) *expanded += item;
  }
  return depth == 0;
}

}  // namespace

std::optional<std::vector<int>> LayersOfLayout(absl::string_view layout) {
  std::string expanded;
  size_t at = 0;
  if (!ExpandLayout(layout, 0, &at, &expanded)) return std::nullopt;
  std::vector<int> layers = {0};
  for (const char symbol : expanded) {
    if (symbol == '|') layers.push_back(0);
    if (symbol == 't') ++layers.back();
  }
  return layers;
}

std::vector<int> SplitLayersByCost(int layer_count, int stage_count, double layer_cost,
                                   double head_cost) {
  const double total = layer_cost * layer_count + head_cost;
  std::vector<int> layers(stage_count, 0);
  int stage = 0;
  for (int layer = 1; layer <= layer_count; ++layer) {
    ++layers[stage];
    if (layer_cost * layer > total * (stage + 1) / stage_count) {
      stage = std::min(stage + 1, stage_count - 1);
    }
  }
  for (int empty = stage_count - 2; empty >= 0; --empty) {
    if (layers[empty] > 0) continue;
    int giver = empty - 1;
    while (giver >= 0 && layers[giver] < 2) --giver;
    if (giver < 0) return SpreadLayers(layer_count, stage_count);
    --layers[giver];
    ++layers[empty];
  }
  return layers;
}

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
                                                StageSplit split,
                                                std::vector<std::string>* assumptions) {
  const int layer_count = run.model.layer_count;
  std::vector<int> layers = run.parallelism.layers_per_stage;
  bool with_ends = run.parallelism.ends_count_as_layers;
  const std::string& layout = run.parallelism.layout;
  if (layers.empty() && absl::StrContains(layout, '|')) {
    const std::optional<std::vector<int>> said = LayersOfLayout(layout);
    if (!said.has_value()) {
      return RunFieldError("parallel.layout", absl::StrCat("`", layout, "` is no layout"));
    }
    layers = *said;
  }
  // Megatron-Bridge's layouts of 61 layers: equal stages, the last with the rest.
  if (absl::StrContains(layout, "equal stages, the last with fewer")) {
    split = StageSplit::kFromFront;
  }
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
    const bool by_cost = split == StageSplit::kByCost && !with_ends;
    layers = by_cost ? SplitByCostOf(run.model, stage_count)
                     : SplitLayers(slots, stage_count, split == StageSplit::kFromFront);
    if (by_cost && stage_count > 1) {
      assumptions->push_back(absl::StrCat("stages have layers by the runtime's rule (",
                                          absl::StrJoin(layers, ", "), ")"));
    } else if (slots % stage_count != 0) {
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
