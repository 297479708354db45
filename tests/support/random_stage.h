// Small random stages for tests that compare twins.

#ifndef PARPLAN_TESTS_SUPPORT_RANDOM_STAGE_H_
#define PARPLAN_TESTS_SUPPORT_RANDOM_STAGE_H_

#include <cstdint>
#include <random>

#include "planner/search/stage/layer_assignment.h"

namespace parplan {

// How large a random stage may be.
struct RandomStageShape {
  int max_layer_count = 4;
  int max_option_count = 4;
  int max_kind_count = 3;
  int max_layout_count = 3;
  // Times and sizes are whole numbers up to this, so small values make ties.
  int max_value = 20;
};

// A stage drawn from `random`; the same generator state gives the same stage.
inline StageChoices RandomStage(std::mt19937_64& random, const RandomStageShape& shape) {
  const auto draw = [&random](int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  };
  StageChoices stage;
  stage.layout_count = draw(1, shape.max_layout_count);
  const int kind_count = draw(1, shape.max_kind_count);
  for (int kind = 0; kind < kind_count; ++kind) {
    LayerChoices choices;
    const int option_count = draw(1, shape.max_option_count);
    for (int option = 0; option < option_count; ++option) {
      choices.options.push_back(
          {.strategy = {.tensor_parallel_degree = option + 1},
           .layout = draw(0, stage.layout_count - 1),
           .time = Seconds::Milliseconds(draw(1, shape.max_value)),
           .kept = Bytes::Of(draw(0, shape.max_value)),
           .transient = Bytes::Of(draw(0, 2) == 0 ? draw(0, shape.max_value) : 0)});
    }
    for (int slot = 0; slot < stage.layout_count * stage.layout_count; ++slot) {
      const bool same = slot / stage.layout_count == slot % stage.layout_count;
      choices.transitions.push_back(same ? Seconds()
                                         : Seconds::Milliseconds(draw(0, shape.max_value / 4)));
    }
    stage.kinds.push_back(choices);
  }
  int layers_left = draw(1, shape.max_layer_count);
  while (layers_left > 0) {
    const int count = draw(1, layers_left);
    stage.runs.push_back({.kind = draw(0, kind_count - 1), .layer_count = count});
    layers_left -= count;
  }
  return stage;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_RANDOM_STAGE_H_
