// The CUDA kernels on the processor, as any others.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_SUBJECT_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_SUBJECT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/executor/device/cuda/kernel_twins.h"

namespace parplan {

// kFloat32 or kBfloat16. With `reverses` the last thread of a block goes first. One thread of the
// process at a time.
std::unique_ptr<KernelSubject> MakeEmulatedKernels(ElementType type, bool reverses);

// Returns what FusedIsSame says of these kernels, or of such that compute one of the operations, by
// its number from 0, with the last bits of a result lost; -1: none.
bool FusedEmulatedKernelsAreTheSame(ElementType type, bool reverses, int wrong_operation = -1);

// The numbers that an operation uploads, and the kernels that it launches.
struct QueueUse {
  int64_t uploaded = 0;
  int launch_count = 0;
  bool operator==(const QueueUse&) const = default;
};
// Adds one to `table_gradient` for each of `tokens`, from `first_token` on.
QueueUse UseOfEmbedBackward(const std::vector<int32_t>& tokens, int64_t first_token,
                            std::vector<float>& table_gradient);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_EMULATED_SUBJECT_H_
