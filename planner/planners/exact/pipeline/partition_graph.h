// Partitions of the layers in stages that may be worth looking at: a graph whose nodes are
// boundaries and whose edges are stages, each with bounds of its times.
//
// Two passes over it, from the last stage to the first and back, tell what every stage can
// cost at least together with the best that may be in front of it and behind it; stages
// with which no step is as short as wanted are left out. What remains is small where the
// wanted step is close to the best one.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_

#include <cstdint>
#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/planners/exact/pipeline/range_bound.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

class PartitionGraph {
 public:
  // Layers [first, end) as a stage.
  struct Edge {
    int first = 0;
    int end = 0;
    RangeTimes times;
  };
  enum class Outcome {
    // There are plans the bounds do not exclude.
    kBuilt,
    // No plan takes at most as long as wanted.
    kNothing,
    // No plan at all: memory does not suffice for any partition.
    kImpossible,
    // More edges than `kMostEdges`, or stopped; nothing was proved.
    kTooLarge,
  };
  static constexpr int64_t kMostEdges = 200'000;

  // Keeps references to its arguments.
  PartitionGraph(const PipelineSetting& setting, RangeBounds& ranges);

  // For plans whose step, without the overhead of steps, takes at most `most` seconds.
  Outcome Build(double most, SearchMeter& meter);

  // After `kBuilt`. No plan of the candidate takes less than this or `most`, whichever is
  // less.
  double bound() const { return ends_.front().front(); }
  // Boundaries of the partition of which that is the bound.
  std::vector<int> BestPartition() const;
  // Ascending by (first, end).
  const std::vector<Edge>& edges(int stage) const { return edges_[stage]; }
  int64_t edge_count() const;
  // Leaves only the stages of one partition.
  void KeepOnly(absl::Span<const int> boundaries);

  // First layers stage `stage` may have: [begin, end); one more stage ends the model.
  int begin(int stage) const { return begin_[stage]; }
  int end(int stage) const { return end_[stage]; }
  // The least the stages in front take if stage `stage` begins with layer `first`: forward
  // and backward of one micro-batch with their messages, and forward alone.
  double WayBefore(int stage, int first) const {
    return ways_before_[stage][first - begin_[stage]];
  }
  double ForwardBefore(int stage, int first) const {
    return forwards_before_[stage][first - begin_[stage]];
  }

  // A bound of all plans by the sum of all layers and the longest of them alone.
  double SpreadBound() const;
  // The bound of one partition; infinite where memory does not suffice.
  static double BoundOf(const PipelineSetting& setting, RangeBounds& ranges,
                        absl::Span<const int> boundaries);

 private:
  // Least times from where a stage begins to the end of the step, each by itself.
  struct Suffix {
    double round_trip = 0.0;
    double last_backward = 0.0;
    double end = 0.0;
    double arc = 0.0;
  };

  static Suffix Join(const PipelineSetting& setting, int stage, const RangeTimes& times,
                     const Suffix* behind);
  bool FindWindows(double most);
  // Whether a step of `limit` seconds lets stage `stage` begin with layer `first` and have
  // layers of these sums.
  bool Allows(int stage, int first, const RangeBounds::Sums& sums, double limit) const;
  bool AddEdges(int stage, double most, SearchMeter& meter);
  void GoForward(double most);
  Suffix SuffixAt(int stage, int first) const;

  const PipelineSetting& setting_;
  RangeBounds& ranges_;
  // [layer] least ways of the layers in front, whatever the memory.
  std::vector<double> ways_of_layers_;
  bool cut_anything_ = false;
  std::vector<int> begin_;
  std::vector<int> end_;
  std::vector<std::vector<Edge>> edges_;
  // [stage][first - begin]
  std::vector<std::vector<double>> round_trips_;
  std::vector<std::vector<double>> last_backwards_;
  std::vector<std::vector<double>> ends_;
  std::vector<std::vector<double>> arcs_;
  std::vector<std::vector<int>> best_ends_;
  std::vector<std::vector<double>> ways_before_;
  std::vector<std::vector<double>> forwards_before_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_GRAPH_H_
