#include "planner/model/precision.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/match.h"
#include "base/check.h"

namespace parplan {
namespace {

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

int64_t BytesPerElement(ComputeFormat format) {
  switch (format) {
    case ComputeFormat::kFp32:
      return 4;
    case ComputeFormat::k16Bit:
      return 2;
  }
  PARPLAN_CHECK(false);
}

int64_t BytesPerElement(Precision precision) {
  return BytesPerElement(TraitsOf(precision).storage);
}

}  // namespace parplan
