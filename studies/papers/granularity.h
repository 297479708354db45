// The papers' remedies for large models: a coarser unit of memory, and layers that share a strategy
// in groups. What they lose against the proved optimum, and what time they save. The command
// `parplan-study papers` asks it for its sections `granularity` and `times`.

#ifndef PARPLAN_STUDIES_PAPERS_GRANULARITY_H_
#define PARPLAN_STUDIES_PAPERS_GRANULARITY_H_

#include <string>
#include <vector>

#include "studies/papers/paper_models.h"
#include "studies/papers/search_times.h"

namespace parplan::papers {

// A setting of the paper planners: `PlanningRules::memory_granule` in MiB and `fused_layer_count`.
struct Granularity {
  int granule_mebibytes = 1;
  int fused_layer_count = 1;
};

// Returns `8 MiB, 4 fused`; without the second part if nothing is fused.
std::string GranularityName(const Granularity& granularity);

// Settings of the table, the finest first: 1, 8, 32 and 128 MiB, then 2, 4 and 8 fused layers.
inline constexpr Granularity kGranularities[] = {{1, 1}, {8, 1}, {32, 1}, {128, 1},
                                                 {1, 2}, {1, 4}, {1, 8}};

// The rates of one question under all settings.
struct GranularityRow {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  // Memory of a device, in GiB.
  int memory_gb = 0;
  // Rate of the proved optimum, and [setting of `kGranularities`] of the methods of
  // `galvatron-bmw`, whose baselines have neither granules nor fused layers and are left out; six
  // digits, 0 if nothing fits.
  double optimum = 0.0;
  std::vector<double> rates;

  friend bool operator==(const GranularityRow&, const GranularityRow&) = default;
};

// Answers a question under every setting. The questions are those of the ablations.
GranularityRow GranularityRowOf(const GridQuestion& question);

// Runs `galvatron-bmw` over the layers of the axis `layers` under settings from fine to coarse, and
// the optimum beside it (TimeAxis), as the axis `granularity` or, with `kLongSearchSeconds` and for
// `kLeastLongGranularity` layers and more, `kLongGranularity`. `TimedSearch::planner` is the name
// of the setting, or `kTreeOptimum`. REQUIRES, unchecked: `axis` is one of the two.
std::vector<TimedSearch> TimeGranularities(const std::string& axis);

// Runs `galvatron-bmw` with the coarsest setting of that curve over the questions of the axis
// `layers` with `kLeastLongLayers` and more, as part of the axis `long-layers`.
// `TimedSearch::planner` is `galvatron-bmw, ` and the name of the setting.
std::vector<TimedSearch> TimeCoarsest();

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_GRANULARITY_H_
