// The partitions of the layers into stages that may be worth searching: a graph whose nodes are
// boundaries and whose edges are stages, each with lower bounds of its times.
//
// Two passes over the graph, from the last stage to the first and back, compute for every stage the
// least step of any plan that contains it. Stages for which that exceeds the cutoff are removed.
// The graph is small if the cutoff is close to the best step. Used by `MaskSearch` and
// `SuffixSearch`.
//
// Words (docs/glossary.md): a cutoff is a time that a plan must stay below to be wanted; a front is
// the ways to run a stage of which none is better than another in every time; a meter counts states
// and says when a search must end (search_meter.h); a candidate is all plans of one batch size,
// pipeline degree, number of micro-batches and schedule; a partition is the number of layers of
// each stage.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/range_bound.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// Factor of a cutoff that covers the rounding of sums in another order.
inline constexpr double kCutoffRoom = 1.0 + 1e-12;

// The graph of one candidate, for one cutoff after the other. All steps and bounds are in seconds,
// without the overhead of a step. Stages count from 0. Not thread-safe.
class PartitionGraph {
 public:
  // The layers [first, end) as a stage.
  struct Edge {
    int first = 0;
    int end = 0;
    RangeTimes times;
  };
  // The result of `Build`.
  enum class Outcome {
    // There may be plans that the bounds do not exclude. Some stage may have no edge left.
    kBuilt,
    // No plan is within the cutoff.
    kNothing,
    // There is no plan at all: memory suffices for no partition.
    kImpossible,
    // The graph would have more than `kMaxEdges` edges, times the effort of the meter, or the meter
    // stopped; nothing is proved.
    kTooLarge,
  };
  // Largest number of edges, which limits memory and time of one graph; models that exceed it are
  // searched on one partition. Not measured for other values.
  static constexpr int64_t kMaxEdges = 200'000;

  // Keeps references to its arguments, which must outlive it.
  PartitionGraph(const PipelineSetting& setting, RangeBounds& ranges);

  // Builds the graph for plans whose step is at most `cutoff` seconds, and forgets the one before.
  // Counts its edges as states on `meter`.
  Outcome Build(double cutoff, SearchMeter& meter);

  // Returns a lower bound of the step of the candidate's plans, or the cutoff if that is less; up
  // to `kCutoffRoom` above the cutoff. `KeepOnly` does not change it. Call after `kBuilt`, like the
  // methods below but `SpreadBound` and `BoundOf`.
  double bound() const { return ends_.front().front(); }
  // Returns the boundaries of the partition that attains the bound: the first layers of all stages,
  // followed by the number of layers.
  std::vector<int> BestPartition() const;
  // Returns the edges of a stage, ascending by (first, end), without duplicates; none if no stage
  // is left. Valid until `Build` or `KeepOnly`.
  const std::vector<Edge>& edges(int stage) const { return edges_[stage]; }
  // Returns the number of edges of all stages.
  int64_t edge_count() const;
  // Removes all stages except those of one partition; nothing is left of a stage that the graph
  // does not have. The ranges and least times below stay those of the whole graph.
  void KeepOnly(absl::Span<const int> boundaries);

  // Returns the range [begin, end) of first layers stage `stage` may have; index P is the end of
  // the model.
  int begin(int stage) const { return begin_[stage]; }
  int end(int stage) const { return end_[stage]; }
  // Returns the least time of the stages in front if stage `stage` begins with layer `first`:
  // forward and backward of one micro-batch with their messages (`ForwardBackwardBefore`), and
  // forward alone. Infinite if nothing leads there. `first` is in the range of the stage, which is
  // not checked.
  double ForwardBackwardBefore(int stage, int first) const {
    return forward_backward_before_[stage][first - begin_[stage]];
  }
  double ForwardBefore(int stage, int first) const {
    return forward_before_[stage][first - begin_[stage]];
  }

  // Returns a bound of all plans that uses only the sum of all layers and the longest of them.
  // Needs no `Build`.
  double SpreadBound() const;
  // Returns the bound of one partition, given as first layers of all stages and the number of
  // layers; infinite if memory does not suffice.
  static double BoundOf(const PipelineSetting& setting, RangeBounds& ranges,
                        absl::Span<const int> boundaries);

 private:
  // Least times from where a stage begins to the end of the step, each minimised by itself.
  struct Suffix {
    double round_trip = 0.0;
    double last_backward = 0.0;
    double end = 0.0;
    double arc = 0.0;
  };

  static Suffix Join(const PipelineSetting& setting, int stage, const RangeTimes& times,
                     const Suffix* later);
  bool FindWindows(double cutoff, const SearchMeter& meter);
  // Returns whether a step of `limit` seconds allows stage `stage` to begin with layer `first` and
  // to have layers of these sums.
  bool Allows(int stage, int first, const RangeBounds::Sums& sums, double limit) const;
  bool AddEdges(int stage, double cutoff, SearchMeter& meter);
  void GoForward(double cutoff);
  Suffix SuffixAt(int stage, int first) const;

  const PipelineSetting& setting_;
  RangeBounds& ranges_;
  // [layer] the least forward and backward time of the layers in front, regardless of memory.
  std::vector<double> forward_backward_of_layers_;
  bool cut_anything_ = false;
  std::vector<int> begin_;
  std::vector<int> end_;
  std::vector<std::vector<Edge>> edges_;
  // Indexed by [stage][first - begin].
  std::vector<std::vector<double>> round_trips_;
  std::vector<std::vector<double>> last_backwards_;
  std::vector<std::vector<double>> ends_;
  std::vector<std::vector<double>> arcs_;
  std::vector<std::vector<int>> best_ends_;
  std::vector<std::vector<double>> forward_backward_before_;
  std::vector<std::vector<double>> forward_before_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_
