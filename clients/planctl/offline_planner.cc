#include "clients/planctl/offline_planner.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "clients/planctl/report/html.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/search/find_plan.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/hardware_wire.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/problem_wire.h"
#include "proto/wire/published_calibration.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"
#include "proto/wire/version.h"

namespace parplan::planctl {
namespace {

// Wall and processor time since it was made.
class Stopwatch {
 public:
  Seconds wall() const {
    return Seconds::Of(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count());
  }
  Seconds cpu() const {
    return Seconds::Of(static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC);
  }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

v1::SearchProgress ProgressToProto(const SearchProgress& progress) {
  v1::SearchProgress message;
  message.set_done_candidate_count(progress.done_candidate_count);
  message.set_total_candidate_count(progress.total_candidate_count);
  *message.mutable_step_duration_bound() = DurationToProto(progress.bound);
  message.set_gap_ratio(1.0);
  if (progress.incumbent.has_value()) {
    *message.mutable_incumbent_step_duration() = DurationToProto(*progress.incumbent);
    message.set_gap_ratio((*progress.incumbent - progress.bound) / *progress.incumbent);
  }
  message.set_expanded_state_count(progress.expanded_state_count);
  return message;
}

// The fields of a payload that say what it was made from. No name, no times:
// nobody issued it.
v1::PlanPayload PayloadOf(const PlanningProblem& problem, const std::string& planner,
                          const Plan& plan, const Prediction& prediction,
                          const SearchSummary& search) {
  v1::PlanPayload payload;
  payload.set_cluster(problem.topology().cluster());
  for (const std::string& node : problem.topology().NodeNames()) payload.add_node_names(node);
  payload.set_topology_digest(TopologyDigest(problem.topology()));
  payload.set_profile_digest(problem.profile().digest());
  payload.set_model_digest(ModelDigest(problem.model()));
  if (problem.hardware() != nullptr) {
    payload.set_hardware_digest(HardwareDigest(*problem.hardware()));
  }
  payload.set_calibration_digest(problem.calibration().content().digest);
  payload.set_runtime_id(problem.rules().runtime.runtime_id);
  payload.set_planner_version(kVersion);
  payload.set_planner(planner);
  FillPayload(plan, prediction, search, problem.model(), &payload);
  return payload;
}

absl::StatusOr<PlanView> ViewOf(const PlanningProblem& problem, const std::string& planner,
                                const Plan& plan, const Prediction& prediction,
                                const SearchSummary& search) {
  PARPLAN_ASSIGN_OR_RETURN(PlanView view,
                           ViewOfPayload(PayloadOf(problem, planner, plan, prediction, search)));
  view.model_id = problem.model().model_id();
  view.devices = absl::StrCat(problem.device_count(), " × ", problem.node_group().device_kind);
  return view;
}

v1::PlannerComparison ComparisonOf(const std::string& planner, const PlanningResult& result) {
  v1::PlannerComparison row;
  row.set_planner(planner);
  if (const auto* found = std::get_if<PlanFound>(&result)) {
    row.set_feasible(true);
    *row.mutable_step_duration() = DurationToProto(found->prediction.step);
    row.set_samples_per_second(found->prediction.samples_per_second);
    row.set_peak_memory_bytes(found->prediction.peak_memory.count());
    row.set_gist(PlanGist(found->plan));
  } else if (const auto* nothing = std::get_if<NothingFits>(&result)) {
    row.set_smallest_device_memory_bytes(nothing->smallest_device_memory.count());
  }
  return row;
}

bool IsProfileMissing(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == Reason::kProfileMissing;
}

// A rival without any plan of its kind (pure tensor parallelism over more devices
// than heads) is a row too, not the end of the comparison.
absl::StatusOr<v1::PlannerComparison> Compare(const PlanningProblem& problem,
                                              const std::string& planner) {
  const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner);
  if (result.ok()) return ComparisonOf(planner, *result);
  const std::optional<ErrorDetail> detail = GetErrorDetail(result.status());
  if (!detail.has_value() || detail->reason != Reason::kNoFeasiblePlan) return result.status();
  v1::PlannerComparison row;
  row.set_planner(planner);
  return row;
}

// The problem of `spec` under `rules`, which stand in the place of its own.
absl::StatusOr<PlanningProblem> ProblemUnder(
    PlanningRules rules, const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology, TopologyFromProto(spec.topology(), "topology"));
  if (topology.node_groups().size() != 1) {
    return FieldError(Reason::kSpecInvalid, "topology.node_groups",
                      "must have exactly one group; plan for each kind of node by itself");
  }
  Knowledge knowledge;
  PARPLAN_ASSIGN_OR_RETURN(knowledge.hardware, KnownHardware(topology));
  knowledge.calibration = calibration != nullptr ? calibration : PublishedCalibration();
  const NodeGroup& group = topology.node_groups().front();
  if (profiles.empty()) {
    if (knowledge.hardware == nullptr) {
      return FieldError(
          Reason::kSpecInvalid, "--profile",
          absl::StrCat("is needed: no data sheet is known of `", group.device_kind,
                       "` to estimate from; name a profile file, or one of the devices of "
                       "`planctl hardware list` in the cluster file"));
    }
    rules.allow_estimates = true;
    return ProblemWithRules(spec, rules, std::move(knowledge));
  }
  const bool can_estimate = rules.allow_estimates && knowledge.hardware != nullptr;
  std::vector<const v1::Profile*> newest_first;
  for (const v1::Profile& profile : profiles) newest_first.push_back(&profile);
  absl::StatusOr<ProfileSnapshot> snapshot =
      SnapshotOfNodes(newest_first, group.device_kind, group.devices_per_node);
  if (snapshot.ok()) {
    knowledge.profile = std::make_shared<const ProfileSnapshot>(*std::move(snapshot));
  } else if (!can_estimate || !IsProfileMissing(snapshot.status())) {
    return snapshot.status();
  }
  return ProblemWithRules(spec, rules, std::move(knowledge));
}

int LargestTensorParallelDegree(const Plan& plan) {
  int degree = 1;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      degree = std::max(degree, run.strategy.tensor_parallel_degree);
    }
  }
  return degree;
}

