// Bytes that the element-wise kernels of a list read and write.

#ifndef PARPLAN_TESTS_PLANNER_COST_ELEMENTWISE_BYTES_H_
#define PARPLAN_TESTS_PLANNER_COST_ELEMENTWISE_BYTES_H_

#include "planner/cost/layer_operations.h"

namespace parplan {

// Returns the sum over all operations.
inline double ElementwiseBytes(const OperationList& operations) {
  double bytes = 0.0;
  for (const LayerOperation& operation : operations) bytes += operation.bytes;
  return bytes;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PLANNER_COST_ELEMENTWISE_BYTES_H_
