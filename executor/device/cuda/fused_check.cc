#include "executor/device/cuda/fused_check.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "executor/device/comm/communicator.h"

namespace parplan::cuda {
namespace {

constexpr int64_t kRows = 3;

// A computation by kernels of packs or of single elements, which the size of a row decides, with
// the biases of a GPT or with none, as in a Llama.
struct Case {
  int64_t row_size = 0;
  NormKind kind = NormKind::kLayerNorm;
  bool has_biases = true;
};

// Rows of more packs of eight, or more elements, than a block has threads, so that threads come
// round.
constexpr int64_t kPackedRow = 2056;
constexpr int64_t kOddRow = 2057;
constexpr Case kCases[] = {{kPackedRow, NormKind::kLayerNorm, true},
                           {kPackedRow, NormKind::kRmsNorm, false},
                           {kOddRow, NormKind::kLayerNorm, true},
                           {kOddRow, NormKind::kRmsNorm, false}};

// The arrays of one side.
struct Side {
  char* elements = nullptr;
  char* numbers = nullptr;
};

bool IsSame(const Case& wanted, KernelQueue& queue, LayerKernels& parts, LayerKernels& fused) {
  const int64_t size = wanted.row_size;
  const int64_t count = kRows * size;
  // Elements that both read: a bias, a gain, a norm's bias and a residual.
  const int64_t shared = 3 * size + count;
  // Elements of each: sums of three kinds and two results; and the same in the type of statistics,
  // with the two numbers that a norm keeps of each row.
  const int64_t own = 5 * count;
  const int64_t numbers = own + 2 * kRows;
  const int64_t element_size = ElementSize(parts.type());
  const int64_t number_size = ElementSize(parts.statistics_type());
  const int64_t number_bytes = numbers * number_size;
  // Everything begins at a multiple of 16 bytes, as what kernels read in packs.
  const int64_t side_bytes = (number_bytes + 15) / 16 * 16;
  char* const memory =
      static_cast<char*>(queue.Scratch(2 * side_bytes + (shared + 2 * own) * element_size));
  if (memory == nullptr) return false;
  char* const bias = memory + 2 * side_bytes;
  const auto at = [&](char* first, int64_t offset) { return first + offset * element_size; };
  const auto fill = [&](uint64_t stream, void* data, int64_t row_count) {
    parts.FillNormal({.stream = stream,
                      .column_count = size,
                      .part_row_count = row_count,
                      .part_column_count = size},
                     data);
  };
  fill(1, bias, 3 + kRows);
  char* const gain = at(bias, size);
  char* const norm_bias = at(bias, 2 * size);
  char* const residual = at(bias, 3 * size);
  const Side sides[] = {{at(bias, shared), memory}, {at(bias, shared + own), memory + side_bytes}};
  std::vector<char> results[2];
  for (const bool fuses : {false, true}) {
    LayerKernels& kernels = fuses ? fused : parts;
    const Side& side = sides[fuses ? 1 : 0];
    char* const last = at(side.elements, count);
    char* const middle = at(side.elements, 2 * count);
    fill(2, side.elements, 3 * kRows);
    // Some norms keep one number of each row.
    parts.Zero(side.numbers, number_bytes / element_size);
    kernels.AddBiasAndGelu(bias, side.elements, at(side.elements, 3 * count), kRows, size);
    kernels.AddResidual(wanted.has_biases ? bias : nullptr, residual, last, kRows, size);
    kernels.AddResidualAndNorm({.kind = wanted.kind,
                                .bias = wanted.has_biases ? bias : nullptr,
                                .residual = residual,
                                .sum = middle,
                                .gain = gain,
                                .norm_bias = wanted.has_biases ? norm_bias : nullptr,
                                .normal = at(side.elements, 4 * count),
                                .kept = side.numbers + own * number_size,
                                .row_count = kRows,
                                .row_size = size});
    parts.ToStatistics(side.elements, side.numbers, own);
    std::vector<char>& result = results[fuses ? 1 : 0];
    result.resize(static_cast<size_t>(number_bytes));
    if (!queue.CopyToHost(side.numbers, result.data(), number_bytes).ok()) return false;
  }
  return results[0] == results[1];
}

}  // namespace

bool FusedIsSame(KernelQueue& queue, LayerKernels& parts, LayerKernels& fused) {
  return std::all_of(std::begin(kCases), std::end(kCases),
                     [&](const Case& one) { return IsSame(one, queue, parts, fused); });
}

}  // namespace parplan::cuda
