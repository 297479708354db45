#include "executor/device/kernels/host_elements.h"

#include <bit>

#include "base/check.h"
#include "base/status_macros.h"

namespace parplan {

uint16_t RoundToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // A NaN must not become an infinity.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

absl::Status WriteElements(LayerKernels& kernels, ElementType type, absl::Span<const double> values,
                           void* data) {
  PARPLAN_CHECK(type != ElementType::kByte);
  const int64_t byte_count = static_cast<int64_t>(values.size()) * ElementSize(type);
  if (type == ElementType::kFloat64) return kernels.CopyFromHost(values.data(), data, byte_count);
  if (type == ElementType::kFloat32) {
    const std::vector<float> floats(values.begin(), values.end());
    return kernels.CopyFromHost(floats.data(), data, byte_count);
  }
  std::vector<uint16_t> halves;
  halves.reserve(values.size());
  for (const double value : values) halves.push_back(RoundToBfloat16(static_cast<float>(value)));
  return kernels.CopyFromHost(halves.data(), data, byte_count);
}

absl::StatusOr<std::vector<double>> ReadElements(LayerKernels& kernels, ElementType type,
                                                 const void* data, int64_t count) {
  PARPLAN_CHECK(type != ElementType::kByte);
  const int64_t byte_count = count * ElementSize(type);
  std::vector<double> values(count);
  if (type == ElementType::kFloat64) {
    PARPLAN_RETURN_IF_ERROR(kernels.CopyToHost(data, values.data(), byte_count));
  } else if (type == ElementType::kFloat32) {
    std::vector<float> floats(count);
    PARPLAN_RETURN_IF_ERROR(kernels.CopyToHost(data, floats.data(), byte_count));
    values.assign(floats.begin(), floats.end());
  } else {
    std::vector<uint16_t> halves(count);
    PARPLAN_RETURN_IF_ERROR(kernels.CopyToHost(data, halves.data(), byte_count));
    for (int64_t i = 0; i < count; ++i) values[i] = FromBfloat16(halves[i]);
  }
  return values;
}

}  // namespace parplan
