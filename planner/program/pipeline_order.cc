#include "planner/program/pipeline_order.h"

#include <algorithm>

namespace parplan {

std::vector<PipelinePass> PassesOf(Schedule schedule, int device_count, int virtual_stage_count,
                                   int device, int64_t micro_batch_count) {
  const int64_t pass_count = micro_batch_count * virtual_stage_count;
  // Passes of one direction by groups: so many micro-batches go through the first stage of
  // the device, then through the next.
  const int64_t group = virtual_stage_count == 1 ? micro_batch_count : device_count;
  const auto pass = [&](int64_t index, bool is_backward) {
    const int64_t in_round = index % (group * virtual_stage_count);
    const int64_t chunk = in_round / group;
    const int64_t stage = is_backward ? virtual_stage_count - 1 - chunk : chunk;
    return PipelinePass{
        .stage_index = static_cast<int>(stage * device_count + device),
        .micro_batch = index / (group * virtual_stage_count) * group + in_round % group,
        .is_backward = is_backward};
  };
  int64_t warm_up = 0;
  if (device_count == 1) {
    // No pipeline: one micro-batch after the other.
    warm_up = 0;
  } else if (schedule == Schedule::kGpipe) {
    warm_up = pass_count;
  } else if (virtual_stage_count == 1) {
    warm_up = device_count - 1 - device;
  } else {
    warm_up = 2 * (device_count - 1 - device) + (virtual_stage_count - 1) * device_count;
  }
  warm_up = std::min<int64_t>(warm_up, pass_count);
  std::vector<PipelinePass> passes;
  passes.reserve(2 * pass_count);
  for (int64_t index = 0; index < warm_up; ++index) passes.push_back(pass(index, false));
  for (int64_t index = warm_up; index < pass_count; ++index) {
    passes.push_back(pass(index, false));
    passes.push_back(pass(index - warm_up, true));
  }
  for (int64_t index = pass_count - warm_up; index < pass_count; ++index) {
    passes.push_back(pass(index, true));
  }
  return passes;
}

}  // namespace parplan
