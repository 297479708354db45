#include "server/core/issue.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/version.h"
#include "server/core/id_length.h"

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

// Sets everything in a payload that does not come from the planner.
void Bind(const PlanQuestion& question, const std::string& name, absl::Time issue_time,
          v1::PlanPayload* payload) {
  payload->set_plan(name);
  payload->set_cluster(question.cluster);
  payload->set_job_id(question.job_id);
  payload->clear_node_names();
  for (const std::string& node_name : question.problem.topology().NodeNames()) {
    payload->add_node_names(node_name);
  }
  payload->set_topology_digest(question.topology_digest);
  payload->set_profile_digest(question.profile_digest);
  payload->set_model_digest(question.model_digest);
  payload->set_hardware_digest(question.hardware_digest);
  payload->set_calibration_digest(question.calibration_digest);
  payload->set_runtime_id(question.options.rules.runtime.runtime_id);
  payload->set_planner_version(kVersion);
  payload->set_planner(question.options.planner);
  *payload->mutable_issue_time() = TimestampToProto(issue_time);
  *payload->mutable_expire_time() = TimestampToProto(issue_time + question.time_to_live);
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

v1::PlanPayload PayloadAgain(const PlanQuestion& question, v1::PlanPayload issued,
                             const std::string& name, absl::Time issue_time) {
  v1::PlanPayload payload = std::move(issued);
  Bind(question, name, issue_time, &payload);
  return payload;
}

v1::Plan UnsignedPlanAgain(const PlanQuestion& question, v1::Plan issued, const std::string& name,
                           absl::Time issue_time) {
  v1::Plan plan = std::move(issued);
  plan.set_name(name);
  *plan.mutable_spec() = question.spec;
  plan.clear_signed_plan();
  plan.clear_from_cache();
  *plan.mutable_create_time() = TimestampToProto(issue_time);
  *plan.mutable_expire_time() = TimestampToProto(issue_time + question.time_to_live);
  return plan;
}

v1::PlanPayload MakePayload(const PlanQuestion& question, const PlanFound& found,
                            const std::string& name, absl::Time issue_time) {
  v1::PlanPayload payload;
  Bind(question, name, issue_time, &payload);
  // The clocks of the search are left out: they differ from run to run.
  FillPayload(found.plan, found.prediction, found.search, question.problem.model(), &payload);
  return payload;
}

v1::Plan UnsignedPlan(const PlanQuestion& question, const SearchedPlan& searched,
                      const std::string& name, absl::Time issue_time) {
  const PlanFound& found = searched.found;
  v1::Plan plan;
  plan.set_name(name);
  *plan.mutable_spec() = question.spec;
  *plan.mutable_search() = SearchSummaryToProto(found.search, ToSeconds(searched.cpu_duration),
                                                ToSeconds(searched.wall_duration));
  plan.mutable_comparisons()->Add(searched.comparisons.begin(), searched.comparisons.end());
  const ModelSpec& model = question.problem.model();
  for (const PredictedPlan& rival : found.alternatives) {
    *plan.add_alternatives() = RivalPlanToProto(rival, model);
  }
  for (const PredictedPlan& rival : found.memory_front) {
    *plan.add_memory_front() = RivalPlanToProto(rival, model);
  }
  plan.mutable_notes()->Add(found.notes.begin(), found.notes.end());
  *plan.mutable_create_time() = TimestampToProto(issue_time);
  *plan.mutable_expire_time() = TimestampToProto(issue_time + question.time_to_live);
  return plan;
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
