// Times of matrix products on one device. `AnalyticLayer` and the operator times of the ILP use it.

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
  // The result has `rows` x `columns` elements, each a sum of `inner` products.
  double rows = 0.0;
  double columns = 0.0;
  double inner = 0.0;
  double batch_count = 1.0;
  // Whether the operands are quantised by the recipe of the precision. The result is not.
  bool is_quantised = false;

  // Returns the floating-point operations; a multiply-add counts as two.
  double Flops() const { return 2.0 * rows * columns * inner * batch_count; }
};

// Times on one device at one precision. Plain data of less than two hundred bytes.
class MatrixTime {
 public:
  // Copies what it needs of the arguments.
  MatrixTime(const DeviceDescription& device, const Coefficients& coefficients,
             Precision precision);

  // Returns the overhead of a kernel plus sqrt(c^2 + m^2), c being the time to compute and m the
  // time to move the operands: about the longer of the two if they differ much.
  //
  // The result is cut into tiles, one per multiprocessor, which are computed in waves of as many
  // tiles as there are multiprocessors; a partly filled wave costs a whole one (NVIDIA, "Matrix
  // Multiplication Background User's Guide", tile and wave quantisation). Of the usual tile shapes
  // the quickest is taken, as the library's heuristics would. A tile costs its inner dimension
  // plus `kReductionRamp`; if there are few tiles, the inner dimension is split among idle
  // multiprocessors. Beginning and end of a tile take as long with quantised operands, whose inner
  // dimension is worked off faster: `kReductionRamp` grows with the ratio of the rates. The rate is
  // that of `SustainedClockShare`.
  //
  // The matrix units' instructions cannot load rows whose size is no multiple of 16 bytes (same
  // guide, section 3); the library falls back on kernels that sum up in 32 bits on the vector
  // units. A quantised product takes no longer than with operands as they lie in memory: programs
  // leave those maps in 16 bits, or pad them. 0 for a product without operations. O(1), allocates
  // nothing.
  Seconds Time(const ProductShape& product) const;

 private:
  // The values that depend on the format of the operands.
  struct Rate {
    double flops_per_multiprocessor;  // per second, with large tiles
    double operand_bytes;
    int64_t aligned_elements;
    double misaligned_ratio;  // share of the rate without the matrix units
    double reduction_ramp;
  };
  // Returns the seconds of a product with operands of that format, without the kernel's overhead.
  double TimeAt(const Rate& format, const ProductShape& product) const;
  Rate RateOf(const DeviceDescription& device, const Coefficients& coefficients,
              ComputeFormat format, double operand_bytes) const;

  double multiprocessor_count_;
  double bytes_per_second_;
  double element_bytes_;
  double kernel_overhead_;
  Rate plain_;
  Rate quantised_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_COST_MATRIX_TIME_H_
