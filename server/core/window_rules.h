// Checks a `MeasuredWindow` and makes its record for the store. Called by `ReportSession`.

#ifndef PARPLAN_SERVER_CORE_WINDOW_RULES_H_
#define PARPLAN_SERVER_CORE_WINDOW_RULES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "parplan/v1/execution.pb.h"
#include "server/store/records.h"

namespace parplan {

// Reads a window of an execution on `device_count` devices. INVALID_ARGUMENT (SPEC_INVALID) with
// the path of the field, which begins with `window.`, for a rank outside the devices, a count or
// time out of range, phases or memory items named twice or above the peak, more than 1024
// collective timings, and more than `max_byte_count` bytes, unknown fields included.
absl::StatusOr<WindowRecord> ReadWindow(const v1::MeasuredWindow& window, int device_count,
                                        int64_t max_byte_count);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_WINDOW_RULES_H_
