// How long a device takes for a product of matrices.

#ifndef PARPLAN_PLANNER_COST_MATRIX_TIME_H_
#define PARPLAN_PLANNER_COST_MATRIX_TIME_H_

#include <cstdint>

#include "base/units.h"
#include "planner/model/coefficients.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"

namespace parplan {

// `batch_count` products of `rows` x `inner` by `inner` x `columns` in one kernel.
// Sizes may be fractions: they are averages over ranks.
struct ProductShape {
  double rows = 0.0;
  double columns = 0.0;
  double inner = 0.0;
  double batch_count = 1.0;

  // A multiply-add is two.
  double Flops() const { return 2.0 * rows * columns * inner * batch_count; }
};

// Times of one device at one precision. Plain data, a few hundred bytes.
class MatrixTime {
 public:
  MatrixTime(const DeviceDescription& device, const Coefficients& coefficients,
             Precision precision);

  // The root of the squares of computing and moving the operands, which is about the
  // longer of the two where they are far apart, and the overhead of a kernel.
  //
  // The result is cut into tiles, one multiprocessor each, worked on in waves of as
  // many tiles as there are multiprocessors; a part-filled wave costs a whole one
  // (NVIDIA, "Matrix Multiplication Background User's Guide", tile and wave
  // quantisation). Of the usual tile shapes the quickest is taken, as the library's
  // heuristics would. A tile costs its inner dimension plus `kReductionRamp`; when
  // tiles are few the inner dimension is split among idle multiprocessors.
  //
  // Rows of matrices that are no multiple of 16 bytes cannot be loaded by the matrix
  // units' instructions (same guide, section 3); the library falls back on kernels that
  // sum up in 32 bits on the vector units.
  // O(1), no allocation.
  Seconds Time(const ProductShape& product) const;

 private:
  double flops_per_multiprocessor_;  // reached by large tiles
  double multiprocessor_count_;
  double bytes_per_second_;
  double element_bytes_;
  int64_t aligned_elements_;
  double misaligned_ratio_;  // of the rate, when the matrix units cannot be used
  double reduction_ramp_;
  double kernel_overhead_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MATRIX_TIME_H_
