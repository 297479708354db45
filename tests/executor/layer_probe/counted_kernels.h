// Kernels that compute as others do, beside a clock that shows what they did and no time.

#ifndef PARPLAN_TESTS_EXECUTOR_LAYER_PROBE_COUNTED_KERNELS_H_
#define PARPLAN_TESTS_EXECUTOR_LAYER_PROBE_COUNTED_KERNELS_H_

#include "absl/time/time.h"
#include "tests/executor/device/kernels/wrapped_kernels.h"

namespace parplan {

// The clock goes on by a nanosecond for each operation of a matrix product (a multiply-add is
// two) and for each parameter the optimizer steps; all else takes no time.
class CountedKernels : public WrappedKernels {
 public:
  using WrappedKernels::WrappedKernels;

  absl::Duration now() const { return now_; }

  void Multiply(const MatrixProduct& product) override {
    now_ += absl::Nanoseconds(2 * product.m * product.n * product.k);
    WrappedKernels::Multiply(product);
  }
  void AdamStep(const AdamSettings& settings, int64_t step, const void* gradients,
                void* first_moments, void* second_moments, void* masters, void* parameters,
                int64_t count) override {
    now_ += absl::Nanoseconds(count);
    WrappedKernels::AdamStep(settings, step, gradients, first_moments, second_moments, masters,
                             parameters, count);
  }
  void SgdStep(const SgdSettings& settings, const void* gradients, void* moments, void* masters,
               void* parameters, int64_t count) override {
    now_ += absl::Nanoseconds(count);
    WrappedKernels::SgdStep(settings, gradients, moments, masters, parameters, count);
  }

 private:
  absl::Duration now_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_LAYER_PROBE_COUNTED_KERNELS_H_
