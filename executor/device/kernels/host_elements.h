// Elements of a device's arrays as numbers of the host. `LayerState` writes initial values of 1
// with it; tests write and read by it.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_HOST_ELEMENTS_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_HOST_ELEMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// Convert to and from the bits of a bf16: to the nearest, ties to even; infinities and NaN stay.
uint16_t RoundToBfloat16(float value);
float FromBfloat16(uint16_t bits);

// Writes `values` as elements of `type` to the device memory from `data` on. REQUIRES: `type` is
// not kByte; aborts otherwise. Returns the errors of the copy (LayerKernels).
absl::Status WriteElements(LayerKernels& kernels, ElementType type, absl::Span<const double> values,
                           void* data);
// Returns `count` elements of `type` from device memory `data` on, after all earlier work, or the
// errors of the copy. Tests read with it what kernels computed. REQUIRES: `type` is not kByte;
// aborts otherwise.
absl::StatusOr<std::vector<double>> ReadElements(LayerKernels& kernels, ElementType type,
                                                 const void* data, int64_t count);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_HOST_ELEMENTS_H_
