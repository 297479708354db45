#include "clients/planctl/offline/offline_planner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/clock.h"
#include "exports/exporters.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "planner/worth/robust_plan.h"
#include "proto/wire/digest.h"
#include "proto/wire/hardware_wire.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/plan_wire.h"
#include "proto/wire/problem_wire.h"
#include "proto/wire/published_calibration.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/version.h"
#include "solve/compare_planners.h"
#include "solve/run_search.h"

namespace parplan::planctl {
namespace {

// Returns the payload of a plan that was not issued: without name and times.
v1::PlanPayload PayloadOf(const PlanningProblem& problem, const std::string& planner,
                          const Plan& plan, const Prediction& prediction,
                          const SearchSummary& search) {
  v1::PlanPayload payload;
  payload.set_cluster(problem.topology().cluster());
  for (const std::string& node : problem.topology().NodeNames()) payload.add_node_names(node);
  payload.set_topology_digest(TopologyDigest(problem.topology()));
  payload.set_profile_digest(problem.profile(kFirstGroup).digest());
  payload.set_model_digest(ModelDigest(problem.model()));
  if (const Hardware* const hardware = problem.hardware(kFirstGroup); hardware != nullptr) {
    payload.set_hardware_digest(HardwareDigest(*hardware));
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
  view.devices =
      absl::StrCat(problem.device_count(), " × ", problem.node_group(kFirstGroup).device_kind);
  return view;
}

bool IsProfileMissing(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == Reason::kProfileMissing;
}

// Searches as `SearchHere`, without the clocks.
SearchFunction SearchUnder(const PlanningOptions& options, const SearchWatch& watch) {
  return [&options, &watch](const PlanningProblem& problem,
                            const std::string& planner) -> absl::StatusOr<PlanningResult> {
    PARPLAN_ASSIGN_OR_RETURN(LocalSearch search, SearchHere(problem, planner, options, watch));
    return std::move(search.result);
  };
}

// Returns the problem of `asked` with what is known of its devices (offline_planner.h).
absl::StatusOr<PlanningProblem> ProblemOf(AskedPlan asked, const std::vector<v1::Profile>& profiles,
                                          const std::shared_ptr<const Calibration>& calibration) {
  const Topology& topology = *asked.topology;
  PlanningRules& rules = asked.options.rules;
  if (topology.node_groups().size() != 1) {
    return FieldError(Reason::kSpecInvalid, "topology.node_groups",
                      "must have exactly one group; plan for each kind of node by itself");
  }
  GroupKnowledge known;
  PARPLAN_ASSIGN_OR_RETURN(known.hardware, KnownHardware(topology));
  Knowledge knowledge;
  knowledge.calibration = calibration != nullptr ? calibration : PublishedCalibration();
  const NodeGroup& group = topology.node_groups().front();
  if (profiles.empty()) {
    if (known.hardware == nullptr) {
      return FieldError(
          Reason::kSpecInvalid, "--profile",
          absl::StrCat("is needed: no data sheet is known of `", group.device_kind,
                       "` to estimate from; name a profile file, or one of the devices of "
                       "`planctl hardware list` in the cluster file"));
    }
    rules.allow_estimates = true;
    knowledge.groups = {std::move(known)};
    return ProblemFor(asked, std::move(knowledge));
  }
  const bool can_estimate = rules.allow_estimates && known.hardware != nullptr;
  std::vector<const v1::Profile*> newest_first;
  for (const v1::Profile& profile : profiles) newest_first.push_back(&profile);
  absl::StatusOr<ProfileSnapshot> snapshot = SnapshotOfNodes(
      newest_first, group.device_kind, group.devices_per_node, rules.runtime.runtime_id);
  if (snapshot.ok()) {
    known.profile = std::make_shared<const ProfileSnapshot>(*std::move(snapshot));
  } else if (!can_estimate || !IsProfileMissing(snapshot.status())) {
    return snapshot.status();
  }
  knowledge.groups = {std::move(known)};
  return ProblemFor(asked, std::move(knowledge));
}

// Returns the question of `spec`, for a model of which its target runs some plan.
absl::StatusOr<AskedPlan> AskedSearch(const v1::PlanSpec& spec) {
  PARPLAN_ASSIGN_OR_RETURN(AskedPlan asked, AskedPlanFromProto(spec));
  PARPLAN_RETURN_IF_ERROR(CheckModelOfTarget(asked.options.rules.target, *asked.model));
  return asked;
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

// Returns `asked`, with what it leaves open set to what `plan` does.
absl::StatusOr<PlanningRules> RulesOfPlan(const PlanningRules& asked, const Plan& plan,
                                          int devices_per_node) {
  PlanningRules rules = RulesForOnePlan(asked, /*planner=*/"");
  rules.schedule = plan.schedule;
  rules.dimensions = DimensionSet::All();
  rules.target = Target::kParplan;
  rules.smallest_global_batch_size = 0;
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

// Returns `broken`, a failed check of a given plan, as a mistake in that plan.
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
  PARPLAN_ASSIGN_OR_RETURN(AskedPlan asked, AskedPlanFromProto(spec));
  return ProblemOf(std::move(asked), profiles, calibration);
}

absl::StatusOr<PlanView> PlanOffline(const v1::PlanSpec& spec,
                                     const std::vector<v1::Profile>& profiles,
                                     const std::shared_ptr<const Calibration>& calibration,
                                     const SearchWatch& watch) {
  PARPLAN_ASSIGN_OR_RETURN(const AskedPlan asked, AskedSearch(spec));
  const PlanningOptions& options = asked.options;
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOf(asked, profiles, calibration));
  // The baselines have what the search leaves of the limit, as on a server.
  SharedTime time(Clock::Real(), options.search_time_limit.value_or(absl::InfiniteDuration()),
                  /*search_count=*/1);
  SearchWatch shared = watch;
  shared.time = &time;
  PARPLAN_ASSIGN_OR_RETURN(LocalSearch search,
                           SearchHere(problem, options.planner, options, shared));
  if (const auto* nothing = std::get_if<NothingFits>(&search.result)) {
    return NothingFitsError(problem, options.planner, *nothing);
  }
  if (const auto* stopped = std::get_if<StoppedEmpty>(&search.result)) {
    return StoppedEmptyError(stopped->search);
  }
  std::vector<v1::PlannerComparison> comparisons;
  if (options.compare_baselines) {
    PARPLAN_ASSIGN_OR_RETURN(comparisons,
                             CompareWithBaselines(problem, options.planner, search.result,
                                                  SearchUnder(options, shared)));
  }
  PlanFound found = std::get<PlanFound>(std::move(search.result));
  if (options.wants_robust_plan) {
    found = WithRobustPlan(std::move(found), options.robust_alternative_count);
  }
  PARPLAN_ASSIGN_OR_RETURN(
      PlanView view, ViewOf(problem, options.planner, found.plan, found.prediction, found.search));
  *view.payload.mutable_search() = SearchSummaryToProto(found.search, search.cpu, search.wall);
  view.cpu_seconds = search.cpu.value();
  view.wall_seconds = search.wall.value();
  for (const PredictedPlan& rival : found.alternatives) {
    view.alternatives.push_back(RivalOf(rival));
  }
  for (const PredictedPlan& rival : found.memory_front) {
    view.memory_front.push_back(RivalOf(rival));
  }
  view.notes = found.notes;
  view.comparisons = std::move(comparisons);
  return view;
}

absl::StatusOr<PlanningProblem> ProblemOfPlan(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles, const Plan& plan,
    const std::shared_ptr<const Calibration>& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(AskedPlan asked, AskedPlanFromProto(spec));
  if (asked.global_batch_size == 0) asked.global_batch_size = plan.global_batch_size;
  if (asked.global_batch_size != plan.global_batch_size) {
    return FieldError(
        Reason::kSpecInvalid, "--batch",
        absl::StrCat("is ", asked.global_batch_size, ", and the plan is for ",
                     plan.global_batch_size, " samples a step; leave the flag out, or plan anew"));
  }
  const int devices_per_node = asked.topology->node_groups().front().devices_per_node;
  PARPLAN_ASSIGN_OR_RETURN(asked.options.rules,
                           RulesOfPlan(asked.options.rules, plan, devices_per_node));
  PARPLAN_ASSIGN_OR_RETURN(PlanningProblem problem,
                           ProblemOf(std::move(asked), profiles, calibration));
  if (const absl::Status broken = CheckPlanStructure(problem, plan); !broken.ok()) {
    return NoPlanOfThese(broken);
  }
  return problem;
}

absl::StatusOr<PlanView> EvaluateOffline(const v1::PlanSpec& spec,
                                         const std::vector<v1::Profile>& profiles, const Plan& plan,
                                         const std::shared_ptr<const Calibration>& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           ProblemOfPlan(spec, profiles, plan, calibration));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  SearchSummary none;
  none.limit = SearchLimit::kMethod;
  return ViewOf(problem, kGivenPlanner, plan, PredictPlan(problem, costs, plan), none);
}

absl::StatusOr<std::vector<v1::PlannerComparison>> CompareOffline(
    const v1::PlanSpec& spec, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration, const SearchWatch& watch) {
  PARPLAN_ASSIGN_OR_RETURN(const AskedPlan asked, AskedSearch(spec));
  const PlanningOptions& options = asked.options;
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOf(asked, profiles, calibration));
  const SearchFunction search = SearchUnder(options, watch);
  std::vector<v1::PlannerComparison> rows;
  for (const std::string& name : PlannerNames()) {
    PARPLAN_ASSIGN_OR_RETURN(v1::PlannerComparison row, ComparePlanner(problem, name, search));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace parplan::planctl
