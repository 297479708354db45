#include "profiler-agent/probe/link_probe_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"

namespace parplan {
namespace {

using agent::v1::CollectiveKey;
using agent::v1::ProbePlan;

// Fields of a plan that measures links for another node. All others are refused, those that later
// releases add too: some have this node start programs.
constexpr int kLinkFields[] = {
    ProbePlan::kBackendFieldNumber,
    ProbePlan::kRankCountFieldNumber,
    ProbePlan::kCollectivesFieldNumber,
    ProbePlan::kTimeBudgetFieldNumber,
    ProbePlan::kCollectiveTimeLimitFieldNumber,
    ProbePlan::kLayerTimeLimitFieldNumber,
    ProbePlan::kPrecisionFieldNumber,
    ProbePlan::kDevicesPerNodeFieldNumber,
};

// INVALID_ARGUMENT (SPEC_INVALID) for a plan with any other field.
absl::Status CheckOnlyCollectives(const ProbePlan& plan) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  plan.GetReflection()->ListFields(plan, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (std::find(std::begin(kLinkFields), std::end(kLinkFields), field->number()) ==
        std::end(kLinkFields)) {
      return FieldError(Reason::kSpecInvalid, field->name(),
                        "must be absent: only collectives are measured for another node");
    }
  }
  if (!plan.GetReflection()->GetUnknownFields(plan).empty()) {
    return FieldError(Reason::kSpecInvalid, "task",
                      "has fields that this agent does not know; install the same release on all "
                      "nodes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ProbePlan> LinkProbePlan(const ProbeRequest& request, int node_count) {
  if (node_count < 2)
    return FieldError(Reason::kSpecInvalid, "nodes", "must be at least 2 to measure links");
  ProbeRequest together = request;
  together.rank_count = request.rank_count * node_count;
  together.models.clear();
  PARPLAN_ASSIGN_OR_RETURN(const ProbePlan whole, WholeProbe(together));
  ProbePlan plan = whole;
  plan.set_devices_per_node(request.rank_count);
  plan.set_measures_overlap(false);
  plan.set_measures_context_memory(false);
  plan.set_measures_copies(false);
  plan.clear_collectives();
  for (const CollectiveKey& key : whole.collectives()) {
    // Groups start at multiples of this length, so a group lies within a node if it divides the
    // node.
    const int length = key.participant_count() * key.rank_stride();
    const bool is_within = length <= request.rank_count && request.rank_count % length == 0;
    if (!is_within) *plan.add_collectives() = key;
  }
  return plan;
}

absl::Status CheckLinkProbe(const ProbePlan& plan, const LinkProbeBounds& bounds) {
  const auto refuse = [](absl::string_view field, absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, field, rule);
  };
  if (plan.backend() != bounds.backend) {
    return refuse("backend", absl::StrCat("must be `", bounds.backend, "`, as on this node"));
  }
  if (plan.devices_per_node() != bounds.devices_per_node) {
    return refuse("devices_per_node",
                  absl::StrCat("must be ", bounds.devices_per_node, ", as on this node"));
  }
  const int64_t rank_count = int64_t{bounds.devices_per_node} * bounds.node_count;
  if (plan.rank_count() != rank_count) {
    return refuse("rank_count", absl::StrCat("must be ", rank_count, ", as on ", bounds.node_count,
                                             " such nodes"));
  }
  PARPLAN_RETURN_IF_ERROR(CheckOnlyCollectives(plan));
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration budget,
                           DurationFromProto(plan.time_budget(), "time_budget"));
  PARPLAN_ASSIGN_OR_RETURN(
      const absl::Duration collective_limit,
      DurationFromProto(plan.collective_time_limit(), "collective_time_limit"));
  for (const auto& [field, duration] :
       {std::pair("time_budget", budget), std::pair("collective_time_limit", collective_limit)}) {
    if (duration <= absl::ZeroDuration() || duration > bounds.max_time_budget) {
      return refuse(field, absl::StrCat("must be above 0 and at most ",
                                        absl::FormatDuration(bounds.max_time_budget)));
    }
  }
  PARPLAN_RETURN_IF_ERROR(DurationFromProto(plan.layer_time_limit(), "layer_time_limit").status());
  // Also false for NaN.
  if (!(plan.precision() >= 0.0 && plan.precision() <= 1.0)) {
    return refuse("precision", "must be 0 to 1");
  }
  for (int i = 0; i < plan.collectives_size(); ++i) {
    const CollectiveKey& key = plan.collectives(i);
    const auto at = [i](const char* name) { return absl::StrCat("collectives[", i, "].", name); };
    PARPLAN_RETURN_IF_ERROR(
        EnumFromProto<Collective>(key.collective(), at("collective"), Reason::kSpecInvalid)
            .status());
    const int64_t length = int64_t{key.participant_count()} * key.rank_stride();
    if (key.participant_count() < 2 || key.rank_stride() < 1 || length > rank_count ||
        rank_count % length != 0) {
      return refuse(at("participant_count"),
                    absl::StrCat("and `rank_stride` must form groups of ", rank_count, " ranks"));
    }
    if (key.message_size_bytes() < 1 || key.message_size_bytes() > bounds.max_message_bytes) {
      return refuse(at("message_size_bytes"),
                    absl::StrCat("must be 1 to ", bounds.max_message_bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace parplan
