// The label-setting dynamic programme that computes the Pareto front of a stage.
//
// A label is the sum of costs over the runs so far. In a run of equal layers, all layers first have
// one option, the reference; then some number of them change to the next option, then to the one
// after it. Each choice of counts occurs once, and a long run takes no longer than a short one.
// After each option, labels are dropped that another dominates or that no completion brings within
// the cuts. The number of layers that may change follows from the bounds, which are linear in it.
// `SolveStage` runs it once per case.
//
// Words (docs/glossary.md): a cut is a linear inequality on the times of a stage that every wanted
// plan satisfies; half a resharding is the part that one of the two passes takes; a meter counts
// states and says when a search must end (search_meter.h); options have one layout if activations
// move between them at no cost; an option is a strategy of a layer definition with its costs
// (option_table.h).

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/search/base/search_meter.h"
#include "planner/search/stage/front_case.h"
#include "planner/search/stage/layout_walks.h"

namespace parplan {

// Consecutive layers of a run under one option.
struct FrontBlock {
  // Index into `FrontStage::kinds`.
  int kind = 0;
  // Index into `FrontCase::options` of that kind.
  int choice = 0;
  int layer_count = 0;
};

// The search of one case of a stage. Keeps references to its arguments, which must outlive it. Not
// thread-safe.
class FrontSearch {
 public:
  // The last action of a label, if it is not a change of some layers to an option.
  static constexpr int kNothing = -2;
  static constexpr int kEndOfRun = -1;

  // Assignments to the layers so far that have the same costs and state.
  struct Label {
    FrontSum sum;
    // `transient` is at least `FrontCase::least_transient`, `budget` at most
    // `FrontCase::max_budget`.
    int64_t transient = 0;
    int64_t budget = 0;
    // Whether memory can still become binding, and if so the bytes of `sum`; else 0.
    bool binds = false;
    int64_t binding_bytes = 0;
    int first_layout = -1;
    // Last layout of the runs before the one that is being added.
    int last_layout = -1;
    // State of the current run: the layouts it will begin and end with (-1: any), the multiset of
    // its layouts except the reference's, and the number of layers still under the reference that
    // may change.
    int begin_layout = -1;
    int end_layout = -1;
    int set = LayoutWalks::kEmpty;
    int free_count = 0;
    // The node the label came from, and the action since (as in `Node`).
    int node = -1;
    int choice = kNothing;
    int count = 0;
  };

  // `known_times` is as in `TickStage`; times that are found are added, so that a search of another
  // case of the stage leaves out what is no faster.
  FrontSearch(const FrontCase& front_case, std::vector<int64_t>& known_times, SearchMeter& meter);

  // Computes the labels of the whole stage. Among labels of the same first and last layout, as far
  // as these matter, none dominates another. Returns none if the meter stopped, even before the
  // call (then nothing is proved), or if no assignment of the case is within the cuts and the
  // memory, or none is better than `known_times`. Call it once; the labels are valid as long as
  // this object.
  const std::vector<Label>& Run();

  // Returns the layers of a label of `Run`, from the first; neighbouring blocks may have the same
  // option.
  std::vector<FrontBlock> Blocks(const Label& label);

 private:
  struct Node {
    int parent = -1;
    // A change of `count` layers to an option: an index into `FrontCase::options`. For `kEndOfRun`,
    // `count` is an index into `walk_uses_`.
    int choice = kNothing;
    int count = 0;
  };
  struct WalkUse {
    int kind = 0;
    int set = 0;
    int index = 0;
  };
  // The most that layers of this run that may still change can gain, for one cut.
  struct Tail {
    // Largest gain of one layer; not positive.
    double win = 0.0;
    Rates rates;
  };
  // For one cut and layout: the least reduced cost of a layer under it relative to the reference,
  // and the least and most bytes it adds.
  struct Forced {
    double reduced = std::numeric_limits<double>::infinity();
    double least_bytes = 0.0;
    double max_bytes = 0.0;
  };
  // Gains of the layers that may still change, by the first option they may change to.
  struct Tails {
    // [option * cut count + cut], with one more entry than there are options.
    std::vector<Tail> tails;
    // [option] bytes a layer can save; not positive.
    std::vector<int64_t> bytes;
    // [option] bytes a layer can add; not negative. `more_useful_bytes` counts only options that
    // are faster than the reference in some time.
    std::vector<int64_t> more_bytes;
    std::vector<int64_t> more_useful_bytes;
  };
  // Number of layers that may change.
  struct Range {
    int64_t least;
    int64_t largest;
  };

