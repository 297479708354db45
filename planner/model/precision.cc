#include "planner/model/precision.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/match.h"
#include "base/check.h"

namespace parplan {
namespace {

// Returns bf16 with quantised linear maps.
constexpr PrecisionTraits Quantised(Precision precision, absl::string_view name,
                                    Quantisation quantisation) {
  return {.precision = precision,
          .name = name,
          .storage = StorageFormat::kBf16,
          .compute = ComputeFormat::k16Bit,
          .accumulation = StorageFormat::kFp32,
          .communication = StorageFormat::kBf16,
          .scales_loss = false,
          .quantisation = quantisation};
}

constexpr PrecisionTraits kPrecisionTraits[] = {
    {.precision = Precision::kFp32,
     .name = "fp32",
     .storage = StorageFormat::kFp32,
     .compute = ComputeFormat::kFp32,
     .accumulation = StorageFormat::kFp32,
     .communication = StorageFormat::kFp32,
     .scales_loss = false},
    {.precision = Precision::kBf16,
     .name = "bf16",
     .storage = StorageFormat::kBf16,
     .compute = ComputeFormat::k16Bit,
     .accumulation = StorageFormat::kFp32,
     .communication = StorageFormat::kBf16,
     .scales_loss = false},
    {.precision = Precision::kFp16,
     .name = "fp16",
     .storage = StorageFormat::kFp16,
     .compute = ComputeFormat::k16Bit,
     .accumulation = StorageFormat::kFp32,
     .communication = StorageFormat::kFp16,
     .scales_loss = true},
    // Transformer Engine, common/recipe: DelayedScaling, Float8CurrentScaling, Float8BlockScaling
    // (scales of 4 bytes), MXFP8BlockScaling (scales of 1 byte), NVFP4BlockScaling (scales of 1
    // byte, and one of the tensor); torchao, float8: rowwise scaling. Weights of MXFP8 are gathered
    // in 16 bits (Megatron Core, reuse_grad_buf_for_mxfp8_param_ag), as are those of NVFP4 and of
    // rows, which have no 8-bit parameters; blocks of 128 have none by default. With scales of rows
    // torchtitan gathers inputs in 16 bits ("all-gather happens in high precision",
    // parallelize.py).
    Quantised(Precision::kFp8Delayed, "fp8-delayed",
              {ComputeFormat::k8Bit, 1.0, true, 1, true, true, true}),
    Quantised(Precision::kFp8Current, "fp8-current",
              {ComputeFormat::k8Bit, 1.0, true, 2, true, true, true}),
    Quantised(Precision::kFp8Rowwise, "fp8-rowwise",
              {ComputeFormat::k8Bit, 1.0, false, 2, false, false, false}),
    Quantised(Precision::kFp8Blockwise, "fp8-blockwise",
              {ComputeFormat::k8Bit, 1.0 + 4.0 / 128.0, false, 1, true, false, true}),
    Quantised(Precision::kMxfp8, "mxfp8",
              {ComputeFormat::k8Bit, 1.0 + 1.0 / 32.0, false, 1, false, true, true}),
    Quantised(Precision::kNvfp4, "nvfp4",
              {ComputeFormat::k4Bit, 0.5 + 1.0 / 16.0, false, 2, false, false, true}),
};

// `TraitsOf` indexes the table by the value of the enumerator.
constexpr bool PrecisionsAreInOrder() {
  for (size_t i = 0; i < std::size(kPrecisionTraits); ++i) {
    if (static_cast<size_t>(kPrecisionTraits[i].precision) != i + 1) return false;
  }
  return true;
}
static_assert(std::size(kPrecisionTraits) == kPrecisionCount && PrecisionsAreInOrder());

}  // namespace

absl::Span<const PrecisionTraits> KnownPrecisions() { return kPrecisionTraits; }

const PrecisionTraits& TraitsOf(Precision precision) {
  const int index = static_cast<int>(precision) - 1;
  PARPLAN_CHECK(index >= 0 && index < kPrecisionCount);
  return kPrecisionTraits[index];
}

std::optional<Precision> FindPrecision(absl::string_view name) {
  for (const PrecisionTraits& traits : kPrecisionTraits) {
    if (traits.name == name) return traits.precision;
  }
  return std::nullopt;
}

std::optional<Precision> FindPrecisionIn(absl::string_view description) {
  if (const std::optional<Precision> named = FindPrecision(description)) return named;
  // `bfloat16` contains `float16`, so it comes first.
  static constexpr struct {
    absl::string_view word;
    Precision precision;
  } kWords[] = {{"bf16", Precision::kBf16}, {"bfloat16", Precision::kBf16},
                {"fp16", Precision::kFp16}, {"float16", Precision::kFp16},
                {"fp32", Precision::kFp32}, {"tf32", Precision::kFp32}};
  for (const auto& [word, precision] : kWords) {
    if (absl::StrContains(description, word)) return precision;
  }
  return std::nullopt;
}

int64_t BytesPerElement(StorageFormat format) {
  switch (format) {
    case StorageFormat::kFp32:
      return 4;
    case StorageFormat::kBf16:
    case StorageFormat::kFp16:
      return 2;
  }
  PARPLAN_CHECK(false);
}

double BytesPerElement(ComputeFormat format) {
  switch (format) {
    case ComputeFormat::kFp32:
      return 4.0;
    case ComputeFormat::k16Bit:
      return 2.0;
    case ComputeFormat::k8Bit:
      return 1.0;
    case ComputeFormat::k4Bit:
      return 0.5;
  }
  PARPLAN_CHECK(false);
}

int64_t BytesPerElement(Precision precision) {
  return BytesPerElement(TraitsOf(precision).storage);
}

}  // namespace parplan
