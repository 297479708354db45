// The tables beside the charts of the report, as HTML with all texts escaped. `RenderReport` shows
// them.

#ifndef PARPLAN_CLIENTS_REPORT_TABLES_H_
#define PARPLAN_CLIENTS_REPORT_TABLES_H_

#include <string>
#include <vector>

#include "clients/report/report.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Returns devices, layers, times and memory, one row per predicted stage; with virtual stages a row
// has the layers of all those on its devices. Says when stages are left out, those from the 513th
// on, as the next two do. REQUIRES, unchecked: the plan has at least as many stages as the
// prediction.
std::string StageTable(const Plan& plan, const Prediction& prediction);

// Return a row per stage, with a column for each kind of memory or time that some stage has, and
// one for their sum.
std::string MemoryTable(const Prediction& prediction);
std::string TimeTable(const Prediction& prediction);

// Returns what each letter of the strategy strip stands for: `Letter(i)` is `strategies[i]`, so the
// strip must be given the same list. REQUIRES, here and below, unchecked: `strategies` has every
// strategy of the plan (`DistinctStrategies`).
std::string StrategyTable(const Plan& plan, const std::vector<Strategy>& strategies);

// Returns the strategies of the layers of each stage, one row per run of equal layers; says when
// runs are left out, those from the 401st on. `layer_names` are those of the model's layers in
// order; a row shows the name of the first layer of its run, or a dash if the list is shorter.
std::string LayerTable(const Plan& plan, const std::vector<Strategy>& strategies,
                       const std::vector<std::string>& layer_names);

// Returns alternative plans, in their order, and by how much their time a sample and their peak
// memory differ from those of `prediction`; says when some are left out, those from the 201st on.
std::string PlanTable(const std::vector<PlanBeside>& plans, const Prediction& prediction);

// Returns all rivals, in their order, with their throughput as bars; the row of `planner` is
// highlighted. Rivals without a plan show why instead.
std::string RivalTable(const std::vector<ReportRival>& rivals, const std::string& planner);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_TABLES_H_
