#include "planner/cost/matrix_time.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "planner/cost/sustained_clock.h"

namespace parplan {
namespace {

// The tiles of the vendor's kernels, and the share of the largest tiles' rate that each reaches: a
// smaller tile reads its operands more often. The shares are those of CUTLASS's profiler for half
// precision on A100, rounded.
struct Tile {
  double rows;
  double columns;
  double rate;
};
constexpr Tile kTiles[] = {
    {256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.97},
    {128, 64, 0.85}, {64, 128, 0.85}, {64, 64, 0.65},
};

// Shortest part into which the inner dimension is split; shorter ones gain nothing. Not measured:
// four to eight steps of the usual tiles' inner dimension.
constexpr double kShortestSplit = 256.0;

// Bytes per element and part of a split product: partial results are 32-bit, written once and read
// once.
constexpr double kSplitBytes = 8.0;

// Rounds up a number from 0 to 2^62. The library's function is a call on x86-64 without SSE 4.1,
// which is the target of our builds.
double Ceil(double value) {
  const auto whole = static_cast<int64_t>(value);
  return static_cast<double>(static_cast<double>(whole) < value ? whole + 1 : whole);
}

double Floor(double value) { return static_cast<double>(static_cast<int64_t>(value)); }

bool IsMultiple(double size, int64_t of) {
  const auto whole = static_cast<int64_t>(size);
  // A fraction is an average over ranks, whose alignment has no meaning.
  return static_cast<double>(whole) != size || whole % of == 0;
}

}  // namespace

MatrixTime::MatrixTime(const DeviceDescription& device, const Coefficients& coefficients,
                       Precision precision)
    : multiprocessor_count_(device.multiprocessor_count),
      bytes_per_second_(device.memory_bytes_per_second *
                        coefficients[Coefficient::kMemoryEfficiency]),
      element_bytes_(static_cast<double>(BytesPerElement(precision))),
      kernel_overhead_(coefficients[Coefficient::kKernelOverhead]),
      plain_(RateOf(device, coefficients, TraitsOf(precision).compute, element_bytes_)),
      quantised_(plain_) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  if (!quantisation.has_value()) return;
  quantised_ = RateOf(device, coefficients, quantisation->format, quantisation->operand_bytes);
  quantised_.reduction_ramp *=
      quantised_.flops_per_multiprocessor / plain_.flops_per_multiprocessor;
}

MatrixTime::Rate MatrixTime::RateOf(const DeviceDescription& device,
                                    const Coefficients& coefficients, ComputeFormat format,
                                    double operand_bytes) const {
  Rate rate;
  rate.flops_per_multiprocessor = device.MatrixFlops(format) *
                                  coefficients[Coefficient::kMatrixEfficiency] *
                                  SustainedClockShare(device) / device.multiprocessor_count;
  rate.operand_bytes = operand_bytes;
  rate.aligned_elements = static_cast<int64_t>(16.0 / BytesPerElement(format));
  rate.misaligned_ratio = std::min(1.0, device.vector_flops_fp32 / device.MatrixFlops(format));
  rate.reduction_ramp = coefficients[Coefficient::kReductionRamp];
  return rate;
}

Seconds MatrixTime::Time(const ProductShape& product) const {
  if (product.Flops() <= 0.0) return Seconds();
  const double plain = TimeAt(plain_, product);
  // Programs leave products in 16 bits, or pad them, that their recipe would slow down.
  const double fastest =
      product.is_quantised ? std::min(plain, TimeAt(quantised_, product)) : plain;
  return Seconds::Of(kernel_overhead_ + fastest);
}

double MatrixTime::TimeAt(const Rate& format, const ProductShape& product) const {
  double computing = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = Ceil(product.rows / tile.rows) * Ceil(product.columns / tile.columns) *
                         std::max(product.batch_count, 1.0);
    const double rate = format.flops_per_multiprocessor * tile.rate;
    const double tile_flops = 2.0 * tile.rows * tile.columns;
    double time = Ceil(tiles / multiprocessor_count_) * tile_flops *
                  (product.inner + format.reduction_ramp) / rate;
    if (2.0 * tiles <= multiprocessor_count_ && product.inner >= 2.0 * kShortestSplit) {
      const double split =
          std::min(Floor(multiprocessor_count_ / tiles), Floor(product.inner / kShortestSplit));
      const double split_time =
          tile_flops * (product.inner / split + format.reduction_ramp) / rate +
          split * product.rows * product.columns * product.batch_count * kSplitBytes /
              bytes_per_second_;
      time = std::min(time, split_time);
    }
    computing = std::min(computing, time);
  }
  if (!IsMultiple(product.columns, format.aligned_elements) ||
      !IsMultiple(product.inner, format.aligned_elements)) {
    computing /= format.misaligned_ratio;
  }
  const double result = product.rows * product.columns;
  const double operands = product.rows * product.inner + product.inner * product.columns;
  const double bytes = result * element_bytes_ + operands * format.operand_bytes;
  const double moving = bytes * product.batch_count / bytes_per_second_;
  // Neither hides the other completely: tiles are written once their products are done.
  return std::sqrt(computing * computing + moving * moving);
}

}  // namespace parplan
