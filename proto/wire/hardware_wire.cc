#include "proto/wire/hardware_wire.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

constexpr size_t kMaxNameSize = 63;

absl::Status RequireName(absl::string_view name, const std::string& field) {
  const auto reject = [&](absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, field, rule);
  };
  if (name.empty()) return reject("is empty; give a name");
  if (name.size() > kMaxNameSize) {
    return reject(absl::StrCat("at most ", kMaxNameSize, " characters"));
  }
  for (const char c : name) {
    const bool allowed =
        absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.' || c == '_';
    if (!allowed) return reject("lower-case letters, digits, `-`, `.`, `_` only");
  }
  if (!absl::ascii_isalnum(name[0])) return reject("must start with a letter or digit");
  return absl::OkStatus();
}

std::string LinkLine(absl::string_view keyword, const LinkDescription& link) {
  return CanonicalLine(
      keyword, {StringWord(link.link_id), NumberWord(link.bytes_per_second_per_device),
                NumberWord(link.bytes_per_second_per_node), NumberWord(link.latency.value())});
}

// Returns the lines of values that a data sheet may leave out. Devices without them keep the digest
// that they had before there were fields for them.
std::string OptionalLines(const DeviceDescription& device) {
  std::string lines;
  if (device.matrix_flops_8_bit > 0.0 || device.matrix_flops_4_bit > 0.0) {
    lines = CanonicalLine("narrow_products", {NumberWord(device.matrix_flops_8_bit),
                                              NumberWord(device.matrix_flops_4_bit)});
  }
  if (device.power_limit_watts > 0.0) {
    absl::StrAppend(&lines, CanonicalLine("power_limit", {NumberWord(device.power_limit_watts)}));
  }
  return lines;
}

}  // namespace

absl::StatusOr<DeviceDescription> DeviceFromProto(const v1::DeviceDescription& message,
                                                  absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(message.device_id(), JoinPath(field, "device_id")));
  PARPLAN_RETURN_IF_ERROR(RequireName(message.device_family(), JoinPath(field, "device_family")));
  DeviceDescription device;
  device.device_id = message.device_id();
  device.device_family = message.device_family();
  device.matrix_flops_16_bit = message.matrix_flops_16_bit();
  device.matrix_flops_fp32 = message.matrix_flops_fp32();
  device.vector_flops_fp32 = message.vector_flops_fp32();
  device.memory = Bytes::Of(message.memory_bytes());
  device.memory_bytes_per_second = static_cast<double>(message.memory_bytes_per_second());
  device.last_level_cache = Bytes::Of(message.last_level_cache_bytes());
  device.multiprocessor_count = message.multiprocessor_count();
  device.matrix_flops_8_bit = message.matrix_flops_8_bit();
  device.matrix_flops_4_bit = message.matrix_flops_4_bit();
  device.power_limit_watts = message.power_limit_watts();
  return DeviceDescription::Create(std::move(device), std::string(field));
}

absl::StatusOr<LinkDescription> LinkFromProto(const v1::LinkDescription& message,
                                              absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(message.link_id(), JoinPath(field, "link_id")));
  const std::string latency_field = JoinPath(field, "latency_duration");
  if (!message.has_latency_duration()) {
    return FieldError(Reason::kSpecInvalid, latency_field, "is missing; give a time above 0");
  }
  LinkDescription link;
  link.link_id = message.link_id();
  link.bytes_per_second_per_device = static_cast<double>(message.bytes_per_second_per_device());
  link.bytes_per_second_per_node = static_cast<double>(message.bytes_per_second_per_node());
  PARPLAN_ASSIGN_OR_RETURN(link.latency,
                           SecondsFromProto(message.latency_duration(), latency_field));
  return LinkDescription::Create(std::move(link), std::string(field));
}

std::string HardwareText(const Hardware& hardware) {
  const DeviceDescription& device = hardware.device;
  return absl::StrCat(
      "parplan hardware 1\n",
      CanonicalLine(
          "device",
          {StringWord(device.device_id), StringWord(device.device_family),
           NumberWord(device.matrix_flops_16_bit), NumberWord(device.matrix_flops_fp32),
           NumberWord(device.vector_flops_fp32), IntegerWord(device.memory.count()),
           NumberWord(device.memory_bytes_per_second), IntegerWord(device.last_level_cache.count()),
           IntegerWord(device.multiprocessor_count)}),
      OptionalLines(device), CanonicalLine("fabric", {StringWord(hardware.fabric.fabric_id)}),
      LinkLine("intra_node", hardware.fabric.intra_node),
      LinkLine("inter_node", hardware.fabric.inter_node));
}

std::string HardwareDigest(const Hardware& hardware) { return Sha256Hex(HardwareText(hardware)); }

}  // namespace parplan