  void AddRun(int run);
  // Returns the labels before the run extended by all its layers under the reference, once for each
  // pair of first and last layout of the run with which it may end within the cuts; layers may
  // change to options from `first_change` on. Some are missing if the meter stopped.
  std::vector<Label> Begin(int run, int reference, int first_change);
  void AddReference(int run, int reference, std::vector<Label>& finished);
  void MakeTails(int run, int reference);
  // Sets `least_costs_`.
  void FindLeastCosts(int run);
  bool AnyWithin(int run, int reference) const;
  // Returns whether no completion of the label satisfies all cuts. `reference` is -1 at the end of
  // the run.
  bool ExceedsCuts(int run, int reference, const Label& label, int option);
  // Returns whether a stage with the label's first and last layout is already known to be as fast
  // as `least`, a lower bound of the first cut.
  bool IsKnown(int run, int reference, const Label& label, double least) const;
  // Returns a lower bound of the half resharding, in ticks, among the layouts of the run.
  int64_t LeastHalfResharding(int run, int reference, const Label& label);
  // Returns whether some layer under `layout` must still be added.
  bool Lacks(int run, int reference, const Label& label, int layout) const;
  Range CountsWithin(int run, const Label& label, const FrontSum& change, int option,
                     int64_t half_resharding) const;
  // Adds all ways to change layers of `label` to option `next`.
  void AddChanges(int run, int reference, int next, const Label& label,
                  std::vector<Label>& changed);
  void Finish(int run, int reference, const std::vector<Label>& labels,
              std::vector<Label>& finished);
  // Keeps the labels no other dominates, in an order that depends only on their values, and gives
  // them nodes. The labels may still change layers from `reference` to options from `option` on; -1
  // at the end of the run.
  void KeepBest(int run, int reference, int option, std::vector<Label>& labels);
  // Clears the bytes of a label if no worthwhile completion needs more memory than there is.
  void SetBindingBytes(int run, int reference, int option, Label& label);
  // Returns how far the label's transient and budget are from the best possible, in bytes.
  int64_t Overhead(const Label& label) const {
    return label.transient - case_.least_transient + case_.max_budget - label.budget;
  }
  // Returns whether every completion of `b` is possible for `a` and no slower, even if layers under
  // other layouts make it reshard more.
  bool Dominates(int run, int reference, const Label& a, const Label& b);
  // Returns the most half resharding, in ticks, that `a` may need beyond that of `b` from here on.
  int64_t MaxExtraResharding(int run, int reference, const Label& a, const Label& b);
  // Sets `extra_resharding_after_`.
  void CompareNextResharding(int run);
  // Returns whether the run can still begin and end with the layouts the label has chosen.
  bool CanEnd(int run, int reference, int option, const Label& label) const;
  void GiveNodes(std::vector<Label>& labels);
  void AddBlocks(int run, const std::vector<int>& counts, const LayoutWalk& walk,
                 std::vector<FrontBlock>& blocks) const;
  const TickStage::Option& Option(int run, int choice) const {
    return case_.options[case_.stage->runs[run].kind][choice];
  }

  const FrontCase& case_;
  std::vector<int64_t>& known_times_;
  SearchMeter& meter_;
  // [kind]
  std::vector<LayoutWalks> walks_;
  std::vector<Label> labels_;
  std::vector<Node> nodes_;
  std::vector<WalkUse> walk_uses_;
  // [option * cut count + cut] the least cost of the option and those behind it, in the run that is
  // being added.
  std::vector<double> least_costs_;
  // Gains of the layers under the current reference.
  Tails tails_;
  // [layout] one past the last option of the run that has the layout.
  std::vector<int> end_of_layout_;
  // [layout * cut count + cut]
  std::vector<Forced> forced_;
  // [a * layout count + b] the most half resharding, in ticks, into the next run from layout a
  // beyond that from b, for two layouts of the run.
  std::vector<int64_t> extra_resharding_after_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_
