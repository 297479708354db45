#include "proto/wire/hardware_wire.h"

#include <cmath>
#include <cstdint>
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

// `+` joins the two links of a fabric's name.
absl::Status RequireName(absl::string_view name, bool allow_plus, const std::string& field) {
  const auto reject = [&](absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, field, rule);
  };
  if (name.empty()) return reject("is empty; give a name");
  const size_t max_size = allow_plus ? 2 * kMaxNameSize + 1 : kMaxNameSize;
  if (name.size() > max_size) return reject(absl::StrCat("at most ", max_size, " characters"));
  for (const char c : name) {
    const bool allowed = absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.' ||
                         c == '_' || (allow_plus && c == '+');
    if (!allowed) {
      return reject(absl::StrCat("lower-case letters, digits, `-`, `.`, `_`",
                                 allow_plus ? " and `+`" : "", " only"));
    }
  }
  if (!absl::ascii_isalnum(name[0])) return reject("must start with a letter or digit");
  return absl::OkStatus();
}

int64_t Whole(double rate) { return static_cast<int64_t>(std::llround(rate)); }

std::string LinkLine(absl::string_view keyword, const LinkDescription& link) {
  return CanonicalLine(
      keyword, {StringWord(link.link_id), NumberWord(link.bytes_per_second_per_device),
                NumberWord(link.bytes_per_second_per_node), NumberWord(link.latency.value())});
}

}  // namespace

absl::StatusOr<DeviceDescription> DeviceFromProto(const v1::DeviceDescription& message,
                                                  absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(message.device_id(), false, JoinPath(field, "device_id")));
  PARPLAN_RETURN_IF_ERROR(
      RequireName(message.device_family(), false, JoinPath(field, "device_family")));
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
  return DeviceDescription::Create(std::move(device), std::string(field));
}

absl::StatusOr<LinkDescription> LinkFromProto(const v1::LinkDescription& message,
                                              absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(message.link_id(), false, JoinPath(field, "link_id")));
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

absl::StatusOr<FabricDescription> FabricFromProto(const v1::FabricDescription& message,
                                                  absl::string_view field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(message.fabric_id(), true, JoinPath(field, "fabric_id")));
  FabricDescription fabric;
  fabric.fabric_id = message.fabric_id();
  PARPLAN_ASSIGN_OR_RETURN(fabric.intra_node,
                           LinkFromProto(message.intra_node(), JoinPath(field, "intra_node")));
  PARPLAN_ASSIGN_OR_RETURN(fabric.inter_node,
                           LinkFromProto(message.inter_node(), JoinPath(field, "inter_node")));
  return FabricDescription::Create(std::move(fabric), std::string(field));
}

v1::DeviceDescription DeviceToProto(const DeviceDescription& device) {
  v1::DeviceDescription message;
  message.set_device_id(device.device_id);
  message.set_device_family(device.device_family);
  message.set_matrix_flops_16_bit(device.matrix_flops_16_bit);
  message.set_matrix_flops_fp32(device.matrix_flops_fp32);
  message.set_vector_flops_fp32(device.vector_flops_fp32);
  message.set_memory_bytes(device.memory.count());
  message.set_memory_bytes_per_second(Whole(device.memory_bytes_per_second));
  message.set_last_level_cache_bytes(device.last_level_cache.count());
  message.set_multiprocessor_count(device.multiprocessor_count);
  return message;
}

v1::LinkDescription LinkToProto(const LinkDescription& link) {
  v1::LinkDescription message;
  message.set_link_id(link.link_id);
  message.set_bytes_per_second_per_device(Whole(link.bytes_per_second_per_device));
  message.set_bytes_per_second_per_node(Whole(link.bytes_per_second_per_node));
  *message.mutable_latency_duration() = DurationToProto(link.latency);
  return message;
}

v1::FabricDescription FabricToProto(const FabricDescription& fabric) {
  v1::FabricDescription message;
  message.set_fabric_id(fabric.fabric_id);
  *message.mutable_intra_node() = LinkToProto(fabric.intra_node);
  *message.mutable_inter_node() = LinkToProto(fabric.inter_node);
  return message;
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
      CanonicalLine("fabric", {StringWord(hardware.fabric.fabric_id)}),
      LinkLine("intra_node", hardware.fabric.intra_node),
      LinkLine("inter_node", hardware.fabric.inter_node));
}

std::string HardwareDigest(const Hardware& hardware) { return Sha256Hex(HardwareText(hardware)); }

}  // namespace parplan