// The rules of `options` as far as they leave open what `plan` does.
absl::StatusOr<PlanningRules> RulesOfPlan(v1::PlanningOptions options, const Plan& plan,
                                          int devices_per_node) {
  options.clear_schedule();
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions read, OptionsFromProto(options));
  PlanningRules rules = read.rules;
  rules.schedule = plan.schedule;
  if (rules.max_tensor_parallel_degree == 0) {
    rules.max_tensor_parallel_degree =
        std::max(devices_per_node, LargestTensorParallelDegree(plan));
  }
  if (rules.micro_batch_count != 0 && rules.micro_batch_count != plan.micro_batch_count) {
    return FieldError(Reason::kSpecInvalid, "--micro-batches",
                      absl::StrCat("is ", rules.micro_batch_count, ", and the plan has ",
                                   plan.micro_batch_count, "; leave the flag out"));
  }
  return rules;
}

// What a plan that somebody gave does wrong, as their mistake.
absl::Status NoPlanOfThese(const absl::Status& broken) {
  std::string fact(broken.message());
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(broken); detail.has_value()) {
    const auto found = detail->metadata.find("fact");
    if (found != detail->metadata.end()) fact = found->second;
  }
  return FieldError(Reason::kSpecInvalid, "plan",
                    absl::StrCat("is none for this model, cluster and flags: ", fact));
}

}  // namespace

absl::StatusOr<PlanningProblem> OfflineProblem(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(spec.options()));
  return ProblemUnder(options.rules, spec, profiles, calibration);
}

