#include "planner/planners/exact/pipeline/mask_floor.h"

#include <algorithm>

#include "planner/planners/exact/pipeline/pipeline_bound.h"
#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Factor below 1 that covers the rounding of sums in another order.
constexpr double kFloorRounding = 1.0 - 1e-12;

}  // namespace

MaskFloor::MaskFloor(const PipelineSetting& setting, bool interleaves, double cutoff)
    : setting_(setting),
      interleaves_(interleaves),
      cutoff_(cutoff),
      counts_(setting.problem().model().layer_definitions().size()),
      least_(counts_.size()) {
  for (const ModelLayerRun& run : setting.problem().model().layer_runs()) {
    counts_[run.definition_index] += run.layer_count;
  }
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (counts_[definition] == 0) continue;
    Need& least = least_[definition];
    least = {kInfinity, kInfinity};
    for (const StageOption& option : setting.table().options(static_cast<int>(definition))) {
      const Need need = NeedOf(option);
      least.time = std::min(least.time, need.time);
      least.memory = std::min(least.memory, need.memory);
    }
  }
}

bool MaskFloor::Keeps(absl::Span<const int> chosen) {
  Need all;
  double longest = 0.0;
  for (size_t definition = 0; definition < counts_.size(); ++definition) {
    if (counts_[definition] == 0) continue;
    const Need need =
        chosen[definition] < 0
            ? least_[definition]
            : NeedOf(setting_.table().options(static_cast<int>(definition))[chosen[definition]]);
    all.time += need.time * counts_[definition];
    all.memory += need.memory * counts_[definition];
    longest = std::max(longest, need.time);
  }
  const double room = setting_.largest_budget().as_double() * setting_.depth();
  if (all.memory * kFloorRounding > room) return false;
  const int64_t micro_batches = setting_.candidate().micro_batch_count;
  const double step = interleaves_
                          ? all.time * static_cast<double>(micro_batches) / setting_.depth()
                          : SpreadStepBound(setting_.candidate().schedule, setting_.depth(),
                                            micro_batches, all.time, longest);
  if (step * kFloorRounding < cutoff_) return true;
  dropped_slow_ = true;
  return false;
}

}  // namespace parplan
