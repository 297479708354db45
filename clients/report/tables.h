// The tables of the report: every number its charts show, and more.

#ifndef PARPLAN_CLIENTS_REPORT_TABLES_H_
#define PARPLAN_CLIENTS_REPORT_TABLES_H_

#include <string>
#include <vector>

#include "clients/report/report.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Devices, layers, times and memory, a row a stage.
std::string StageTable(const Plan& plan, const Prediction& prediction);

// Items that occur, a row a stage.
std::string MemoryTable(const Prediction& prediction);
std::string TimeTable(const Prediction& prediction);

// What each letter of the strategy strip stands for.
std::string StrategyTable(const Plan& plan, const std::vector<Strategy>& strategies);

// Which layers of which stage have which strategy, a row a run; says when it
// leaves runs out.
std::string LayerTable(const Plan& plan, const std::vector<Strategy>& strategies,
                       const std::vector<std::string>& layer_names);

// Plans beside that of `prediction`, and how they differ from it; says when it leaves
// some out.
std::string PlanTable(const std::vector<PlanBeside>& plans, const Prediction& prediction);

// Rivals with their throughput as bars; that of `planner` stands out.
std::string RivalTable(const std::vector<ReportRival>& rivals, const std::string& planner);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_TABLES_H_
