// Gathers texts and measured windows of all ranks on every rank. `parplan-exec` calls it between
// steps.

#ifndef PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_
#define PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// Returns the texts of all ranks, by rank. Collective: every rank of `everyone`, whose buffers are
// the host's, calls it with a text of its own, of any length and perhaps empty. Takes two
// exchanges, and memory for as many texts of the longest length as there are ranks. Returns the
// errors of `everyone` (PendingWork::Wait).
absl::StatusOr<std::vector<std::string>> GatherTexts(const std::string& own,
                                                     Communicator& everyone);

// Returns the windows of all ranks, by rank, under the conditions of GatherTexts. Returns its
// errors, and INTERNAL if the text of some rank is not a window.
absl::StatusOr<std::vector<v1::MeasuredWindow>> GatherWindows(const v1::MeasuredWindow& own,
                                                              Communicator& everyone);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_
