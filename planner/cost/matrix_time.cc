#include "planner/cost/matrix_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace parplan {
namespace {

// Tiles of the vendor's kernels and the share of the largest tiles' rate that they
// reach: a smaller tile reads its operands more often. Shares of CUTLASS's profiler
// for half precision on A100, rounded.
struct Tile {
  double rows;
  double columns;
  double rate;
};
constexpr Tile kTiles[] = {
    {256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.94},
    {128, 64, 0.78}, {64, 128, 0.78}, {64, 64, 0.6},
};

// Below this, cutting the inner dimension gains nothing.
constexpr double kShortestSplit = 256.0;

// Partial results are summed up in 32 bits: one written, one read.
constexpr double kSplitBytes = 8.0;

bool IsMultiple(double size, double of) {
  // Fractions are averages; a misaligned average says nothing.
  return size != std::floor(size) || std::fmod(size, of) == 0.0;
}

}  // namespace

MatrixTime::MatrixTime(const DeviceDescription& device, const Coefficients& coefficients,
                       Precision precision)
    : flops_per_multiprocessor_(device.MatrixFlops(precision) *
                                coefficients[Coefficient::kMatrixEfficiency] /
                                device.multiprocessor_count),
      multiprocessor_count_(device.multiprocessor_count),
      bytes_per_second_(device.memory_bytes_per_second *
                        coefficients[Coefficient::kMemoryEfficiency]),
      element_bytes_(static_cast<double>(BytesPerElement(precision))),
      aligned_elements_(16.0 / element_bytes_),
      misaligned_efficiency_(coefficients[Coefficient::kMisalignedEfficiency]),
      reduction_ramp_(coefficients[Coefficient::kReductionRamp]),
      kernel_overhead_(coefficients[Coefficient::kKernelOverhead]) {}

Seconds MatrixTime::Time(const MatrixProduct& product) const {
  if (product.Flops() <= 0.0) return Seconds();
  double computing = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(product.rows / tile.rows) *
                         std::ceil(product.columns / tile.columns) *
                         std::max(product.batch_count, 1.0);
    const double rate = flops_per_multiprocessor_ * tile.rate;
    const double tile_flops = 2.0 * tile.rows * tile.columns;
    double time = std::ceil(tiles / multiprocessor_count_) * tile_flops *
                  (product.inner + reduction_ramp_) / rate;
    if (2.0 * tiles <= multiprocessor_count_ && product.inner >= 2.0 * kShortestSplit) {
      const double split = std::min(std::floor(multiprocessor_count_ / tiles),
                                    std::floor(product.inner / kShortestSplit));
      const double split_time = tile_flops * (product.inner / split + reduction_ramp_) / rate +
                                split * product.rows * product.columns * product.batch_count *
                                    kSplitBytes / bytes_per_second_;
      time = std::min(time, split_time);
    }
    computing = std::min(computing, time);
  }
  if (!IsMultiple(product.columns, aligned_elements_) ||
      !IsMultiple(product.inner, aligned_elements_)) {
    computing /= misaligned_efficiency_;
  }
  const double elements = product.rows * product.columns + product.rows * product.inner +
                          product.inner * product.columns;
  const double moving = elements * product.batch_count * element_bytes_ / bytes_per_second_;
  return Seconds::Of(kernel_overhead_ + std::max(computing, moving));
}

}  // namespace parplan
