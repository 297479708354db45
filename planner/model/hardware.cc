#include "planner/model/hardware.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

absl::Status RequireRate(double value, const std::string& field) {
  if (std::isfinite(value) && value > 0.0) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("is ", value, "; give a finite number above 0"));
}

absl::Status AllowRate(double value, const std::string& field) {
  return value == 0.0 ? absl::OkStatus() : RequireRate(value, field);
}

absl::Status RequireName(const std::string& value, const std::string& field) {
  if (!value.empty()) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, field, "is empty; give a name");
}

absl::Status CheckLink(const LinkDescription& link, const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(link.link_id, field + ".link_id"));
  PARPLAN_RETURN_IF_ERROR(
      RequireRate(link.bytes_per_second_per_device, field + ".bytes_per_second_per_device"));
  if (link.bytes_per_second_per_node != 0.0) {
    PARPLAN_RETURN_IF_ERROR(
        RequireRate(link.bytes_per_second_per_node, field + ".bytes_per_second_per_node"));
  }
  return RequireRate(link.latency.value(), field + ".latency_duration");
}

}  // namespace

absl::StatusOr<LinkDescription> LinkDescription::Create(LinkDescription raw,
                                                        const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(CheckLink(raw, field));
  return raw;
}

absl::StatusOr<DeviceDescription> DeviceDescription::Create(DeviceDescription raw,
                                                            const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(raw.device_id, field + ".device_id"));
  PARPLAN_RETURN_IF_ERROR(RequireName(raw.device_family, field + ".device_family"));
  PARPLAN_RETURN_IF_ERROR(RequireRate(raw.matrix_flops_16_bit, field + ".matrix_flops_16_bit"));
  PARPLAN_RETURN_IF_ERROR(RequireRate(raw.matrix_flops_fp32, field + ".matrix_flops_fp32"));
  PARPLAN_RETURN_IF_ERROR(RequireRate(raw.vector_flops_fp32, field + ".vector_flops_fp32"));
  PARPLAN_RETURN_IF_ERROR(AllowRate(raw.matrix_flops_8_bit, field + ".matrix_flops_8_bit"));
  PARPLAN_RETURN_IF_ERROR(AllowRate(raw.matrix_flops_4_bit, field + ".matrix_flops_4_bit"));
  PARPLAN_RETURN_IF_ERROR(AllowRate(raw.power_limit_watts, field + ".power_limit_watts"));
  PARPLAN_RETURN_IF_ERROR(RequireRate(raw.memory.as_double(), field + ".memory_bytes"));
  PARPLAN_RETURN_IF_ERROR(
      RequireRate(raw.memory_bytes_per_second, field + ".memory_bytes_per_second"));
  PARPLAN_RETURN_IF_ERROR(
      RequireRate(raw.last_level_cache.as_double(), field + ".last_level_cache_bytes"));
  PARPLAN_RETURN_IF_ERROR(RequireRate(raw.multiprocessor_count, field + ".multiprocessor_count"));
  return raw;
}

absl::StatusOr<FabricDescription> FabricDescription::Create(FabricDescription raw,
                                                            const std::string& field) {
  PARPLAN_RETURN_IF_ERROR(RequireName(raw.fabric_id, field + ".fabric_id"));
  PARPLAN_RETURN_IF_ERROR(CheckLink(raw.intra_node, field + ".intra_node"));
  PARPLAN_RETURN_IF_ERROR(CheckLink(raw.inter_node, field + ".inter_node"));
  return raw;
}

}  // namespace parplan
