// The tables of the report, which have every number of the charts. `RenderReport` shows them.

#ifndef PARPLAN_CLIENTS_REPORT_TABLES_H_
#define PARPLAN_CLIENTS_REPORT_TABLES_H_

#include <string>
#include <vector>

#include "clients/report/report.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Returns devices, layers, times and memory, one row per predicted stage; with virtual stages a row
// has the layers of all those on its devices. Says when stages are left out, as the next two do.
// REQUIRES: the plan has at least as many stages as the prediction.
std::string StageTable(const Plan& plan, const Prediction& prediction);

// Return the items that some stage has, one row per stage.
std::string MemoryTable(const Prediction& prediction);
std::string TimeTable(const Prediction& prediction);

// Returns the strategy of each letter of the strategy strip. REQUIRES, here and below: `strategies`
// has every strategy of the plan (`DistinctStrategies`).
std::string StrategyTable(const Plan& plan, const std::vector<Strategy>& strategies);

// Returns the strategies of the layers of each stage, one row per run of equal layers; says when
// runs are left out.
std::string LayerTable(const Plan& plan, const std::vector<Strategy>& strategies,
                       const std::vector<std::string>& layer_names);

// Returns alternative plans and how they differ from that of `prediction`; says when some are left
// out.
std::string PlanTable(const std::vector<PlanBeside>& plans, const Prediction& prediction);

// Returns rivals with their throughput as bars; the row of `planner` is highlighted.
std::string RivalTable(const std::vector<ReportRival>& rivals, const std::string& planner);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_TABLES_H_
