// The size of the elements that probes send and compute with. Used by the probes of devices and
// collectives.

#ifndef PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
#define PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_

#include <cstdint>

namespace parplan {

// Bytes of one fp32 number, in which collectives are sent and arrays measured. Kernels of bf16 use
// half of an array.
inline constexpr int64_t kFloatBytes = 4;

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_PROBE_FLOAT_BYTES_H_
