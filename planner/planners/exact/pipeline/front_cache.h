// Fronts of stages, each solved once for all stages of a pipeline that ask alike.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_FRONT_CACHE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_FRONT_CACHE_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"
#include "planner/search/stage/stage_front.h"

namespace parplan {

// What is asked of a stage besides its memory: at most so many seconds of
struct StageLimits {
  // forward and backward of one micro-batch,
  double way = std::numeric_limits<double>::infinity();
  // the same and the synchronisation,
  double way_and_sync = std::numeric_limits<double>::infinity();
  // all micro-batches and the synchronisation.
  double work = std::numeric_limits<double>::infinity();
};

// What makes a choice of a stage worth keeping.
enum class FrontKeeps {
  // Forward, backward and synchronisation, each.
  kAll,
  // Forward and backward together; the synchronisation only of the first stage.
  kWays,
};

// For one candidate and mask. Keeps references to its arguments.
class FrontCache {
 public:
  //   grain            of the least a stage may take, so much may be lost of the times of its
  //                    choices in all (`StageQuestion::pass_grain`), so that they are few; 0:
  //                    nothing
  //   layout_classes   as in `StageQuestion`; only with a grain
  FrontCache(const PipelineSetting& setting, const OptionMask& allowed, FrontKeeps keeps,
             double grain = 0.0, std::vector<int> layout_classes = {});

  FrontKeeps keeps() const { return keeps_; }

  // The front of layers [first, end) as stage `stage`: of all its choices within `limits`
  // some is as good; others may be there too. Valid until the cache is gone. A front solved
  // for fewer micro-batches in flight serves more as well where all its choices fit.
  // Incomplete once `meter` has ended the search. Times are those of the layers, whatever
  // is kept, but for what grains and classes lose.
  const StageFront& Find(int stage, int first_layer, int end_layer, const StageLimits& limits,
                         SearchMeter& meter);

  // `OptionTable::Send` between layouts of choices: of their classes the least.
  Seconds Send(int definition, int from_layout, int to_layout, bool leaves_node) const;

  int64_t solved_count() const { return solved_count_; }

 private:
  struct Entry {
    int64_t least_in_flight = 1;
    int64_t most_in_flight = 1;
    StageLimits limits;
    std::unique_ptr<const StageFront> front;
  };
  // Layers, whether outputs are kept, more communicators, whether it is the first stage and
  // the last, and what neighbours can win (`NeighbourRange`; 0 where it is no matter).
  using Key = std::tuple<std::vector<DefinitionRun>, bool, int, bool, bool, double>;

  Entry Solve(StageQuestion question, double range, const StageLimits& limits, SearchMeter& meter);
  StageFront SolveWays(StageQuestion question, double range, double bound, double& most_way,
                       SearchMeter& meter);
  // What other layouts at the ends of the stage can win in messages; infinite where some do
  // not go together.
  double NeighbourRange(int stage, int first_layer, int last_definition);
  double SendRange(int definition, bool leaves_node);
  int64_t MostInFlight(const StageQuestion& question, const StageFront& front) const;

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  const FrontKeeps keeps_;
  const double grain_;
  // `StageQuestion::layout_classes`, and the members of each.
  std::vector<int> layout_classes_;
  std::vector<std::vector<int>> members_;
  int64_t solved_count_ = 0;
  // By definition and whether messages leave the node.
  std::map<std::pair<int, bool>, double> send_ranges_;
  std::map<Key, std::vector<Entry>> entries_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_FRONT_CACHE_H_
