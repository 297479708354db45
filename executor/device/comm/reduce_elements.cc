#include "executor/device/comm/reduce_elements.h"

#include <algorithm>
#include <bit>

namespace parplan {
namespace {

// REQUIRES: the buffers are aligned for T.
template <typename T>
void Reduce(Reduction reduction, const char* base, const char* arrived, int64_t count,
            char* result) {
  const T* const a = reinterpret_cast<const T*>(base);
  const T* const b = reinterpret_cast<const T*>(arrived);
  T* const c = reinterpret_cast<T*>(result);
  if (reduction == Reduction::kSum) {
    for (int64_t i = 0; i < count; ++i) c[i] = a[i] + b[i];
  } else {
    for (int64_t i = 0; i < count; ++i) c[i] = std::max(a[i], b[i]);
  }
}

float FloatOf(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t Bfloat16Of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // NaN stays NaN.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

void ReduceBfloat16(Reduction reduction, const char* base, const char* arrived, int64_t count,
                    char* result) {
  const auto* const a = reinterpret_cast<const uint16_t*>(base);
  const auto* const b = reinterpret_cast<const uint16_t*>(arrived);
  auto* const c = reinterpret_cast<uint16_t*>(result);
  for (int64_t i = 0; i < count; ++i) {
    const float x = FloatOf(a[i]);
    const float y = FloatOf(b[i]);
    c[i] = Bfloat16Of(reduction == Reduction::kSum ? x + y : std::max(x, y));
  }
}

}  // namespace

void ReduceElements(ElementType type, Reduction reduction, const char* base, const char* arrived,
                    int64_t count, char* result) {
  switch (type) {
    case ElementType::kFloat32:
      return Reduce<float>(reduction, base, arrived, count, result);
    case ElementType::kFloat64:
      return Reduce<double>(reduction, base, arrived, count, result);
    case ElementType::kBfloat16:
      return ReduceBfloat16(reduction, base, arrived, count, result);
    case ElementType::kByte:
      return;
  }
}

}  // namespace parplan
