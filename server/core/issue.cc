#include "server/core/issue.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/version.h"
#include "server/core/id_length.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

Seconds ToSeconds(absl::Duration duration) { return Seconds::Of(absl::ToDoubleSeconds(duration)); }

// Returns how many times faster the plan is than the best of the others it was compared with.
std::optional<double> GainOverBaselines(const v1::Plan& plan, const std::string& planner,
                                        Seconds found_step) {
  std::optional<double> best;
  for (const v1::PlannerComparison& comparison : plan.comparisons()) {
    if (comparison.planner() == planner || !comparison.feasible()) continue;
    const google::protobuf::Duration& step = comparison.step_duration();
    const double seconds =
        absl::ToDoubleSeconds(absl::Seconds(step.seconds()) + absl::Nanoseconds(step.nanos()));
    best = std::min(best.value_or(seconds), seconds);
  }
  if (!best.has_value() || !(found_step.value() > 0.0)) return std::nullopt;
  return *best / found_step.value();
}

// Sets everything that does not come from the planner.
void Bind(const PlanQuestion& question, const std::string& name, absl::Time issue_time,
          UnsignedAnswer& answer) {
  v1::PlanPayload& payload = answer.payload;
  payload.set_plan(name);
  payload.set_cluster(question.cluster);
  payload.set_job_id(question.job_id);
  payload.clear_generation();
  payload.clear_supersedes();
  payload.clear_node_names();
  for (const std::string& node_name : question.problem.topology().NodeNames()) {
    payload.add_node_names(node_name);
  }
  payload.set_topology_digest(question.topology_digest);
  payload.set_profile_digest(question.profile_digest);
  payload.set_model_digest(question.model_digest);
  payload.set_hardware_digest(question.hardware_digest);
  payload.set_calibration_digest(question.calibration_digest);
  payload.set_runtime_id(question.options.rules.runtime.runtime_id);
  payload.set_planner_version(kVersion);
  payload.set_planner(question.options.planner);
  *payload.mutable_issue_time() = TimestampToProto(issue_time);
  *payload.mutable_expire_time() = TimestampToProto(issue_time + question.time_to_live);
  answer.plan.set_name(name);
  *answer.plan.mutable_spec() = question.spec;
  *answer.plan.mutable_create_time() = payload.issue_time();
  *answer.plan.mutable_expire_time() = payload.expire_time();
}

}  // namespace

std::string StoredPlanKey(const PlanQuestion& question, bool is_complete) {
  if (is_complete) return question.binding_key;
  return Sha256Hex(
      absl::StrCat("parplan limited 1\n", question.binding_key, "\n", question.flight_key));
}

std::string NewPlanId(absl::string_view plan_key, absl::Time issue_time) {
  return Sha256Hex(
             absl::StrCat("parplan plan id 1\n", plan_key, "\n", absl::ToUnixNanos(issue_time)))
      .substr(0, kIdLength);
}

std::string StoredAnswerKey(const PlanQuestion& question) {
  return Sha256Hex(absl::StrCat("parplan answer 1\n", question.answer_key));
}

UnsignedAnswer NewAnswer(const PlanQuestion& question, const SearchedPlan& searched,
                         const std::string& name, absl::Time issue_time) {
  const PlanFound& found = searched.found;
  const ModelSpec& model = question.problem.model();
  UnsignedAnswer answer;
  Bind(question, name, issue_time, answer);
  // The clocks of the search are not signed: they differ from run to run.
  FillPayload(found.plan, found.prediction, found.search, model, &answer.payload);
  FillRecomputePolicy(question.options.rules.runtime.selective_recompute, &answer.payload);
  v1::Plan& plan = answer.plan;
  *plan.mutable_search() = SearchSummaryToProto(found.search, ToSeconds(searched.cpu_duration),
                                                ToSeconds(searched.wall_duration));
  plan.mutable_comparisons()->Add(searched.comparisons.begin(), searched.comparisons.end());
  for (const PredictedPlan& rival : found.alternatives) {
    *plan.add_alternatives() = RivalPlanToProto(rival, model);
  }
  for (const PredictedPlan& rival : found.memory_front) {
    *plan.add_memory_front() = RivalPlanToProto(rival, model);
  }
  plan.mutable_notes()->Add(found.notes.begin(), found.notes.end());
  return answer;
}

absl::StatusOr<UnsignedAnswer> AnswerAgain(const PlanQuestion& question, const v1::Plan& issued,
                                           const std::string& name, absl::Time issue_time) {
  UnsignedAnswer answer;
  PARPLAN_ASSIGN_OR_RETURN(
      answer.payload, ParseStored<v1::PlanPayload>(issued.signed_plan().payload(), issued.name()));
  answer.plan = issued;
  answer.plan.clear_signed_plan();
  answer.plan.clear_from_cache();
  Bind(question, name, issue_time, answer);
  return answer;
}

bool Answers(const v1::Plan& issued, const PlanQuestion& question) {
  v1::PlanPayload payload;
  return payload.ParseFromString(issued.signed_plan().payload()) &&
         payload.model_digest() == question.model_digest &&
         payload.topology_digest() == question.topology_digest &&
         payload.profile_digest() == question.profile_digest &&
         payload.hardware_digest() == question.hardware_digest &&
         payload.calibration_digest() == question.calibration_digest &&
         payload.runtime_id() == question.options.rules.runtime.runtime_id &&
         payload.planner() == question.options.planner && payload.planner_version() == kVersion &&
         question.problem.AllowsGlobalBatchSize(payload.global_batch_size()) &&
         issued.spec().global_batch_size() == question.spec.global_batch_size();
}

absl::Status Succeed(const PlanRecord& predecessor, v1::PlanPayload& payload) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::Plan plan, ParseStoredPlan(predecessor));
  PARPLAN_ASSIGN_OR_RETURN(
      const v1::PlanPayload before,
      ParseStored<v1::PlanPayload>(plan.signed_plan().payload(), predecessor.name));
  payload.set_generation(std::max(payload.generation(), before.generation() + 1));
  if (before.model_digest() == payload.model_digest() &&
      before.global_batch_size() == payload.global_batch_size()) {
    payload.set_supersedes(predecessor.name);
  }
  return absl::OkStatus();
}

PlanReport ReportOf(const PlanQuestion& question, const v1::Plan& plan,
                    const v1::PlanPayload& payload, absl::Time now) {
  PlanReport report;
  report.planner = question.options.planner;
  const v1::Prediction& prediction = payload.prediction();
  report.predicted_step =
      Seconds::Of(static_cast<double>(prediction.step_duration().seconds()) +
                  1e-9 * static_cast<double>(prediction.step_duration().nanos()));
  report.predicted_samples_per_second = prediction.samples_per_second();
  report.predicted_peak_memory = Bytes::Of(prediction.peak_memory_bytes());
  report.usable_memory = Bytes::Of(prediction.usable_memory_bytes());
  if (question.newest_measurement != absl::InfinitePast()) {
    report.profile_age = std::max(absl::ZeroDuration(), now - question.newest_measurement);
  }
  report.baseline_gain = GainOverBaselines(plan, report.planner, report.predicted_step);
  return report;
}

}  // namespace parplan
