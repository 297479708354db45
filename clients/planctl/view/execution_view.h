// Shows executions: measured times and memory beside the predicted ones. `planctl executions`
// prints them.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_EXECUTION_VIEW_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_EXECUTION_VIEW_H_

#include <string>

#include "parplan/v1/execution.pb.h"
#include "parplan/v1/execution_service.pb.h"

namespace parplan::planctl {

// Returns two lines per execution, in the order of the response: its name, then its state, step
// time and memory. Empty without executions.
std::string ExecutionListText(const v1::ListExecutionsResponse& executions);

// Returns one execution with the phases and memory items of its stages, times in ms and sizes in MB
// of 10^6 bytes. A value that was not measured, or a time that was not predicted, is `-`; a phase
// or item that a list leaves out is 0, and `-` if the stage has no such list. A ratio is measured
// over predicted.
std::string ExecutionText(const v1::Execution& execution);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_EXECUTION_VIEW_H_
