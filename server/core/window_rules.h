// Checks a `MeasuredWindow` and makes its record for the store. Called by `ReportSession`.

#ifndef PARPLAN_SERVER_CORE_WINDOW_RULES_H_
#define PARPLAN_SERVER_CORE_WINDOW_RULES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "parplan/v1/execution.pb.h"
#include "server/store/records.h"

namespace parplan {

// Reads a window of an execution on `device_count` devices. Fields that the contract does not know
// are left out of the record.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) for field `window` if the window has more than
// `max_byte_count` bytes, unknown fields included, and for a path that begins with `window.` for:
//   - a rank outside [0, `device_count`);
//   - a `first_step` or `peak_memory_bytes` below 0, a `step_count` below 1, or a
//     `median_step_duration` that is not above 0;
//   - the time of a phase or the size of a memory item below 0;
//   - a collective timing with fewer than 2 participants (other than 2 for SEND_RECEIVE), a
//     `rank_stride` or size below 1, a median that is not above 0, a given 90th percentile below
//     the median, or a negative `sample_count`;
//   - a collective, a phase or a kind of memory item that is unspecified or unknown;
//   - a phase, or a kind of memory item, that is named twice;
//   - memory items that add up to more than `peak_memory_bytes`, also if the peak is 0 (unknown);
//   - more than 1024 collective timings.
absl::StatusOr<WindowRecord> ReadWindow(const v1::MeasuredWindow& window, int device_count,
                                        int64_t max_byte_count);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_WINDOW_RULES_H_
