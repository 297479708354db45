// The granule of message sizes. WholeMessageBytes (probe_plan.h) uses it.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
#define PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_

#include <cstdint>

namespace parplan {

// Bytes of one fp32 number. Messages are whole numbers of them, also those that a GPU sends in
// bf16, as twice as many elements.
inline constexpr int64_t kFloatBytes = 4;

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
