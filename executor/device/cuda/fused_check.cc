#include "executor/device/cuda/fused_check.h"

#include <cstdint>
#include <vector>

#include "executor/device/comm/communicator.h"

namespace parplan::cuda {
namespace {

// Rows of more packs than a block has threads, so that threads come round.
constexpr int64_t kRows = 3;
constexpr int64_t kSize = 257 * 8;
constexpr int64_t kCount = kRows * kSize;
// Elements that both read: a bias, a gain, a norm's bias and a residual.
constexpr int64_t kShared = 3 * kSize + kCount;
// Elements of each: sums of three kinds and two results.
constexpr int64_t kOwn = 5 * kCount;
// The same in the type of statistics, and the two numbers that a norm keeps of each row.
constexpr int64_t kNumbers = kOwn + 2 * kRows;

// The arrays of one side.
struct Side {
  char* elements = nullptr;
  char* numbers = nullptr;
};

}  // namespace

bool FusedIsSame(KernelQueue& queue, LayerKernels& parts, LayerKernels& fused) {
  const int64_t element_size = ElementSize(parts.type());
  const int64_t number_size = ElementSize(parts.statistics_type());
  const int64_t number_bytes = kNumbers * number_size;
  // Everything begins at a multiple of 16 bytes, as what kernels read in packs.
  const int64_t side_bytes = (number_bytes + 15) / 16 * 16;
  char* const memory =
      static_cast<char*>(queue.Scratch(2 * side_bytes + (kShared + 2 * kOwn) * element_size));
  if (memory == nullptr) return false;
  char* const bias = memory + 2 * side_bytes;
  const auto at = [&](char* first, int64_t offset) { return first + offset * element_size; };
  const auto fill = [&](uint64_t stream, void* data, int64_t row_count) {
    parts.FillNormal({.stream = stream,
                      .column_count = kSize,
                      .part_row_count = row_count,
                      .part_column_count = kSize},
                     data);
  };
  fill(1, bias, 3 + kRows);
  char* const gain = at(bias, kSize);
  char* const norm_bias = at(bias, 2 * kSize);
  char* const residual = at(bias, 3 * kSize);
  const Side sides[] = {{at(bias, kShared), memory},
                        {at(bias, kShared + kOwn), memory + side_bytes}};
  std::vector<char> results[2];
  for (const bool fuses : {false, true}) {
    LayerKernels& kernels = fuses ? fused : parts;
    const Side& side = sides[fuses ? 1 : 0];
    char* const last = at(side.elements, kCount);
    char* const middle = at(side.elements, 2 * kCount);
    fill(2, side.elements, 3 * kRows);
    kernels.AddBiasAndGelu(bias, side.elements, at(side.elements, 3 * kCount), kRows, kSize);
    kernels.AddResidual(bias, residual, last, kRows, kSize);
    kernels.AddResidualAndNorm({.kind = NormKind::kLayerNorm,
                                .bias = bias,
                                .residual = residual,
                                .sum = middle,
                                .gain = gain,
                                .norm_bias = norm_bias,
                                .normal = at(side.elements, 4 * kCount),
                                .kept = side.numbers + kOwn * number_size,
                                .row_count = kRows,
                                .row_size = kSize});
    parts.ToStatistics(side.elements, side.numbers, kOwn);
    std::vector<char>& result = results[fuses ? 1 : 0];
    result.resize(static_cast<size_t>(number_bytes));
    if (!queue.CopyToHost(side.numbers, result.data(), number_bytes).ok()) return false;
  }
  return results[0] == results[1];
}

}  // namespace parplan::cuda
