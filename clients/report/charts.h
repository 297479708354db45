// The charts of the report, each with its legend. They draw at most
// `kMaxChartRows` rows; the page says so.

#ifndef PARPLAN_CLIENTS_REPORT_CHARTS_H_
#define PARPLAN_CLIENTS_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "clients/report/report.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Who works on which micro-batch when: one row a stage or, with several virtual
// stages a device, one for the devices that share them. A prediction has their sums,
// so they are drawn equally long. `blocking_messages` as in `PipelineRules`.
std::string PipelineTimeline(const Plan& plan, const Prediction& prediction,
                             bool blocking_messages);

// Memory of one device of each stage by item, beside what it may hold.
std::string MemoryBars(const Prediction& prediction);

// Memory of the fullest device of each plan, a row a plan, beside what it may hold.
std::string FrontBars(const std::vector<PlanBeside>& plans, const Prediction& prediction);

// Busy time of each stage per micro-batch by item.
std::string TimeBars(const Prediction& prediction);

// The different strategies of a plan in order of first use.
std::vector<Strategy> DistinctStrategies(const Plan& plan);

// Every layer of the model as a cell, drawn and lettered by its strategy's place
// in `strategies`. `layer_names` may be shorter than the model.
std::string StrategyStrip(const Plan& plan, const std::vector<Strategy>& strategies,
                          const std::vector<std::string>& layer_names);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_CHARTS_H_
