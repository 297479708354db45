#include "planner/search/stage/dense_kernels.h"

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#define PARPLAN_HAS_AVX2_VARIANT 1
#endif

namespace parplan {
namespace {

// Both compilers split an operation on eight costs if registers are narrower.
using Eight = int32_t __attribute__((vector_size(32)));

// Eight costs at any address. `aligned(4)` on the alias above would not do: Clang 14 ignores it and
// loads as if addresses were multiples of 32.
struct __attribute__((packed, may_alias)) EightAnywhere {
  Eight costs;
};
constexpr int64_t kLanes = 8;

#define PARPLAN_INLINE inline __attribute__((always_inline))

PARPLAN_INLINE void LeastSumsBody(absl::Span<const int32_t* const> before,
                                  absl::Span<const int32_t> add, int64_t count, int32_t* arrival) {
  const size_t term_count = before.size();
  int64_t i = 0;
  // Two vectors at a time hide the latency of one minimum.
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    Eight a = reinterpret_cast<const EightAnywhere*>(before[0] + i)->costs + add[0];
    Eight b = reinterpret_cast<const EightAnywhere*>(before[0] + i + kLanes)->costs + add[0];
    for (size_t j = 1; j < term_count; ++j) {
      const Eight c = reinterpret_cast<const EightAnywhere*>(before[j] + i)->costs + add[j];
      const Eight d =
          reinterpret_cast<const EightAnywhere*>(before[j] + i + kLanes)->costs + add[j];
      a = c < a ? c : a;
      b = d < b ? d : b;
    }
    reinterpret_cast<EightAnywhere*>(arrival + i)->costs = a;
    reinterpret_cast<EightAnywhere*>(arrival + i + kLanes)->costs = b;
  }
  for (; i < count; ++i) {
    int32_t least = before[0][i] + add[0];
    for (size_t j = 1; j < term_count; ++j) least = std::min(least, before[j][i] + add[j]);
    arrival[i] = least;
  }
}

PARPLAN_INLINE void TakeLeastBody(const int32_t* source, int32_t add, int64_t count,
                                  int32_t* target) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Eight sum = reinterpret_cast<const EightAnywhere*>(source + i)->costs + add;
    const Eight old = reinterpret_cast<const EightAnywhere*>(target + i)->costs;
    reinterpret_cast<EightAnywhere*>(target + i)->costs = sum < old ? sum : old;
  }
  for (; i < count; ++i) target[i] = std::min(target[i], source[i] + add);
}

#ifdef PARPLAN_HAS_AVX2_VARIANT

__attribute__((target("avx2"))) void LeastSumsAvx2(absl::Span<const int32_t* const> before,
                                                   absl::Span<const int32_t> add, int64_t count,
                                                   int32_t* arrival) {
  LeastSumsBody(before, add, count, arrival);
}

__attribute__((target("avx2"))) void TakeLeastAvx2(const int32_t* source, int32_t add,
                                                   int64_t count, int32_t* target) {
  TakeLeastBody(source, add, count, target);
}

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

#endif

}  // namespace

void LeastSums(absl::Span<const int32_t* const> before, absl::Span<const int32_t> add,
               int64_t count, int32_t* arrival) {
#ifdef PARPLAN_HAS_AVX2_VARIANT
  if (HasAvx2()) return LeastSumsAvx2(before, add, count, arrival);
#endif
  LeastSumsBody(before, add, count, arrival);
}

void TakeLeast(const int32_t* source, int32_t add, int64_t count, int32_t* target) {
#ifdef PARPLAN_HAS_AVX2_VARIANT
  if (HasAvx2()) return TakeLeastAvx2(source, add, count, target);
#endif
  TakeLeastBody(source, add, count, target);
}

}  // namespace parplan
