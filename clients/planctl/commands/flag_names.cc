#include "clients/planctl/commands/flag_names.h"

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/unreachable.h"

namespace parplan::planctl {
namespace {

struct FieldFlag {
  absl::string_view field;
  absl::string_view flag;
};

constexpr FieldFlag kOptionFlags[] = {
    {"planner", "--planner"},
    {"memory_headroom_ratio", "--headroom"},
    {"out_of_memory_probability", "--risk"},
    {"runtime_id", "--runtime"},
    {"max_tensor_parallel_degree", "--max-tensor-parallel"},
    {"max_pipeline_parallel_degree", "--max-pipeline-parallel"},
    {"micro_batch_count", "--micro-batches"},
    {"schedule", "--schedule"},
    {"space", "--space"},
    {"target", "--target"},
    {"smallest_global_batch_size", "--batch-from"},
    {"global_batch_size_step", "--batch-step"},
    {"top_plan_count", "--top"},
    {"wants_memory_front", "--front"},
    {"wants_robust_plan", "--robust"},
    {"ilp_alpha_bytes_per_second", "--ilp-alpha"},
    {"partitioner", "--partitioner"},
    {"memory_granule_bytes", "--memory-granule"},
    {"fused_layer_count", "--fuse-layers"},
    {"search_time_limit", "--time-limit"},
    {"max_state_count", "--max-states"},
    {"wanted_gap_ratio", "--gap"},
};

constexpr FieldFlag kMoneyFlags[] = {
    {"devices", "--price"},
    {"price_per_device_hour", "--price"},
    {"power_watts", "--power"},
    {"idle_power_watts", "--idle-power"},
    {"step_count", "--steps, --samples, --tokens"},
    {"sample_count", "--steps, --samples, --tokens"},
    {"token_count", "--steps, --samples, --tokens"},
    {"deadline_duration", "--deadline-hours"},
    {"budget", "--budget"},
    {"spare_node_count", "--spare-nodes"},
    {"wants_energy", "--energy"},
};

// Returns what follows the last dot of a path.
absl::string_view LastName(absl::string_view path) { return path.substr(path.rfind('.') + 1); }

// Returns whether the path leads through a message called `name`.
bool LeadsThrough(absl::string_view path, absl::string_view name) {
  const std::string step = absl::StrCat(name, ".");
  return absl::StartsWith(path, step) || absl::StrContains(path, absl::StrCat(".", step));
}

// Returns the flag of a field, or nothing if it has none.
absl::string_view FlagOf(absl::string_view path) {
  const auto find = [name = LastName(path)](const auto& flags) {
    for (const FieldFlag& flag : flags) {
      if (flag.field == name) return flag.flag;
    }
    return absl::string_view();
  };
  if (LeadsThrough(path, "options")) return find(kOptionFlags);
  if (LeadsThrough(path, "money")) return find(kMoneyFlags);
  return {};
}

// Returns whether a connection was made and ended before the call was answered, which is what a
// server with TLS does to a client without, and one that asks for certificates to one without any.
// The beginning of gRPC's message is the only sign of it (gRPC 1.51).
bool IsOfDroppedConnection(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable && !GetErrorDetail(status).has_value() &&
         !IsUnreachable(status) &&
         (absl::StrContains(status.message(), "connections to all backends failing") ||
          absl::StrContains(status.message(), "failed to connect to all addresses"));
}

}  // namespace

absl::Status NameFlags(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (IsOfDroppedConnection(status)) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(),
                     "; something answers there, but not as a server does for these flags: does it "
                     "speak TLS (--tls, --tls-ca), and ask for a certificate (--tls-certificate, "
                     "--tls-key)?"));
  }
  if (!detail.has_value()) return status;
  absl::string_view flag;
  if (detail->reason == Reason::kProfileMissing) {
    if (absl::StrContains(status.message(), "allow_estimates")) flag = "--allow-estimates";
  } else if (const auto field = detail->metadata.find("field"); field != detail->metadata.end()) {
    flag = FlagOf(field->second);
  }
  if (flag.empty()) return status;
  absl::Status named = MakeError(status.code(), detail->reason,
                                 absl::StrCat(status.message(), " (", flag, ")"), detail->metadata);
  const std::optional<absl::Duration> delay = GetRetryDelay(status);
  return delay.has_value() ? WithRetryDelay(named, *delay) : named;
}

}  // namespace parplan::planctl
