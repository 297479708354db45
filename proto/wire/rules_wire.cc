#include "proto/wire/rules_wire.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

// Enumerators of both sides have the same values, and the table of traits has a row for each.
static_assert(v1::Schedule_MAX == kScheduleCount);

constexpr size_t kMaxPlannerNameSize = 63;

struct NamedNumber {
  int64_t value = 0;
  absl::string_view name;
};

// Refuses the first number below 0.
absl::Status CheckNotNegative(absl::Span<const NamedNumber> numbers, absl::string_view field) {
  for (const NamedNumber& number : numbers) {
    if (number.value >= 0) continue;
    return FieldError(Reason::kSpecInvalid, JoinPath(field, number.name), "must not be negative");
  }
  return absl::OkStatus();
}

// Returns the names of the rows of a table, with commas between them.
template <typename Row, typename Name>
std::string NamesOfRows(absl::Span<const Row> rows, Name Row::*name) {
  return absl::StrJoin(
      rows, ", ", [name](std::string* out, const Row& row) { absl::StrAppend(out, row.*name); });
}

}  // namespace

absl::StatusOr<Schedule> ScheduleFromProto(v1::Schedule schedule, absl::string_view field) {
  if (schedule == v1::SCHEDULE_UNSPECIFIED) return kDefaultSchedule;
  return EnumFromProto<Schedule>(schedule, field, Reason::kSpecInvalid);
}

v1::Schedule ScheduleToProto(Schedule schedule) { return static_cast<v1::Schedule>(schedule); }

