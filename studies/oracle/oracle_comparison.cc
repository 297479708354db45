#include "studies/oracle/oracle_comparison.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_plan.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "studies/oracle/engine_plan.h"
#include "studies/oracle/model_differences.h"

namespace parplan::oracle {
namespace {

// The engine's file does not say how layers were measured; our plans follow that.
Plan AsMeasured(Plan plan, const PlanningProblem& problem, const CostModel& costs) {
  for (StagePlan& stage : plan.stages) {
    for (StageLayerRun& run : stage.layer_runs) {
      const int definition = problem.model().definition_of_layer()[run.first_layer_index];
      run.strategy.sequence_parallel = run.strategy.tensor_parallel_degree > 1 &&
                                       costs.searched_group().sequence_parallel(definition);
    }
  }
  return plan;
}

std::string FactOf(const absl::Status& status) {
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(status); detail.has_value()) {
    const auto fact = detail->metadata.find("fact");
    if (fact != detail->metadata.end()) return fact->second;
  }
  return std::string(status.message());
}

std::string StageGist(const EnginePlan& plan) {
  std::vector<std::string> stages;
  for (const std::vector<EngineStrategy>& stage : plan.stages) {
    std::vector<std::string> runs;
    for (size_t begin = 0, end = 0; begin < stage.size(); begin = end) {
      while (end < stage.size() && stage[end] == stage[begin]) ++end;
      runs.push_back(
          absl::StrCat(stage[begin].Name(plan.shape.pipeline_degree), " x", end - begin));
    }
    stages.push_back(absl::StrJoin(runs, ", "));
  }
  return absl::StrCat(absl::StrJoin(stages, " | "), "; ends ",
                      plan.ends.Name(plan.shape.pipeline_degree), ", ", plan.shape.chunks,
                      " micro-batches");
}

// Requires `model` to have what it needs for every strategy of `plan`. INVALID_ARGUMENT
// (PROFILE_INVALID) naming `file` and the strategy.
absl::Status RequireKnown(const EngineModel& model, const EnginePlan& plan,
                          const std::string& file) {
  const auto require = [&](absl::string_view field, int type, const EngineStrategy& strategy) {
    if (model.Knows(plan.shape, type, strategy)) return absl::OkStatus();
    return ImportError(Reason::kProfileInvalid, file, field,
                       absl::StrCat("has `", strategy.Name(plan.shape.pipeline_degree),
                                    "`, and the profile or hardware files of the case lack a "
                                    "bandwidth, latency or memory of that strategy"));
  };
  const std::vector<int> types = LayerTypes(model.question());
  size_t layer = 0;
  for (const std::vector<EngineStrategy>& stage : plan.stages) {
    for (const EngineStrategy& strategy : stage) {
      PARPLAN_RETURN_IF_ERROR(
          require(absl::StrCat("tp_sizes_enc[", layer, "]"), types[layer], strategy));
      ++layer;
    }
  }
  // Embedding and head take no numbers of a kind of layer, but `Knows` asks for one.
  return require("vtp", 0, plan.ends);
}

absl::StatusOr<EngineVerdict> Judge(const OracleCase& oracle, const PlanningProblem& problem,
                                    const CostModel& costs, bool wants_own_tables) {
  PARPLAN_ASSIGN_OR_RETURN(const EngineModel model, EngineModel::Create(oracle));
  PARPLAN_ASSIGN_OR_RETURN(const EnginePlan engine, ReadEnginePlan(oracle));
  PARPLAN_RETURN_IF_ERROR(RequireKnown(model, engine, oracle.answer->strategy_file.name));
  EngineVerdict verdict;
  verdict.said = oracle.answer->step;
  verdict.simulated = Seconds::Of(SimulatedEngineStep(model, engine));
  verdict.gist = StageGist(engine);
  for (const double megabytes : EngineMegabytes(model, engine)) {
    verdict.own_megabytes = std::max(verdict.own_megabytes, megabytes);
  }
  if (wants_own_tables) {
    const std::optional<BetterEnginePlan> better =
        FindBetterEnginePlan(model, engine.shape.global_batch);
    if (better.has_value() && better->simulated_step < verdict.simulated.value()) {
      verdict.better_in_own_numbers = Seconds::Of(better->simulated_step);
      verdict.better_gist = StageGist(better->plan);
    }
  }
  const absl::StatusOr<GalvatronPlanImport> import =
      ImportGalvatronPlan(oracle.answer->strategy_file, problem.model(), {});
  if (!import.ok()) {
    verdict.invalid = FactOf(import.status());
    return verdict;
  }
  const Plan plan = AsMeasured(import->plan, problem, costs);
  if (const absl::Status broken = CheckPlanStructure(problem, plan); !broken.ok()) {
    verdict.invalid = FactOf(broken);
    return verdict;
  }
  verdict.prediction = PredictPlan(problem, costs, plan);
  verdict.differences = ModelDifferences(model, engine, verdict.said, plan, *verdict.prediction);
  return verdict;
}

OurVerdict Answer(const PlanningProblem& problem, const OracleOptions& options, std::string what) {
  OurVerdict verdict;
  verdict.what = std::move(what);
  verdict.usable_memory = problem.usable_memory();
  const double begin = options.now ? options.now() : 0.0;
  SearchControl control;
  control.max_state_count = options.max_state_count;
  if (options.now && options.time_limit_seconds > 0.0) {
    control.should_stop = [&options, begin] {
      return options.now() - begin >= options.time_limit_seconds;
    };
  }
  absl::StatusOr<PlanningResult> result = FindPlan(problem, options.planner, control);
  verdict.search_seconds = options.now ? options.now() - begin : 0.0;
  if (!result.ok()) {
    verdict.error = FactOf(result.status());
  } else if (auto* const found = std::get_if<PlanFound>(&*result)) {
    if (const absl::Status broken = CheckPlan(problem, found->plan, found->prediction);
        !broken.ok()) {
      verdict.error = FactOf(broken);
    }
    verdict.found = std::move(*found);
  } else if (const auto* const nothing = std::get_if<NothingFits>(&*result)) {
    verdict.error =
        absl::StrCat("nothing fits in ", problem.usable_memory().count() >> 20, " MiB; ",
                     nothing->smallest_device_memory.count() >> 20, " MiB a device would do");
  } else {
    verdict.error = "a limit ended the search before any plan was found";
  }
  return verdict;
}

}  // namespace

