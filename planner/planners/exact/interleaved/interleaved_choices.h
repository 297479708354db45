// The choice of one option for each definition of an interleaved plan: bounds and search. Used by
// the searches and bounds of this folder. Steps and bounds include the overhead of a step.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a cutoff is a time
// that a plan must stay below to be wanted; a price is the Lagrangian multiplier of memory, in
// seconds per byte; a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule; an option is a strategy of a layer definition with its costs
// (option_table.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/group_sizes.h"
#include "planner/planners/exact/interleaved/interleaved_partitions.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/interleaved_relaxation.h"
#include "planner/planners/exact/pipeline/partition_seams.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/plan_assembly.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// The options that definitions may use under one mask.
struct MaskedOptions {
  // Definitions that layers have, most layers first.
  std::vector<int> order;
  // [definition] allowed options, as indices into those of the table, the fastest in a step of the
  // setting's micro-batches first; `least` has the least of each time, each by itself, infinite if
  // no option is allowed. Only the entries of definitions in `order` mean something, here and
  // below.
  std::vector<std::vector<int>> allowed;
  DefinitionTimes least;
  // [definition] the least bytes of each kind, each by itself; `Bytes::Max()` if no option is
  // allowed.
  std::vector<Bytes> least_states;
  std::vector<Bytes> least_kept;
  std::vector<Bytes> least_transient;
  // Whether each definition that layers have has an option.
  bool usable = true;
};

// Returns the options that `mask` leaves to each definition of the model, with their least times
// and bytes. REQUIRES, unchecked: `mask` is one of the table of `setting`, and not empty.
MaskedOptions MaskedOptionsOf(const PipelineSetting& setting, const OptionMask& mask);

// The plans found in one candidate, and what the search may still spend.
struct InterleavedFinds {
  // Cutoff: plans must have a shorter step, overhead included. May be infinite.
  Seconds cutoff;
  PlanList plans;
  // Remaining choices of an option for a definition. When they are used up, the rest is left with
  // its bound, because models of many definitions have too many combinations. Only
  // `PartitionChoices::Search` counts them, and the passes below; it may leave them below 0.
  int64_t choices_left;
  // Remaining passes of schedules that may be simulated, forward and backward ones of all stages.
  int64_t passes_left;
  // The least bound, in seconds, of everything that was left; infinite if nothing was.
  double least_unseen = std::numeric_limits<double>::infinity();
};

// Returns the step, in seconds, that a plan must stay below: the cutoff, or the step of the last of
// the plans if that is less and as many as wanted were found.
double CutoffOf(const PipelineSetting& setting, const InterleavedFinds& finds);

// The plans of one partition. Keeps references to its arguments, which must outlive it. Not
// thread-safe. REQUIRES, unchecked: `masked.usable`.
class PartitionChoices {
 public:
  // The plans in which the definition with most layers uses one option and the others any.
  struct Start {
    int option = 0;
    // Lower bound of the step of its plans, in seconds.
    double bound = 0.0;
  };

  // The setting is one of 1F1B. Memory is that of the setting's micro-batches, steps are those of
  // `micro_batch_count`, no fewer; without `group_sizes` both are multiples of the degree. `prices`
  // is a bounded relaxation of the partition with these micro-batches and all options of the mask;
  // may be null. With `group_sizes`, which may be null, plans have groups of the sizes tried there,
  // and bounds hold for all sizes above the pipeline degree; `prices` must then be null.
  PartitionChoices(const PipelineSetting& setting, const InterleavedPartition& partition,
                   const MaskedOptions& masked, int64_t micro_batch_count,
                   const InterleavedRelaxation* prices, const GroupSizes* group_sizes);

  // Returns the starts that may fit and whose bound is below `cutoff` seconds, without dominated
  // ones, in the order of `MaskedOptions::allowed`.
  std::vector<Start> Starts(double cutoff);
  // Returns the least bound of the plans that may fit, or `cutoff` seconds if that is less. Whether
  // neighbouring layers may have the options is not asked.
  double LeastBound(double cutoff);

  // Searches the plans of one of `Starts`, which this object returned, and adds those that fit and
  // are below the cutoff (`CutoffOf`) to `finds`. `evaluator` is one for the problem of the
  // setting. If `meter` or a limit of `finds` ends it, or not all sizes of groups were tried, the
  // bounds of what is left go to `finds.least_unseen`.
  void Search(const Start& start, PlanEvaluator& evaluator, InterleavedFinds& finds,
              SearchMeter& meter);

 private:
  // Virtual stages whose messages to the next stage are alike.
  struct Hop {
    // Definitions of the layers on either side of the boundary.
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
  void AddHops();
  // Returns the least time of a message over the hop, given the options chosen so far.
  double LeastSend(const Hop& hop) const;
  double Bound();
  // Returns the bound from the prices alone.
  double PricedBound() const;
  bool MayFit();
  // Returns the least bytes that a device keeps at its fullest moment, given what a micro-batch
  // keeps in each chunk (`kept_`).
  Bytes LeastKept(int device);
  // Returns the allowed options with which the bound from prices stays below the cutoff, most
  // promising first.
  std::vector<int> Promising(int definition, const InterleavedFinds& finds);
  void Choose(size_t position, PlanEvaluator& evaluator, InterleavedFinds& finds,
              SearchMeter& meter);
  void Try(PlanEvaluator& evaluator, InterleavedFinds& finds);
  void TryGroups(int64_t group_size, PlanEvaluator& evaluator, InterleavedFinds& finds);

  const PipelineSetting& setting_;
  const InterleavedPartition& partition_;
  const MaskedOptions& masked_;
  const InterleavedRelaxation* const prices_;
  const GroupSizes* const group_sizes_;
  const int depth_;
  const int64_t micro_batch_count_;
  const StageCounts counts_;
  const PartitionSeams seams_;
  const InterleavedPaths paths_;
  std::vector<Hop> hops_;
  // [device] the hops of its first and its last stage, as indices into `hops_`; the last device has
  // none of the latter.
  std::vector<int> first_hops_;
  std::vector<int> last_hops_;
  // Send times by hop, and by device, for `Bound`.
  std::vector<double> hop_sends_;
  std::vector<double> sends_;
  std::vector<double> last_sends_;
  // Times of the chosen options; for undecided definitions the least times.
  DefinitionTimes times_;
  // [definition] index of the option, or -1.
  std::vector<int> chosen_;
  // [chunk] scratch space of `MayFit`.
  std::vector<Bytes> kept_;
  std::vector<int64_t> unused_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_INTERLEAVED_INTERLEAVED_CHOICES_H_
