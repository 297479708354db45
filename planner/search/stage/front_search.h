// The labels of a stage's front.
//
// A label is a sum over the runs so far. In a run of equal layers all of them first have
// one option, the reference; then so many of them change to the next option, then to the
// one after it: each choice of counts comes once, and a long run takes no longer than a
// short one. Labels that another one beats, and those that no completion brings within
// the cuts, are dropped after each option. How many layers may change follows from the
// bounds, which are linear in it.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/search/base/search_meter.h"
#include "planner/search/stage/front_case.h"
#include "planner/search/stage/layout_walks.h"

namespace parplan {

// Layers of a run under one option, neighbours.
struct FrontBlock {
  int kind = 0;
  // Index into `FrontCase::options`.
  int choice = 0;
  int layer_count = 0;
};

class FrontSearch {
 public:
  // What a label did last, besides changing some layers to an option.
  static constexpr int kNothing = -2;
  static constexpr int kEndOfRun = -1;

  // Assignments to the layers so far.
  struct Label {
    FrontSum sum;
    // Not below `FrontCase::least_transient`, not above `FrontCase::most_budget`.
    int64_t transient = 0;
    int64_t budget = 0;
    // Whether memory can ever bind, and then the bytes of `sum`; else 0.
    bool binds = false;
    int64_t binding_bytes = 0;
    int first_layout = -1;
    // Of the runs before the one that is being added.
    int last_layout = -1;
    // Of this run: the layouts it will begin and end with (-1: any), those it has but for the
    // reference's, and layers still under the reference that may change.
    int begin_layout = -1;
    int end_layout = -1;
    int set = LayoutWalks::kEmpty;
    int free_count = 0;
    // The step it came from, and what was done since (as in `Node`).
    int node = -1;
    int choice = kNothing;
    int count = 0;
  };

  // `known_ways` as in `TickStage`; found ones are added.
  FrontSearch(const FrontCase& front_case, std::vector<int64_t>& known_ways, SearchMeter& meter);

  // Labels of the whole stage: of the same first and last layout none is nowhere better
  // than another. Not all of them when the meter stops.
  const std::vector<Label>& Run();

  // The stage of a label, from the first layer.
  std::vector<FrontBlock> Blocks(const Label& label);

 private:
  struct Node {
    int parent = -1;
    // Index into `FrontCase::options`: so many layers changed to it. `kEndOfRun`: `count` is
    // an index into `walk_uses_`.
    int choice = kNothing;
    int count = 0;
  };
  struct WalkUse {
    int kind = 0;
    int set = 0;
    int index = 0;
  };
  // For one cut: what the layers of this run that still may change can win.
  struct Tail {
    // A layer, at the most; not positive.
    double win = 0.0;
    Rates rates;
  };
  // For one cut and layout: what a layer under it costs at least above the reference, and
  // the least and most bytes it adds.
  struct Forced {
    double reduced = std::numeric_limits<double>::infinity();
    double least_bytes = 0.0;
    double most_bytes = 0.0;
  };
  // The layers that may still change: to options from some on.
  struct Tails {
    // [option * cut count + cut], one more than there are options.
    std::vector<Tail> tails;
    // [option] bytes a layer can save; not positive.
    std::vector<int64_t> bytes;
    // The same it can need more; not negative. Then only with options that are faster in
    // something than the reference.
    std::vector<int64_t> more_bytes;
    std::vector<int64_t> more_useful_bytes;
  };
  // How many layers may change.
  struct Range {
    int64_t least;
    int64_t most;
  };

  void AddRun(int run);
  // The labels before the run, with all its layers under the reference, for each way to
  // begin and end.
  std::vector<Label> Begin(int run, int reference);
  void AddReference(int run, int reference, std::vector<Label>& finished);
  void MakeTails(int run, int reference);
  bool AnyWithin(int run, int reference) const;
  // `reference`: -1 at the end of the run.
  bool IsHopeless(int run, int reference, const Label& label, int option);
  // Whether a stage with the ends of the label is known that takes no longer than `least`, a
  // bound of the first cut.
  bool IsKnown(int run, int reference, const Label& label, double least) const;
  // The least that layouts of the run move.
  int64_t LeastHalfMove(int run, int reference, const Label& label);
  // Whether a layer under `layout` has to come yet.
  bool Lacks(int run, int reference, const Label& label, int layout) const;
  Range CountsWithin(int run, const Label& label, const FrontSum& change, int option,
                     int64_t half_move) const;
  // All ways to change layers to option `next`.
  void AddChanges(int run, int reference, int next, const Label& label,
                  std::vector<Label>& changed);
  void Finish(int run, int reference, const std::vector<Label>& labels,
              std::vector<Label>& finished);
  // Leaves those that none beats (of labels that may still change from `reference` to options
  // from `option` on; -1 at the end of the run), in an order that depends on nothing else, and
  // gives them nodes.
  void KeepBest(int run, int reference, int option, std::vector<Label>& labels);
  // No bytes where no completion that is worth it needs more than there is.
  void SetBindingBytes(int run, int reference, int option, Label& label);
  // Of the label, compared with the best there can be.
  int64_t Overhead(const Label& label) const {
    return label.transient - case_.least_transient + case_.most_budget - label.budget;
  }
  // Whether `a` can do whatever `b` can, no slower: also where layers under other layouts make
  // it move farther.
  bool Beats(int run, int reference, const Label& a, const Label& b);
  // How many half moves more `a` needs at most from here on.
  int64_t MostFarther(int run, int reference, const Label& a, const Label& b);
  // [a * layout count + b] the same of the move into the next run, from layout a and not b.
  void CompareMovesBehind(int run);
  // Whether it can still begin and end as it will.
  bool CanEnd(int run, int reference, int option, const Label& label) const;
  void GiveNodes(std::vector<Label>& labels);
  void AddBlocks(int run, const std::vector<int>& counts, const LayoutWalk& walk,
                 std::vector<FrontBlock>& blocks) const;
  const TickStage::Option& Option(int run, int choice) const {
    return case_.options[case_.stage->runs[run].kind][choice];
  }

  const FrontCase& case_;
  std::vector<int64_t>& known_ways_;
  SearchMeter& meter_;
  // [kind]
  std::vector<LayoutWalks> walks_;
  std::vector<Label> labels_;
  std::vector<Node> nodes_;
  std::vector<WalkUse> walk_uses_;
  // Of the reference at hand.
  Tails tails_;
  // [layout] one more than the last option of the run that has it.
  std::vector<int> end_of_layout_;
  // [layout * cut count + cut]
  std::vector<Forced> forced_;
  std::vector<int64_t> farther_behind_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_FRONT_SEARCH_H_