absl::StatusOr<PlanView> PlanOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration,
    const std::function<void(const v1::SearchProgress&)>& on_progress) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(spec.options()));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           OfflineProblem(spec, profiles, calibration));
  const Stopwatch stopwatch;
  SearchControl control;
  control.max_state_count = options.max_state_count;
  if (options.search_time_limit.has_value()) {
    const Seconds limit = Seconds::Of(absl::ToDoubleSeconds(*options.search_time_limit));
    control.should_stop = [&stopwatch, limit] { return stopwatch.wall() >= limit; };
  }
  if (on_progress) {
    control.on_progress = [&on_progress](const SearchProgress& progress) {
      on_progress(ProgressToProto(progress));
    };
  }
  PARPLAN_ASSIGN_OR_RETURN(const PlanningResult result,
                           FindPlan(problem, options.planner, control));
  const Seconds wall = stopwatch.wall();
  const Seconds cpu = stopwatch.cpu();
  if (const auto* nothing = std::get_if<NothingFits>(&result)) {
    const Bytes smallest = nothing->smallest_device_memory;
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
        absl::StrCat("no plan of `", options.planner, "` fits in ",
                     report::Size(problem.usable_memory()), " usable per device; devices with ",
                     report::Size(smallest), " (", smallest.count(),
                     " bytes) would do. Use more devices, a smaller batch, or another planner"),
        {{"smallestDeviceMemoryBytes", absl::StrCat(smallest.count())},
         {"usableMemoryBytes", absl::StrCat(problem.usable_memory().count())}});
  }
  if (std::holds_alternative<StoppedEmpty>(result)) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                     "the limit ended the search before any plan was found; raise --time-limit "
                     "or --max-states");
  }
  const PlanFound& found = std::get<PlanFound>(result);
  PARPLAN_RETURN_IF_ERROR(CheckPlan(problem, found.plan, found.prediction));
  PARPLAN_ASSIGN_OR_RETURN(
      PlanView view, ViewOf(problem, options.planner, found.plan, found.prediction, found.search));
  *view.payload.mutable_search() = SearchSummaryToProto(found.search, cpu, wall);
  view.cpu_seconds = cpu.value();
  view.wall_seconds = wall.value();
  if (options.compare_baselines) {
    for (const std::string& name : PlannerNames()) {
      if (name == options.planner) {
        view.comparisons.push_back(ComparisonOf(name, result));
      } else if (absl::c_linear_search(BaselineNames(), name)) {
        PARPLAN_ASSIGN_OR_RETURN(v1::PlannerComparison row, Compare(problem, name));
        view.comparisons.push_back(std::move(row));
      }
    }
  }
  return view;
}

absl::StatusOr<PlanView> EvaluateOffline(const v1::PlanSpec& spec,
                                         const std::vector<v1::Profile>& profiles, const Plan& plan,
                                         const std::shared_ptr<const Calibration>& calibration) {
  v1::PlanSpec question = spec;
  if (question.global_batch_size() == 0) question.set_global_batch_size(plan.global_batch_size);
  if (question.global_batch_size() != plan.global_batch_size) {
    return FieldError(
        Reason::kSpecInvalid, "--batch",
        absl::StrCat("is ", question.global_batch_size(), ", and the plan is for ",
                     plan.global_batch_size, " samples a step; leave the flag out, or plan anew"));
  }
  const int devices_per_node =
      spec.topology().node_groups().empty() ? 1 : spec.topology().node_groups(0).devices_per_node();
  PARPLAN_ASSIGN_OR_RETURN(const PlanningRules rules,
                           RulesOfPlan(spec.options(), plan, devices_per_node));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           ProblemUnder(rules, question, profiles, calibration));
  if (const absl::Status broken = CheckPlanStructure(problem, plan); !broken.ok()) {
    return NoPlanOfThese(broken);
  }
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  SearchSummary none;
  none.limit = SearchLimit::kMethod;
  return ViewOf(problem, kGivenPlanner, plan, PredictPlan(problem, costs, plan), none);
}

absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           OfflineProblem(spec, profiles, calibration));
  std::vector<v1::PlannerComparison> rows;
  for (const std::string& name : PlannerNames()) {
    PARPLAN_ASSIGN_OR_RETURN(v1::PlannerComparison row, Compare(problem, name));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace parplan::planctl
