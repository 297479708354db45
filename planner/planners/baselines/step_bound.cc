#include "planner/planners/baselines/step_bound.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "planner/search/base/tick_scale.h"
#include "planner/search/stage/assignment_bound.h"
#include "planner/search/stage/capped_stage.h"

namespace parplan {
namespace {

// Rounding error of the prediction's sums, which are in another order.
constexpr double kRounding = 1e-12;

constexpr StageObjective kOneMicroBatch{.repeat_count = 1.0, .sync_count = 0.0};

// Returns all layers as one stage with shared memory: layout changes cost nothing, and all have the
// micro-batches in flight of the last stage.
StageChoices AllLayers(const StageTables& tables, const StageObjective& objective) {
  const int stage_count = tables.pipeline_parallel_degree();
  const int layer_count = tables.layer_count();
  StageChoices choices = tables.ChoicesOfStage(0, layer_count, stage_count - 1, objective);
  choices.layout_count = 1;
  for (LayerChoices& kind : choices.kinds) {
    kind.transitions = {Seconds()};
    for (LayerOption& option : kind.options) {
      option.layout = 0;
      option.transient = Bytes();
    }
  }
  return choices;
}

// Returns the least time of all layers if they may keep `budget` bytes together; nothing if they
// cannot.
std::optional<Seconds> LeastTime(const StageTables& tables, const StageObjective& objective,
                                 Bytes budget) {
  const StageChoices choices = AllLayers(tables, objective);
  const TickScale scale(LongestTime(choices));
  const std::optional<CappedStage> capped = CapStage(choices, Bytes(), scale);
  PARPLAN_CHECK(capped.has_value());
  const int64_t room = capped->ExtraRoom(budget);
  if (room < 0) return std::nullopt;
  const double ticks = std::max(
      0.0, std::floor(Relax(*capped, room).bound) - static_cast<double>(capped->layer_count()));
  return scale.ToSeconds(static_cast<int64_t>(ticks));
}

// Returns the least share of the backward pass in the time of a layer.
double LeastBackwardShare(const StageTables& tables) {
  double least = 1.0;
  for (const std::vector<TableEntry>& entries : tables.entries()) {
    for (const TableEntry& entry : entries) {
      const Seconds both = entry.cost.forward + entry.cost.backward;
      if (both > Seconds()) least = std::min(least, entry.cost.backward / both);
    }
  }
  return least;
}

// Returns how often the time of a stage counts in addition to one micro-batch through all stages.
double RepeatCount(const StageTables& tables, int stage_index, double backward_share) {
  const auto micro_batch_count = static_cast<double>(tables.micro_batch_count());
  if (!TraitsOf(tables.schedule()).has_steady_state) return micro_batch_count - 1.0;
  const auto in_flight = static_cast<double>(tables.InFlight(stage_index));
  return (micro_batch_count - in_flight) + (in_flight - 1.0) * backward_share;
}

}  // namespace

Seconds StepLowerBound(const StageTables& tables, Bytes stage_budget) {
  const int stage_count = tables.pipeline_parallel_degree();
  const Bytes budget = stage_budget * stage_count;
  const std::optional<Seconds> one_micro_batch = LeastTime(tables, kOneMicroBatch, budget);
  const std::optional<Seconds> whole_step = LeastTime(tables, tables.WholeStep(), budget);
  if (!one_micro_batch || !whole_step) return Seconds::Infinite();

  const auto micro_batch_count = static_cast<double>(tables.micro_batch_count());
  const double left_of_one = std::pow(1.0 - 1.0 / micro_batch_count, stage_count);
  const Seconds waiting = *one_micro_batch / (1.0 - left_of_one);

  const double backward_share = LeastBackwardShare(tables);
  double inverses = 0.0;
  for (int stage = 0; stage < stage_count; ++stage) {
    inverses += 1.0 / RepeatCount(tables, stage, backward_share);
  }
  const Seconds through_and_back = *one_micro_batch * (1.0 + 1.0 / inverses);

  const Seconds working = *whole_step / static_cast<double>(stage_count);
  return std::max({waiting, through_and_back, working}) * (1.0 - kRounding);
}

}  // namespace parplan
