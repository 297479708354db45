// The windows of all ranks in one place.

#ifndef PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_
#define PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/communicator.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// By rank. All ranks of `everyone`, which is between buffers of the host, call it with a window
// of their own and get those of all.
absl::StatusOr<std::vector<v1::MeasuredWindow>> GatherWindows(const v1::MeasuredWindow& own,
                                                              Communicator& everyone);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_APPLY_WINDOW_GATHER_H_
