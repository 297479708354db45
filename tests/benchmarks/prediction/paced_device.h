// Devices that are slower than the cores they run on, so that several may share a core and none
// notices the others: what links are to a shaped fabric, cores are to these.

#ifndef PARPLAN_TESTS_BENCHMARKS_PREDICTION_PACED_DEVICE_H_
#define PARPLAN_TESTS_BENCHMARKS_PREDICTION_PACED_DEVICE_H_

#include <memory>

#include "executor/device/backend/device_backend.h"
#include "executor/device/kernels/layer_kernels.h"

namespace parplan {

// Kernels of the processor that do the same and take `pace` times the processor's time they use,
// counted from their calls: the rest is slept away once it adds up to a tenth of a millisecond.
// While the ranks of a core together ask for less than all of it, the work of one rank takes the
// same time whether the others compute or wait. REQUIRES: pace >= 1.
std::unique_ptr<LayerKernels> PaceKernels(std::unique_ptr<LayerKernels> kernels, double pace);

// A device whose kernels are paced; the rest is that of `device`, which it needs.
std::unique_ptr<Device> PaceDevice(Device& device, double pace);

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_PREDICTION_PACED_DEVICE_H_
