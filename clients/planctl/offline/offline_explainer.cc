#include "clients/planctl/offline/offline_explainer.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/clock.h"
#include "clients/planctl/offline/offline_planner.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "proto/wire/rules_wire.h"
#include "solve/run_search.h"

namespace parplan::planctl {
namespace {

// The factor by which each resource is made larger or faster. Chosen by hand: far above rounding,
// and small enough for a figure per percent.
constexpr double kMore = 1.1;

absl::StatusOr<PlanningProblem> ProblemOfGiven(const ExplainContext& context, const Plan& plan) {
  v1::PlanSpec spec = context.spec;
  spec.set_global_batch_size(plan.global_batch_size);
  return ProblemOfPlan(spec, context.profiles, plan, context.calibration);
}

absl::StatusOr<PlanTerms> TermsOfGiven(const ExplainContext& context, const Plan& plan) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOfGiven(context, plan));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  return TermsOf(problem, costs, plan);
}

// Returns the question for `planner`, asking for one plan.
absl::StatusOr<PlanningProblem> Question(const ExplainContext& context, const Plan& plan,
                                         const std::string& planner) {
  v1::PlanSpec spec = context.spec;
  if (spec.global_batch_size() == 0) spec.set_global_batch_size(plan.global_batch_size);
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                           OfflineProblem(spec, context.profiles, context.calibration));
  return problem.WithRules(RulesForOnePlan(problem.rules(), planner));
}

}  // namespace

absl::StatusOr<PricedCollectives> CollectivesOffline(const ExplainContext& context,
                                                     const Plan& plan, int rank) {
  if (rank < 0 || rank >= plan.device_count) {
    return FieldError(
        Reason::kSpecInvalid, "--collectives",
        absl::StrCat("is ", rank, ", but the plan has ranks 0 to ", plan.device_count - 1));
  }
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOfGiven(context, plan));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  return PricedCollectives{rank, costs.runtime().runtime_id,
                           CollectivesOfStep(problem, costs, plan, rank)};
}

absl::StatusOr<PlanExplanation> ExplainOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan& rival) {
  PARPLAN_ASSIGN_OR_RETURN(PlanTerms of_plan, TermsOfGiven(context, plan));
  PARPLAN_ASSIGN_OR_RETURN(PlanTerms of_rival, TermsOfGiven(context, rival));
  return Explain(std::move(of_plan), std::move(of_rival));
}

absl::StatusOr<MeasureNext> MeasureNextOffline(const ExplainContext& context, const Plan& plan,
                                               const Plan* rival) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOfGiven(context, plan));
  const PlanOfProblem of_plan = {problem, plan};
  if (rival == nullptr) return FindMeasureNext(of_plan, nullptr);
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem rival_problem, ProblemOfGiven(context, *rival));
  const PlanOfProblem of_rival = {rival_problem, *rival};
  return FindMeasureNext(of_plan, &of_rival);
}

absl::StatusOr<WhyNot> WhyNotOffline(const ExplainContext& context, const Plan& plan,
                                     const std::string& planner, const SearchWatch& watch) {
  PARPLAN_ASSIGN_OR_RETURN(PlanTerms of_plan, TermsOfGiven(context, plan));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(context.spec.options()));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, Question(context, plan, planner));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  WhyNot why_not;
  why_not.planner = planner;
  const absl::StatusOr<LocalSearch> search = SearchHere(problem, planner, options, watch);
  if (HasNoCandidates(search.status())) {
    why_not.has_no_candidates = true;
    return why_not;
  }
  PARPLAN_RETURN_IF_ERROR(search.status());
  if (const auto* found = std::get_if<PlanFound>(&search->result)) {
    why_not.explanation = Explain(std::move(of_plan), TermsOf(problem, costs, found->plan));
    return why_not;
  }
  const auto* nothing = std::get_if<NothingFits>(&search->result);
  if (nothing == nullptr) {
    why_not.stopped_early = true;
    return why_not;
  }
  why_not.smallest_device_memory = nothing->smallest_device_memory;
  why_not.smallest_device_count = nothing->smallest_device_count;
  // The plan it would find with just enough memory.
  PARPLAN_ASSIGN_OR_RETURN(const LocalSearch smallest,
                           SearchHere(problem.WithUsableMemory(nothing->smallest_usable_memory),
                                      planner, options, watch));
  if (const auto* found = std::get_if<PlanFound>(&smallest.result)) {
    why_not.smallest = TermsOf(problem, costs, found->plan);
  }
  return why_not;
}

absl::StatusOr<std::vector<Sensitivity>> SensitivitiesOffline(const ExplainContext& context,
                                                              const Plan& plan,
                                                              const SearchWatch& watch) {
  PARPLAN_RETURN_IF_ERROR(TermsOfGiven(context, plan).status());
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(context.spec.options()));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, Question(context, plan, options.planner));
  return Sensitivities(problem, plan, kMore,
                       [&](const PlanningProblem& more) -> absl::StatusOr<PlanningResult> {
                         PARPLAN_ASSIGN_OR_RETURN(
                             LocalSearch search, SearchHere(more, options.planner, options, watch));
                         return std::move(search.result);
                       });
}

absl::StatusOr<std::vector<ExplainedWalk>> WalksOffline(const ExplainContext& context,
                                                        const Plan& plan,
                                                        const SearchWatch& watch) {
  PARPLAN_RETURN_IF_ERROR(TermsOfGiven(context, plan).status());
  const int64_t batch = context.spec.global_batch_size();
  if (batch != 0 && batch != plan.global_batch_size) {
    return FieldError(Reason::kSpecInvalid, "--batch",
                      absl::StrCat("is ", batch, ", but the plan has ", plan.global_batch_size,
                                   ", and --bmw explains the plan's; leave it out"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, Question(context, plan, "galvatron-bmw"));
  if (problem.rules().schedule.value_or(plan.schedule) != plan.schedule) {
    return FieldError(Reason::kSpecInvalid, "--schedule",
                      "is not that of the plan, which --bmw explains; leave it out");
  }
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningOptions options, OptionsFromProto(context.spec.options()));
  absl::Duration limit = options.search_time_limit.value_or(absl::InfiniteDuration());
  if (watch.time != nullptr) limit = watch.time->Next().value_or(absl::ZeroDuration());
  const absl::Duration end = Clock::Real().Steady() + limit;
  SearchControl control;
  control.should_stop = [&watch, end] {
    return Clock::Real().Steady() >= end || (watch.is_cancelled && watch.is_cancelled());
  };
  std::vector<ExplainedWalk> walks = ExplainWalks(problem, costs, plan, control);
  if (!walks.empty()) return walks;
  return FieldError(Reason::kSpecInvalid, "--bmw",
                    plan.pipeline_parallel_degree() == 1
                        ? "needs a plan with several stages, and this one has one stage: ask with "
                          "`planctl plan --planner galvatron-bmw` in a space with pipelines, or "
                          "name another plan"
                        : "needs `uneven-stages` in the space and a strategy for every layer; "
                          "change --space");
}

}  // namespace parplan::planctl