absl::StatusOr<OracleComparison> CompareOracle(const OracleCase& oracle,
                                               const OracleOptions& options) {
  const auto problem_of = [&](OracleSpace space) -> absl::StatusOr<PlanningProblem> {
    PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                             OracleProblem(oracle, space, options.calibration));
    PlanningRules rules = problem.rules();
    rules.out_of_memory_risk = options.out_of_memory_risk;
    return problem.WithRules(rules);
  };
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, problem_of(OracleSpace::kEngine));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem whole, problem_of(OracleSpace::kWhole));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  OracleComparison comparison;
  comparison.id = oracle.id;
  comparison.model_id = problem.model().model_id();
  comparison.device_count = problem.device_count();
  comparison.usable_memory = problem.usable_memory();
  comparison.engine_error = oracle.error;
  comparison.engine_search_time = oracle.search_cpu_time;
  if (oracle.answer.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(comparison.engine,
                             Judge(oracle, problem, costs, options.wants_own_tables));
  }
  comparison.same_space = Answer(problem, options, "the engine's space");
  if (options.wants_whole_space) {
    comparison.whole_space = Answer(whole, options, "the whole space");
  }
  if (comparison.engine.has_value() && comparison.engine->prediction.has_value() &&
      !comparison.engine->prediction->fits()) {
    comparison.same_memory =
        Answer(problem.WithUsableMemory(comparison.engine->prediction->peak_memory_upper), options,
               "the engine's space, as much memory as its plan needs");
  }
  return comparison;
}

}  // namespace parplan::oracle
