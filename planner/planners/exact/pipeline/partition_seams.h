// Where layers of one definition meet others in a partition.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_SEAMS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_SEAMS_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// For plans of which every definition has one strategy. Keeps a reference to the setting.
class PartitionSeams {
 public:
  // `layer_counts`: of each virtual stage.
  PartitionSeams(const PipelineSetting& setting, const std::vector<int>& layer_counts);

  // Of `allowed` options of a definition, whose order is kept, those of which
  // no other needs nowhere less: times, memory, and the moves of activations to and from the
  // neighbours that are decided. Where a neighbour is not, options of other layouts are not
  // compared. Keeps the order; leaves out options that the decided neighbours exclude.
  //
  //   chosen   [definition] option, or -1 where it is not decided
  std::vector<int> Undominated(int definition, const std::vector<int>& allowed,
                               const std::vector<int>& chosen) const;

 private:
  // Two layers next to each other, of which one may be of the same definition as the other
  // at the end of a stage.
  struct Seam {
    int before = 0;
    int after = 0;
    bool ends_stage = false;
    bool leaves_node = false;
    friend bool operator==(const Seam&, const Seam&) = default;
  };

  const PipelineSetting& setting_;
  std::vector<Seam> seams_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_SEAMS_H_
