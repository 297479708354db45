// The charts of the report as HTML, with their legends if they have several kinds of bars (the
// strip's is `StrategyTable`). They draw at most `kMaxChartRows` rows; for stages and layers the
// page says when rows are left out. `RenderReport` draws them. Prediction and plan are as it
// requires them.

#ifndef PARPLAN_CLIENTS_REPORT_CHARTS_H_
#define PARPLAN_CLIENTS_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "clients/report/report.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Draws which stage works on which micro-batch when: one row per stage or, with several virtual
// stages per device, per group of devices that share them. A prediction has only the sums of the
// virtual stages, so these are drawn equally long. Of a step with too many passes only the
// beginning is drawn, and the text below it says so. The flags: see `PipelineRules`.
std::string PipelineTimeline(const Plan& plan, const Prediction& prediction, bool blocking_messages,
                             bool serial_messages = false);

// Draws the memory of one device of each stage by item, and its usable memory.
std::string MemoryBars(const Prediction& prediction);

// Draws the memory of the fullest device of each plan, one row per plan, and the usable memory of
// `prediction`, and a note if there are more plans than rows. Returns an empty text if all of these
// sizes are 0.
std::string FrontBars(const std::vector<PlanBeside>& plans, const Prediction& prediction);

// Draws the busy time of each stage per micro-batch by item.
std::string TimeBars(const Prediction& prediction);

// Returns the different strategies of a plan in order of first use.
std::vector<Strategy> DistinctStrategies(const Plan& plan);

// Draws every layer of the model as a cell, filled and lettered by the index of its strategy in
// `strategies`. `layer_names` may be shorter than the model. REQUIRES: `strategies` has all of the
// plan's, as `DistinctStrategies` returns them; not checked.
std::string StrategyStrip(const Plan& plan, const std::vector<Strategy>& strategies,
                          const std::vector<std::string>& layer_names);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_CHARTS_H_
