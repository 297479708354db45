#include "clients/report/stage_times.h"

#include <algorithm>
#include <cstddef>

namespace parplan::report {

std::vector<StageTimes> VirtualStageTimes(const Plan& plan, const Prediction& prediction) {
  const int device_count = static_cast<int>(prediction.stages.size());
  // [device] stages that have layers.
  std::vector<int> with_layers(prediction.stages.size(), 0);
  for (size_t index = 0; index < plan.stages.size(); ++index) {
    if (!plan.stages[index].is_empty()) ++with_layers[index % with_layers.size()];
  }
  std::vector<StageTimes> times;
  for (int index = 0; index < static_cast<int>(plan.stages.size()); ++index) {
    const StagePrediction& device = prediction.stages[index % device_count];
    const double share =
        plan.stages[index].is_empty() ? 0.0 : 1.0 / with_layers[index % device_count];
    // The last stage of the model sends nothing.
    const bool is_last = index % device_count == device_count - 1;
    const int send_count = std::max(plan.virtual_stage_count - (is_last ? 1 : 0), 1);
    times.push_back({device.forward * share, device.backward * share,
                     device.send * (1.0 / send_count), device.gradient_sync * share,
                     device.backward_weights * share});
  }
  return times;
}

}  // namespace parplan::report
