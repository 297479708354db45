// The best plans of one pipeline by the bound of pipeline_bound.h, and all plans that may be better
// than one that was simulated.
//
// Stages are added from the last to the first. Among the ways to run the stages after a boundary,
// dominated ones are dropped, which is safe because the bound is monotone. Therefore few are kept.
// The best plan by the bound is among those that remain at the first layer. The simulated step does
// not follow from those numbers alone: if it is longer than the bound, `Enumerate` visits all plans
// whose bound allows a shorter one.
//
// With fronts of kind `FrontKeeps::kForwardBackward` the bounds are those of a relaxation: a stage
// has one time for both passes, and only the first stage synchronises. There are fewer ways to run
// a stage, and if the best plan's step equals its relaxed bound, which is the usual case, the full
// fronts are not needed. Where synchronisation takes long, `FrontKeeps::kForwardBackwardSync` is
// the relaxation in which every stage synchronises. Used by `MaskSearch`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a front is
// the ways to run a stage of which none is better than another in every time; a meter counts states
// and says when a search must end (search_meter.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_SUFFIX_SEARCH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_SUFFIX_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/front_cache.h"
#include "planner/planners/exact/pipeline/partition_graph.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// One stage of a partial plan.
struct ChosenStage {
  // Its layers [first_layer, end_layer), and the way to run them, owned by a `FrontCache`.
  int first_layer = 0;
  int end_layer = 0;
  const StageChoice* choice = nullptr;
};

// The search of one graph. Keeps references to its arguments, which must outlive it. Not
// thread-safe.
//
//   if (graph.Build(cutoff, meter) == PartitionGraph::Outcome::kBuilt) {
//     SuffixSearch suffixes(setting, graph, fronts, meter);
//     const bool is_proved = suffixes.Run(cutoff);
//     if (suffixes.result_count() > 0) best = suffixes.Stages(0);
//   }
class SuffixSearch {
 public:
  // REQUIRES, unchecked: graph and fronts are those of `setting`, and the graph stays as it is from
  // `Run` on.
  SuffixSearch(const PipelineSetting& setting, const PartitionGraph& graph, FrontCache& fronts,
               SearchMeter& meter)
      : setting_(setting), graph_(graph), fronts_(fronts), meter_(meter) {}

  // Finds the non-dominated plans whose bound, without the overhead of the step, is at most
  // `cutoff` seconds. Returns false if a limit of the meter ended it: nothing is proved then, and
  // there are no plans or only some of them. May be called again, which forgets the plans of the
  // call before. REQUIRES, unchecked: the graph was built for at least `cutoff`.
  bool Run(double cutoff);

  // Returns the number of plans that the last `Run` found, which may have returned false. They are
  // numbered from 0 on, from the least bound to the greatest.
  int result_count() const { return static_cast<int>(results_.size()); }
  // Returns the bound of a plan in seconds, without the overhead of the step. REQUIRES, here and
  // for `Stages`, unchecked: 0 <= result < result_count().
  double bound(int result) const;
  // Returns the stages of a plan, [stage]; their choices are valid as long as
  // `FrontCache::Find` says.
  std::vector<ChosenStage> Stages(int result) const;

  // Calls `visit` with the stages, first to last, of every plan made of choices of the fronts whose
  // bound is at most `cutoff`, which is without the overhead too, dominated ones among them. Other
  // choices of a stage are better in none of the times compared, but may need less memory: if
  // `visit` refuses a plan for its memory, one with such a choice may fit, and is not visited, so
  // that nothing is proved about plans as fast as the refused one. `visit` returns the new cutoff,
  // and a larger one than before is ignored. The span is valid during the call. Ends after it has
  // tried `max_nodes` choices of stages, or when the meter stops. Returns false if not everything
  // was visited, for these reasons or because the front of some stage is not complete; plans that a
  // new cutoff excludes count as visited. REQUIRES, unchecked: `Run` returned true, and `cutoff` is
  // at most that of `Run`; with a greater one plans are missed.
  bool Enumerate(double cutoff, int64_t max_nodes,
                 const std::function<double(absl::Span<const ChosenStage>)>& visit);

 private:
  // A way to run the stages from `stage.first_layer` on.
  struct Node {
    SuffixTimes times = {};
    ChosenStage stage;
    // Index of the node of the later stages; -1 at the last stage.
    int32_t next = -1;
  };
  // The nodes that begin with one layer: a half-open range of `nodes_`.
  struct Place {
    int32_t begin = 0;
    int32_t end = 0;
    // Least times over its nodes.
    double last_backward = 0.0;
    double round_trip = 0.0;
  };
  struct Enumeration;

  bool AddPlace(int stage, int first, absl::Span<const PartitionGraph::Edge> edges, double cutoff);
  // Returns the cutoffs of a stage in front of the nodes of `later` (null: it is the last stage).
  StageLimits LimitsOf(int stage, int first, const Place* later, double cutoff) const;
  // Returns false if no plan within the cutoff contains the result.
  // `least_forward` is a lower bound of the forward pass of `chosen`, in seconds.
  bool Join(int stage, const ChosenStage& chosen, double least_forward, const Node* next,
            double cutoff, Node& node) const;
  void Insert(const Node& node);
  bool GoBack(int stage, const Node& later, Enumeration& state);
  const Place& PlaceAt(int stage, int first) const {
    return places_[stage][first - graph_.begin(stage)];
  }

  const PipelineSetting& setting_;
  const PartitionGraph& graph_;
  FrontCache& fronts_;
  SearchMeter& meter_;
  std::vector<Node> nodes_;
  std::vector<Node> pending_;
  std::vector<std::vector<Place>> places_;
  std::vector<int32_t> results_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_SUFFIX_SEARCH_H_
