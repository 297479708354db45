// The seams of a partition: the places where layers of one definition meet layers of another. Used
// by `PartitionChoices`.
//
// Words (docs/glossary.md): an option is a strategy of a layer definition with its costs
// (option_table.h); a definition is the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_SEAMS_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_PARTITION_SEAMS_H_

#include <vector>

#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {

// The seams for plans in which every definition has one strategy. Keeps a reference to the setting,
// which must outlive it.
class PartitionSeams {
 public:
  // `layer_counts` is [virtual stage], in the order of the model; virtual stage i is on device i
  // modulo the pipeline degree. REQUIRES, unchecked: the counts add up to the layers of the model.
  PartitionSeams(const PipelineSetting& setting, const std::vector<int>& layer_counts);

  // Returns the options of `allowed` (indices into those of the definition), in the same order,
  // that no option before them dominates in times, memory and the resharding to and from the
  // neighbours already decided. Options of different layouts are not compared if a neighbour is
  // undecided or the runtime keeps outputs of stages. Options that the decided neighbours exclude
  // are dropped.
  //
  //  chosen   [definition] option, or -1 if undecided; that of `definition` itself is not read
  std::vector<int> Undominated(int definition, const std::vector<int>& allowed,
                               const std::vector<int>& chosen) const;

 private:
  // Two neighbouring layers. They may be of the same definition only at the end of a stage.
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
