// The size of the elements that probes send and compute with. The probes of devices and collectives
// use it, and so does WholeMessageBytes (probe_plan.h).

#ifndef PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
#define PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_

#include <cstdint>

namespace parplan {

// Bytes of one fp32 number, in which collectives are sent and arrays measured. Kernels of bf16 use
// half of an array.
inline constexpr int64_t kFloatBytes = 4;

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
