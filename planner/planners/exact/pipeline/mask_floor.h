// A quick bound of plans in which every transformer layer has a given option, from sums over all
// layers, so that masks that are of no use are not made. Used by `SearchPipeline` and
// `SearchInterleaved`.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a cutoff is a time
// that a plan must stay below to be wanted; a candidate is all plans of one batch size, pipeline
// degree, number of micro-batches and schedule; an option is a strategy of a layer definition with
// its costs (option_table.h).

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_FLOOR_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_FLOOR_H_

#include <vector>

#include "absl/types/span.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// The bound for one candidate. Keeps a reference to the setting. Not thread-safe.
class MaskFloor {
 public:
  // Steps must be shorter than `cutoff` seconds, without their overhead; if that is infinite, only
  // memory is asked. If `interleaves`, the candidate's schedule is interleaved whatever the setting
  // says.
  MaskFloor(const PipelineSetting& setting, bool interleaves, double cutoff);

  // Returns a filter that keeps what may fit all devices together and be within the cutoff. This
  // object must outlive it.
  MaskFilter Filter() {
    return [this](absl::Span<const int> chosen) { return Keeps(chosen); };
  }
  // Returns whether the filter has dropped options for their time that may have fitted. If so,
  // the plans that are left out take at least the cutoff.
  bool dropped_slow() const { return dropped_slow_; }

 private:
  struct Need {
    double time = 0.0;
    double memory = 0.0;
  };
  Need NeedOf(const StageOption& option) const {
    return {(option.forward + option.backward).value(), (option.states + option.kept).as_double()};
  }
  bool Keeps(absl::Span<const int> chosen);

  const PipelineSetting& setting_;
  const bool interleaves_;
  const double cutoff_;
  // [definition] number of layers, and the least of each need over all options.
  std::vector<int> counts_;
  std::vector<Need> least_;
  bool dropped_slow_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_PIPELINE_MASK_FLOOR_H_
