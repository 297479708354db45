// The best plans of one pipeline by the bound of pipeline_bound.h, and all that may be
// better than a plan that was simulated.
//
// Stages are added from the last to the first. Of the ways to run the stages behind a
// boundary only those count that no other is nowhere later than, since the bound is
// monotone; so few are kept, and the best of all plans by the bound is among what is left
// at the first layer. The simulated step does not follow from those numbers alone: where
// it is longer than the bound, `Enumerate` looks at all plans of which the bound allows a
// shorter one.
//
// With fronts of ways (`FrontKeeps::kWays`) bounds are those of a relaxation: a stage takes
// one time for both passes, and only the first one synchronises. Then there are fewer ways
// to run a stage, and where the best plan's step is as long as its relaxed bound, as is
// usual, there is no need for the others.

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

// A stage of a plan in the making.
struct ChosenStage {
  int first_layer = 0;
  int end_layer = 0;
  const StageChoice* choice = nullptr;
};

// For one graph and one `most`. Keeps references to its arguments.
class SuffixSearch {
 public:
  SuffixSearch(const PipelineSetting& setting, const PartitionGraph& graph, FrontCache& fronts,
               SearchMeter& meter)
      : setting_(setting), graph_(graph), fronts_(fronts), meter_(meter) {}

  // Finds the plans of which the bound, without the overhead of steps, is at most `most`
  // seconds, but for those dominated. False when a limit ended it: then nothing is proved.
  // REQUIRES: the graph was built for at least `most`.
  bool Run(double most);

  // After `Run`, whatever it said: ways to run everything, the least bound first.
  int result_count() const { return static_cast<int>(results_.size()); }
  double bound(int result) const;
  // [stage]
  std::vector<ChosenStage> Stages(int result) const;

  // After a complete `Run`: calls `visit` with every plan whose bound is below `most`, which
  // `visit` gives anew after each. Ends after `most_nodes` stages. False when it did not see
  // everything.
  bool Enumerate(double most, int64_t most_nodes,
                 const std::function<double(absl::Span<const ChosenStage>)>& visit);

 private:
  // A way to run the stages from `first` on.
  struct Node {
    SuffixTimes times = {};
    ChosenStage stage;
    // Index of the stages behind it; -1 at the last stage.
    int32_t next = -1;
  };
  // Nodes that begin with one layer: half-open range of `nodes_`.
  struct Place {
    int32_t begin = 0;
    int32_t end = 0;
    // Least of its nodes.
    double last_backward = 0.0;
    double round_trip = 0.0;
  };
  struct Enumeration;

  bool AddPlace(int stage, int first, absl::Span<const PartitionGraph::Edge> edges, double most);
  // The limits of a stage before the nodes of `behind` (null: the last stage).
  StageLimits LimitsOf(int stage, int first, const Place* behind, double most) const;
  // False where nothing can come of it.
  bool Join(int stage, const ChosenStage& chosen, const Node* next, double most, Node& node) const;
  void Insert(const Node& node);
  bool GoBack(int stage, const Node& behind, Enumeration& state);
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
