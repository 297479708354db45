// Combines two buffers element by element. `CpuTask` calls it for what arrives.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_REDUCE_ELEMENTS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_REDUCE_ELEMENTS_H_

#include <cstdint>

#include "executor/device/comm/communicator.h"

namespace parplan {

// Combines `count` elements: result[i] = base[i] combined with arrived[i]. `result` may be `base`.
// bf16 is added in fp32 and rounded to the nearest, ties to even. kMax may pass over a NaN. Does
// nothing for kByte. REQUIRES, unchecked: buffers are aligned for `type`.
void ReduceElements(ElementType type, Reduction reduction, const char* base, const char* arrived,
                    int64_t count, char* result);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_REDUCE_ELEMENTS_H_
