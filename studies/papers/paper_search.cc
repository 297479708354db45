#include "studies/papers/paper_search.h"

#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "planner/cost/cost_model.h"
#include "planner/find_plan.h"
#include "planner/planners/galvatron/galvatron_search.h"

namespace parplan::papers {
namespace {

void SetPlan(const PlanFound& found, Answer& answer) {
  answer.fits = true;
  answer.plan = found.plan;
  answer.rate = found.prediction.samples_per_second;
  answer.batch = found.plan.global_batch_size;
  answer.micro_batch_count = found.plan.micro_batch_count;
  answer.pipeline_degree = found.plan.pipeline_parallel_degree();
  answer.stages = absl::StrJoin(found.plan.stages, "|", [](std::string* text, const auto& stage) {
    absl::StrAppend(text, stage.layer_count());
  });
  answer.gist = PlanGist(found.plan);
  answer.memory = found.prediction.peak_memory_upper;
  answer.gap = found.search.gap_ratio;
  answer.stopped = found.search.limit == SearchLimit::kTime;
  answer.notes = found.notes;
}

// Returns the faster answer of the walk over partitions and of one stage, which it leaves out.
Answer AskWalk(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  rules.max_pipeline_parallel_degree = 1;
  Answer one_stage = AskDynamicProgram(problem.WithRules(rules));
  Answer walk = AskDynamicProgram(problem, /*adjusts=*/true);
  return walk.rate > one_stage.rate ? walk : one_stage;
}

}  // namespace

std::vector<std::string> StudyPlanners() {
  std::vector<std::string> names;
  for (const char* const name : kPurePlanners) names.push_back(name);
  for (const char* const name : kHybridPlanners) names.push_back(name);
  for (const char* const name : kPaperPlanners) names.push_back(name);
  for (const char* const name : {kBaseAlone, kBmwAlone, kTreeOptimum}) names.push_back(name);
  return names;
}

PlanningProblem InTree(const PlanningProblem& problem) {
  PlanningRules rules = problem.rules();
  DimensionSet tree;
  for (const SearchDimension dimension :
       {SearchDimension::kPipeline, SearchDimension::kUnevenStages, SearchDimension::kPerLayer,
        SearchDimension::kEndStrategies, SearchDimension::kTensor, SearchDimension::kRankOrder,
        SearchDimension::kParameterSharding, SearchDimension::kFullRecompute}) {
    tree = tree.With(dimension);
  }
  if (rules.schedule == Schedule::kGpipe) tree = tree.With(SearchDimension::kGpipe);
  rules.dimensions = rules.dimensions & tree;
  return problem.WithRules(rules);
}

PlanningProblem WithPartitioner(const PlanningProblem& problem, Partitioner partitioner) {
  PlanningRules rules = problem.rules();
  rules.partitioner = partitioner;
  return problem.WithRules(rules);
}

Answer Ask(const PlanningProblem& problem, absl::string_view planner,
           const SearchControl& control) {
  if (planner == kBaseAlone) {
    return AskDynamicProgram(WithPartitioner(problem, Partitioner::kEven));
  }
  if (planner == kBmwAlone) return AskWalk(problem);
  absl::StatusOr<PlanningResult> result = absl::InternalError("");
  if (planner == kTreeOptimum) {
    SearchControl limited = control;
    if (limited.max_state_count == 0) limited.max_state_count = kMaxOptimumStates;
    // `exact` takes no partitioner: it has every partition.
    result = FindPlan(WithPartitioner(InTree(problem), Partitioner::kBest), "exact", limited);
  } else {
    result = FindPlan(problem, planner, control);
  }
  Answer answer;
  if (!result.ok()) {
    const std::optional<ErrorDetail> detail = GetErrorDetail(result.status());
    PARPLAN_CHECK(detail && detail->reason == Reason::kNoFeasiblePlan);
    return answer;
  }
  if (const auto* const found = std::get_if<PlanFound>(&*result)) SetPlan(*found, answer);
  if (std::holds_alternative<StoppedEmpty>(*result)) answer.stopped = true;
  return answer;
}

Answer AskDynamicProgram(const PlanningProblem& problem, bool adjusts) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  PARPLAN_CHECK(costs.ok());
  const std::optional<PlanningResult> result =
      SearchGalvatronMethod(problem, *costs, {.with_recompute = true, .adjusts = adjusts}, {});
  Answer answer;
  if (!result) return answer;
  if (const auto* const found = std::get_if<PlanFound>(&*result)) SetPlan(*found, answer);
  return answer;
}

double SixDigits(double value) {
  double rounded = 0.0;
  PARPLAN_CHECK(absl::SimpleAtod(absl::StrFormat("%.6g", value), &rounded));
  return rounded;
}

}  // namespace parplan::papers
