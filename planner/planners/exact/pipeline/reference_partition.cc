#include "planner/planners/exact/pipeline/reference_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/search/space/allowed_options.h"

namespace parplan {
namespace {

// Returns [definition] the least forward and backward time of any option; 0 if there is none.
std::vector<double> LeastForwardBackward(const PipelineSetting& setting,
                                         const OptionMask& allowed) {
  const ModelSpec& model = setting.problem().model();
  std::vector<double> forward_backward(model.layer_definitions().size(), -1.0);
  for (const ModelLayerRun& run : model.layer_runs()) {
    double& least = forward_backward[run.definition_index];
    if (least >= 0.0) continue;
    least = std::numeric_limits<double>::infinity();
    const std::vector<StageOption>& options = setting.table().options(run.definition_index);
    const auto take = [&least](const StageOption& option) {
      least = std::min(least, (option.forward + option.backward).value());
    };
    if (allowed.empty()) {
      std::for_each(options.begin(), options.end(), take);
    } else {
      ForEachAllowed(allowed[run.definition_index], [&](int k) { take(options[k]); });
    }
    if (!std::isfinite(least)) least = 0.0;
  }
  return forward_backward;
}

}  // namespace

std::vector<int> ReferencePartition(const PipelineSetting& setting, const OptionMask& allowed) {
  if (!setting.fixed_boundaries().empty()) {
    return {setting.fixed_boundaries().begin(), setting.fixed_boundaries().end()};
  }
  const int depth = setting.depth();
  const int layer_count = setting.layer_count();
  std::vector<int> boundaries(depth + 1, layer_count);
  boundaries[0] = 0;
  // There is no partition, and the result is not used.
  if (!setting.has_partition()) return boundaries;
  const std::vector<double> forward_backward = LeastForwardBackward(setting, allowed);
  std::vector<double> before(layer_count + 1, 0.0);
  for (int layer = 0; layer < layer_count; ++layer) {
    before[layer + 1] = before[layer] + forward_backward[setting.definition_of(layer)];
  }
  const double count = setting.recurrence().micro_batch_count();
  const double shrink = setting.recurrence().is_gpipe() || count == 1.0 ? 1.0 : 1.0 - 1.0 / count;
  double all = 0.0;
  double share = 1.0;
  for (int i = 0; i < depth; ++i, share *= shrink) all += share;
  double sum = 0.0;
  share = 1.0;
  for (int i = 1; i < depth; ++i, share *= shrink) {
    sum += share;
    const double wanted = before[layer_count] * (sum / all);
    const auto place = std::lower_bound(before.begin(), before.end(), wanted);
    auto layer = static_cast<int>(place - before.begin());
    if (layer > 0 && wanted - before[layer - 1] < before[layer] - wanted) --layer;
    boundaries[i] = std::clamp(layer, std::max(boundaries[i - 1] + 1, setting.least_first(i)),
                               setting.largest_first(i));
  }
  return boundaries;
}

}  // namespace parplan
