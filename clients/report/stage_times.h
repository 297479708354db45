// The times of the virtual stages of a plan, as far as its prediction has them. The timeline of the
// report (timeline.cc) and the spans of a trace (step_spans.h) are made of them.

#ifndef PARPLAN_CLIENTS_REPORT_STAGE_TIMES_H_
#define PARPLAN_CLIENTS_REPORT_STAGE_TIMES_H_

#include <vector>

#include "planner/cost/pipeline_schedule.h"
#include "planner/model/plan.h"

namespace parplan::report {

// Returns the times of each virtual stage (planner/cost/pipeline_schedule.h), in the order of the
// model: an equal share of those of its devices, since a prediction has only the sums of the stages
// of a device. Stages without layers take no time but for their messages. Messages are shared by
// those stages of a device that send one: the last stage of the model sends none, and its time of a
// message has no meaning. The optimizer's step is not in them. REQUIRES: the prediction has an
// entry for each stage or, with virtual stages, for each device in a row; not checked.
std::vector<StageTimes> VirtualStageTimes(const Plan& plan, const Prediction& prediction);

}  // namespace parplan::report

#endif  // PARPLAN_CLIENTS_REPORT_STAGE_TIMES_H_
