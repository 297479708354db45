// Pareto fronts of stages, each solved once for all stages of a pipeline that ask the same. Used by
// `MaskSearch` and `SuffixSearch`.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a front is the ways
// to run a stage of which none is better than another in every time; a candidate is all plans of
// one batch size, pipeline degree, number of micro-batches and schedule; options have one layout if
// activations move between them at no cost; micro-batches in flight have done their forward pass
// and not yet their backward pass.

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

// Cutoffs of the times of a stage, in seconds.
struct StageLimits {
  // Forward and backward of one micro-batch, together.
  double forward_backward = std::numeric_limits<double>::infinity();
  // The same plus the synchronisation.
  double forward_backward_sync = std::numeric_limits<double>::infinity();
  // Forward and backward of all micro-batches plus the synchronisation.
  double work = std::numeric_limits<double>::infinity();
};

// The times in which choices of a stage are compared.
enum class FrontKeeps {
  // Forward, backward and synchronisation, each by itself.
  kAll,
  // The sum of forward and backward; synchronisation for the first of several stages, and a share
  // of it if there is one stage (`StageQuestion::sync_share`).
  kForwardBackward,
  // The sum of forward and backward, and the synchronisation of every stage. For several stages
  // under 1F1B.
  kForwardBackwardSync,
};

// The way in which each range of layers is run, if nothing is left to choose. Layers and stages
// count from 0.
class StageRule {
 public:
  virtual ~StageRule() = default;
  // Returns the one choice of layers [first_layer, end_layer) as stage `stage`, or an empty front
  // if it does not fit. Valid until the rule is changed or destroyed.
  virtual const StageFront& Front(int stage, int first_layer, int end_layer) = 0;
};

// The fronts of one candidate and mask. Not thread-safe.
class FrontCache {
 public:
  // `setting`, `allowed` and `rule` must outlive the cache.
  //
  //  allowed          the options that choices may have; empty allows all
  //  grain            share of the least time of a stage, from 0 to below 1, that may be lost by
  //                   rounding the times of its choices (`StageQuestion::pass_grain`), so that they
  //                   are few; 0: exact
  //  layout_classes   as in `StageQuestion`; only with a grain
  //  rule             replaces the choice of options, if it is not null; only without a grain (not
  //                   checked)
  FrontCache(const PipelineSetting& setting, const OptionMask& allowed, FrontKeeps keeps,
             double grain = 0.0, std::vector<int> layout_classes = {}, StageRule* rule = nullptr);

  // Return the arguments of the constructor with these names.
  FrontKeeps keeps() const { return keeps_; }
  double grain() const { return grain_; }

  // Returns the front of layers [first_layer, end_layer) as stage `stage`. For every choice within
  // `limits`, the front has one at least as good; it may have others. Valid for the lifetime of the
  // cache; with a rule it is the rule's front, and valid as long as that. A front solved for fewer
  // micro-batches in flight is reused for more if all its choices still fit. Incomplete
  // (`StageFront::is_complete`) if `meter`, which is asked before each front is solved, ended the
  // search. Without a grain, the times of choices are those of their layers, whichever are
  // compared. With one they are less what grains and layout classes lose, and with
  // sums of passes the backward time is counted in `forward` (`StageQuestion::joins_passes`).
  const StageFront& Find(int stage, int first_layer, int end_layer, const StageLimits& limits,
                         SearchMeter& meter);

  // Returns `OptionTable::Send` between layouts of choices, where `definition` is that of the last
  // layer of the stage that sends: with layout classes, the least between members of their classes.
  Seconds Send(int definition, int from_layout, int to_layout, bool leaves_node) const;

 private:
  struct Entry {
    int64_t least_in_flight = 1;
    int64_t max_in_flight = 1;
    // `StageBound` with `least_in_flight`, if the relaxation has one; else below 0.
    double bound = -1.0;
    StageLimits limits;
    std::unique_ptr<const StageFront> front;
  };
  // The runs, whether outputs are kept, extra communicators, whether it is the first stage and the
  // last, and the result of `NeighbourRange` (0 if it does not matter).
  using Key = std::tuple<std::vector<DefinitionRun>, bool, int, bool, bool, double>;

  Entry Solve(StageQuestion question, double range, double bound, const StageLimits& limits,
              SearchMeter& meter);
  StageFront SolveForwardBackward(const StageQuestion& question, double range, double bound,
                                  double& cutoff, SearchMeter& meter);
  // Returns the most, in seconds, that other layouts at the ends of the stage can save in messages;
  // infinite if some may not be neighbours.
  double NeighbourRange(int stage, int first_layer, int last_definition);
  double SendRange(int definition, bool leaves_node);
  int64_t MaxInFlight(const StageQuestion& question, const StageFront& front) const;

  const PipelineSetting& setting_;
  const OptionMask& allowed_;
  const FrontKeeps keeps_;
  const double grain_;
  StageRule* const rule_;
  // `StageQuestion::layout_classes`, and [layout] the members of each class.
  std::vector<int> layout_classes_;
  std::vector<std::vector<int>> members_;
  // Results of `SendRange`, by definition and whether messages leave the node.
  std::map<std::pair<int, bool>, double> send_ranges_;
  std::map<Key, std::vector<Entry>> entries_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_FRONT_CACHE_H_
