// What the definitions of an interleaved plan may choose, bounded and tried.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/interleaved_relaxation.h"
#include "planner/planners/exact/pipeline/partition_seams.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// What the definitions may use under one mask.
struct MaskedOptions {
  // Definitions that layers have, those with most layers first.
  std::vector<int> order;
  // [definition] allowed options, the fastest first, and the least of their times.
  std::vector<std::vector<int>> allowed;
  DefinitionTimes least;
  // [definition] the least memory of each kind.
  std::vector<Bytes> least_states;
  std::vector<Bytes> least_kept;
  std::vector<Bytes> least_transient;
  // Whether each definition that layers have has an option.
  bool usable = true;
};

MaskedOptions MaskedOptionsOf(const PipelineSetting& setting, const OptionMask& mask);

// What the search of one candidate has met, and how far it may go.
struct InterleavedFinds {
  // Steps that plans must not take.
  Seconds most;
  PlanList plans;
  // Choices for definitions before the rest is left with its bound: models of many
  // definitions have too many combinations.
  int64_t choices_left;
  // Passes of plans before no more are simulated.
  int64_t passes_left;
  // The least bound of what was left so, in seconds.
  double least_unseen = std::numeric_limits<double>::infinity();
};

// All plans of one partition. Keeps references to its arguments; not to be used by two
// threads at once.
class PartitionChoices {
 public:
  // The definition with most layers uses one option, the others any.
  struct Start {
    int option = 0;
    // No plan of it has a shorter step, in seconds.
    double bound = 0.0;
  };

  // Memory is that of the setting's micro-batches, steps are of `micro_batch_count`. `prices`:
  // of the partition, these micro-batches and all options of the mask, bounded; may be null.
  PartitionChoices(const PipelineSetting& setting, const InterleavedPartition& partition,
                   const MaskedOptions& masked, int64_t micro_batch_count,
                   const InterleavedRelaxation* prices);

  // Those that may fit, with a bound below `most` seconds, and of which no other is nowhere
  // worse.
  std::vector<Start> Starts(double most);
  // The least bound of those that may fit, if that is below `most` seconds; else `most`.
  double LeastBound(double most);

  // Looks at the plans of one of the starts.
  void Search(const Start& start, PlanEvaluator& evaluator, InterleavedFinds& finds,
              SearchMeter& meter);

 private:
  // Virtual stages to the next that mean the same messages.
  struct Hop {
    // Definitions of the layers at the boundary.
    int before = 0;
    int after = 0;
    bool leaves_node = false;
    int count = 0;
  };

  const StageOption& OptionOf(int definition, int option) const {
    return setting_.table().options(definition)[option];
  }
  void SetLeast(int definition);
  void SetTimes(int definition, int index);
  double Most(const InterleavedFinds& finds) const;
  void AddHops();
  // Of messages over a hop, under what is chosen.
  double LeastSend(const Hop& hop) const;
  double Bound();
  // By the prices alone.
  double PricedBound() const;
  bool MayFit();
  // Allowed options with which bounds by prices allow a plan worth having, the most promising
  // first.
  std::vector<int> Promising(int definition, const InterleavedFinds& finds);
  void Choose(size_t position, PlanEvaluator& evaluator, InterleavedFinds& finds,
              SearchMeter& meter);
  void Try(PlanEvaluator& evaluator, InterleavedFinds& finds);

  const PipelineSetting& setting_;
  const InterleavedPartition& partition_;
  const MaskedOptions& masked_;
  const InterleavedRelaxation* const prices_;
  const int depth_;
  const int64_t micro_batch_count_;
  const StageCounts counts_;
  const PartitionSeams seams_;
  const InterleavedPaths paths_;
  std::vector<Hop> hops_;
  // [device] the hop of its first stage, as an index into `hops_`.
  std::vector<int> first_hops_;
  // Of `hops_`, and by device, for `Bound`.
  std::vector<double> hop_sends_;
  std::vector<double> sends_;
  // Of definitions that are not decided the least.
  DefinitionTimes times_;
  // [definition] option, or -1.
  std::vector<int> chosen_;
  // [chunk], for `MayFit`.
  std::vector<Bytes> kept_;
  std::vector<int64_t> unused_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_