absl::StatusOr<PlanningOptions> OptionsFromProto(const v1::PlanningOptions& message,
                                                 absl::string_view field) {
  PlanningOptions options;
  if (!message.planner().empty()) options.planner = message.planner();
  if (options.planner.size() > kMaxPlannerNameSize) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, "planner"),
                      absl::StrCat("at most ", kMaxPlannerNameSize, " characters"));
  }
  PlanningRules& rules = options.rules;
  if (message.has_memory_headroom_ratio()) {
    rules.memory_headroom_ratio = message.memory_headroom_ratio();
  }
  if (!(rules.memory_headroom_ratio >= 0 && rules.memory_headroom_ratio < 1)) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, "memory_headroom_ratio"),
                      "must be at least 0 and below 1");
  }
  if (rules.memory_headroom_ratio == 0) rules.memory_headroom_ratio = 0;  // -0 is the same rule.
  PARPLAN_RETURN_IF_ERROR(
      CheckNotNegative({{message.max_tensor_parallel_degree(), "max_tensor_parallel_degree"},
                        {message.max_pipeline_parallel_degree(), "max_pipeline_parallel_degree"},
                        {message.micro_batch_count(), "micro_batch_count"},
                        {message.max_state_count(), "max_state_count"},
                        {message.smallest_global_batch_size(), "smallest_global_batch_size"},
                        {message.global_batch_size_step(), "global_batch_size_step"},
                        {message.top_plan_count(), "top_plan_count"},
                        {message.memory_granule_bytes(), "memory_granule_bytes"},
                        {message.fused_layer_count(), "fused_layer_count"}},
                       field));
  rules.max_tensor_parallel_degree = message.max_tensor_parallel_degree();
  rules.max_pipeline_parallel_degree = message.max_pipeline_parallel_degree();
  rules.micro_batch_count = message.micro_batch_count();
  if (message.schedule() != v1::SCHEDULE_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(rules.schedule,
                             ScheduleFromProto(message.schedule(), JoinPath(field, "schedule")));
  }
  rules.allow_recompute = !message.disable_recompute();
  rules.allow_sharded_data_parallel = !message.disable_sharded_data_parallel();
  rules.allow_estimates = message.allow_estimates();
  if (message.has_out_of_memory_probability()) {
    rules.out_of_memory_risk = message.out_of_memory_probability();
  }
  if (!(rules.out_of_memory_risk > 0 && rules.out_of_memory_risk <= 0.5)) {
    return FieldError(Reason::kSpecInvalid, JoinPath(field, "out_of_memory_probability"),
                      "must be above 0 and at most 0.5");
  }
  if (!message.space().empty()) {
    PARPLAN_ASSIGN_OR_RETURN(rules.dimensions,
                             DimensionSet::Parse(message.space(), JoinPath(field, "space")));
  }
  std::string runtime_id = message.runtime_id();
  if (!message.target().empty()) {
    const TargetLimits* const target = FindTarget(message.target());
    if (target == nullptr) {
      return FieldError(
          Reason::kSpecInvalid, JoinPath(field, "target"),
          absl::StrCat("must be one of ", NamesOfRows(KnownTargets(), &TargetLimits::name)));
    }
    rules.target = target->target;
    // The program that runs the plan also takes its time.
    if (runtime_id.empty()) runtime_id = std::string(target->runtime_id);
  }
  if (!runtime_id.empty()) {
    const RuntimeTraits* const runtime = FindRuntime(runtime_id);
    if (runtime == nullptr) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "runtime_id"),
                        absl::StrCat("must be one of ",
                                     NamesOfRows(KnownRuntimes(), &RuntimeTraits::runtime_id)));
    }
    rules.runtime = *runtime;
  }
  rules.smallest_global_batch_size = message.smallest_global_batch_size();
  if (message.global_batch_size_step() > 0) {
    rules.global_batch_size_step = message.global_batch_size_step();
  }
  if (message.top_plan_count() > 0) rules.top_plan_count = message.top_plan_count();
  rules.wants_memory_front = message.wants_memory_front();
  if (message.has_ilp_alpha_bytes_per_second()) {
    double alpha = message.ilp_alpha_bytes_per_second();
    if (!(std::isfinite(alpha) && alpha >= 0.0)) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "ilp_alpha_bytes_per_second"),
                        "must be finite and at least 0");
    }
    if (alpha == 0.0) alpha = 0.0;  // -0 is the same rule.
    rules.ilp_alpha_bytes_per_second = alpha;
  }
  if (!message.partitioner().empty()) {
    const std::optional<Partitioner> partitioner = FindPartitioner(message.partitioner());
    if (!partitioner.has_value()) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "partitioner"),
                        absl::StrCat("must be one of ", PartitionerNames()));
    }
    rules.partitioner = *partitioner;
  }
  if (message.memory_granule_bytes() > 0) {
    rules.memory_granule = Bytes::Of(message.memory_granule_bytes());
  }
  if (message.fused_layer_count() > 0) rules.fused_layer_count = message.fused_layer_count();
  options.max_state_count = message.max_state_count();
  options.compare_baselines = message.compare_baselines();
  if (message.wants_robust_plan()) {
    if (options.planner != kDefaultPlanner) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "wants_robust_plan"),
                        "needs planner `exact`, which gives several plans by their time");
    }
    if (rules.wants_memory_front) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "wants_robust_plan"),
                        "cannot be combined with wants_memory_front, whose first plan is the "
                        "fastest; ask for one of them");
    }
    options.wants_robust_plan = true;
    // The fastest plan stays beside the robust one.
    options.robust_alternative_count = std::max(rules.top_plan_count - 1, 1);
    if (rules.top_plan_count == 1) rules.top_plan_count = kRobustPlanCount;
  }
  if (message.has_wanted_gap_ratio()) {
    if (!(message.wanted_gap_ratio() >= 0.0 && message.wanted_gap_ratio() <= 1.0)) {
      return FieldError(Reason::kSpecInvalid, JoinPath(field, "wanted_gap_ratio"),
                        "must be from 0 to 1");
    }
    options.wanted_gap_ratio = message.wanted_gap_ratio() + 0.0;  // -0 is the same gap.
  }
  if (message.has_search_time_limit()) {
    const std::string path = JoinPath(field, "search_time_limit");
    PARPLAN_ASSIGN_OR_RETURN(options.search_time_limit,
                             DurationFromProto(message.search_time_limit(), path));
    if (*options.search_time_limit <= absl::ZeroDuration()) {
      return FieldError(Reason::kSpecInvalid, path,
                        "must be above 0; leave it out for the server's limit");
    }
  }
  return options;
}

}  // namespace parplan
