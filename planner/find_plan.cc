#include "planner/find_plan.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/cost/cost_model.h"
#include "planner/ilp_searches.h"
#include "planner/planners/baselines/baseline_search.h"
#include "planner/planners/baselines/baselines.h"
#include "planner/planners/baselines/uniform_search.h"
#include "planner/planners/exact/exact_search.h"
#include "planner/planners/galvatron/galvatron_search.h"

namespace parplan {
namespace {

using Search = std::function<std::optional<PlanningResult>(const PlanningProblem&, const CostModel&,
                                                           const SearchControl&)>;

struct Planner {
  std::string name;
  bool is_baseline = false;
  bool gives_alternatives = false;
  bool gives_front = false;
  bool takes_alpha = false;
  bool takes_partitioner = false;
  // Takes a memory granule and a number of fused layers.
  bool takes_granules = false;
  // Plans operator by operator, which it knows only of the usual parts of layers.
  bool by_operators = false;
  // Empty if the planner is not part of this build.
  Search search;
};

Planner GalvatronPlanner(const std::string& name, GalvatronVariant variant) {
  return {.name = name,
          .takes_partitioner = true,
          .takes_granules = true,
          .search = [variant](const PlanningProblem& problem, const CostModel& costs,
                              const SearchControl& control) {
            return SearchGalvatron(problem, costs, variant, control);
          }};
}

Planner BaselinePlanner(const std::string& name) {
  return {.name = name,
          .is_baseline = true,
          .takes_partitioner = true,
          .search = [name](const PlanningProblem& problem, const CostModel& costs,
                           const SearchControl& control) {
            return SearchBaseline(problem, costs, *SpaceOfBaseline(name, problem), control);
          }};
}

Search GridPlanner(const UniformGrid& grid) {
  return
      [grid](const PlanningProblem& problem, const CostModel& costs, const SearchControl& control) {
        return SearchUniform(problem, costs, grid, control);
      };
}

// Returns all planners there are, in this build or not; the default comes first. A new planner is
// one entry here.
const std::vector<Planner>& AllPlanners() {
  static const auto* const planners = [] {
    const IlpSearches ilp = IlpSearchesOfBuild();
    auto* const list = new std::vector<Planner>{
        {.name = "exact", .gives_alternatives = true, .gives_front = true, .search = SearchExact},
        GalvatronPlanner("galvatron", GalvatronVariant::kGalvatron),
        GalvatronPlanner("galvatron-base", GalvatronVariant::kGalvatronBase),
        GalvatronPlanner("galvatron-bmw", GalvatronVariant::kGalvatronBmw),
        {.name = "min-memory-ilp",
         .gives_alternatives = true,
         .takes_alpha = true,
         .by_operators = true,
         .search = ilp.min_memory_ilp},
        {.name = "alpa-like",
         .gives_alternatives = true,
         .by_operators = true,
         .search = ilp.alpa_like},
        {.name = "colossal-auto-like",
         .gives_alternatives = true,
         .by_operators = true,
         .search = ilp.colossal_auto_like},
    };
    for (const absl::string_view name : PaperBaselineNames()) {
      list->push_back(BaselinePlanner(std::string(name)));
    }
    list->push_back(
        {.name = "megatron", .is_baseline = true, .search = GridPlanner(MegatronGrid())});
    list->push_back({.name = "fsdp-best", .is_baseline = true, .search = GridPlanner(FsdpGrid())});
    return list;
  }();
  return *planners;
}

// Returns the planner of a name, or null.
const Planner* PlannerNamed(absl::string_view name) {
  for (const Planner& planner : AllPlanners()) {
    if (planner.name == name) return &planner;
  }
  return nullptr;
}

// Returns the names of the planners in this build that satisfy a condition.
std::vector<std::string> NamesWhere(const std::function<bool(const Planner&)>& is_wanted) {
  std::vector<std::string> names;
  for (const Planner& planner : AllPlanners()) {
    if (planner.search && is_wanted(planner)) names.push_back(planner.name);
  }
  return names;
}

absl::Status GivesOnePlan(absl::string_view field, absl::string_view planner,
                          const std::vector<std::string>& others) {
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("planner `", planner, "` gives one plan only; leave it out, or ",
                                 "ask ", absl::StrJoin(others, " or ")));
}

// Returns the names of all planners, in this build or not, that take a rule, for an error.
std::string PlannersThatTake(bool Planner::*takes) {
  std::vector<std::string> names;
  for (const Planner& planner : AllPlanners()) {
    if (planner.*takes) names.push_back(planner.name);
  }
  return absl::StrJoin(names, " or ");
}

// Checks that the planner has what the rules ask for.
absl::Status CheckRulesOf(const Planner& planner, const PlanningRules& rules) {
  if (rules.schedule.has_value() && planner.name != PlannerNames().front() &&
      TraitsOf(*rules.schedule).backward_split != BackwardSplit::kWhole) {
    return FieldError(
        Reason::kSpecInvalid, "options.schedule",
        absl::StrCat("planner `", planner.name, "` plans no `", TraitsOf(*rules.schedule).name,
                     "`; leave it out, or ask `", PlannerNames().front(), "`"));
  }
  if (rules.top_plan_count > 1 && !planner.gives_alternatives) {
    return GivesOnePlan("options.top_plan_count", planner.name, PlannersWithAlternatives());
  }
  if (rules.wants_memory_front && !planner.gives_front) {
    return GivesOnePlan("options.wants_memory_front", planner.name, PlannersWithFront());
  }
  if (rules.ilp_alpha_bytes_per_second.has_value() && !planner.takes_alpha) {
    return FieldError(Reason::kSpecInvalid, "options.ilp_alpha_bytes_per_second",
                      absl::StrCat("planner `", planner.name, "` has no alpha; leave it out, or ",
                                   "ask ", PlannersThatTake(&Planner::takes_alpha)));
  }
  if (rules.partitioner != Partitioner::kBest && !planner.takes_partitioner) {
    return FieldError(
        Reason::kSpecInvalid, "options.partitioner",
        absl::StrCat("planner `", planner.name, "` has no partitioner; leave it out, or ask ",
                     PlannersThatTake(&Planner::takes_partitioner)));
  }
  for (const auto& [field, is_set] :
       {std::pair("options.memory_granule_bytes", rules.memory_granule != kMinMemoryGranule),
        std::pair("options.fused_layer_count", rules.fused_layer_count != 1)}) {
    if (!is_set || planner.takes_granules) continue;
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("planner `", planner.name, "` searches without it; leave it ",
                                   "out, or ask ", PlannersThatTake(&Planner::takes_granules)));
  }
  return absl::OkStatus();
}

// Different layers of a model that is planned operator by operator, at most. A programme of 1,000
// has a million columns; each further layer adds some half a megabyte, and time in which the
// search does not ask whether it must end.
constexpr size_t kMaxDefinitionsByOperators = 1024;

// Checks that the planner knows all layers of the model.
absl::Status CheckLayersOf(const Planner& planner, const ModelSpec& model) {
  if (!planner.by_operators) return absl::OkStatus();
  if (model.layer_definitions().size() > kMaxDefinitionsByOperators) {
    return FieldError(
        Reason::kSpecInvalid, "planner",
        absl::StrCat("`", planner.name, "` plans the operators of at most ",
                     kMaxDefinitionsByOperators, " different layers, and the model has ",
                     model.layer_definitions().size(), "; ask `exact`"));
  }
  for (const LayerDefinition& layer : model.layer_definitions()) {
    if (HasUsualParts(layer)) continue;
    return FieldError(
        Reason::kSpecInvalid, "planner",
        absl::StrCat("`", planner.name, "` plans operators and knows none of layer `",
                     layer.layer_definition_id,
                     "`, which has more than attention and a feed-forward part; ask `exact`"));
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<std::string>& PlannerNames() {
  static const auto* const names =
      new std::vector<std::string>(NamesWhere([](const Planner&) { return true; }));
  return *names;
}

const std::vector<std::string>& BaselineNames() {
  static const auto* const names = new std::vector<std::string>(
      NamesWhere([](const Planner& planner) { return planner.is_baseline; }));
  return *names;
}

const std::vector<std::string>& PlannersWithAlternatives() {
  static const auto* const names = new std::vector<std::string>(
      NamesWhere([](const Planner& planner) { return planner.gives_alternatives; }));
  return *names;
}

const std::vector<std::string>& PlannersWithFront() {
  static const auto* const names = new std::vector<std::string>(
      NamesWhere([](const Planner& planner) { return planner.gives_front; }));
  return *names;
}

PlanningRules RulesForOnePlan(PlanningRules rules, absl::string_view planner) {
  rules.top_plan_count = 1;
  rules.wants_memory_front = false;
  const Planner* const known = PlannerNamed(planner);
  if (known == nullptr || !known->takes_alpha) rules.ilp_alpha_bytes_per_second.reset();
  if (known == nullptr || !known->takes_partitioner) rules.partitioner = Partitioner::kBest;
  if (known == nullptr || !known->takes_granules) {
    rules.memory_granule = kMinMemoryGranule;
    rules.fused_layer_count = 1;
  }
  return rules;
}

absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control) {
  if (problem.group_count() != 1) {
    return FieldError(Reason::kSpecInvalid, "topology.node_groups",
                      absl::StrCat("must have one entry, not ", problem.group_count(),
                                   "; plan each node group separately"));
  }
  const Planner* const chosen = PlannerNamed(planner);
  if (chosen == nullptr) {
    return FieldError(Reason::kSpecInvalid, "planner",
                      absl::StrCat("`", planner, "` is unknown; use one of ",
                                   absl::StrJoin(PlannerNames(), ", ")));
  }
  if (!chosen->search) {
    return FieldError(Reason::kSpecInvalid, "planner",
                      absl::StrCat("`", planner,
                                   "` is not part of this build: it needs the solver CBC (Debian: "
                                   "coinor-libcbc-dev) and PARPLAN_WITH_ILP=ON when parplan is "
                                   "configured; use one of ",
                                   absl::StrJoin(PlannerNames(), ", ")));
  }
  PARPLAN_RETURN_IF_ERROR(CheckRulesOf(*chosen, problem.rules()));
  PARPLAN_RETURN_IF_ERROR(CheckLayersOf(*chosen, problem.model()));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  std::optional<PlanningResult> result = chosen->search(problem, costs, control);
  if (!result) {
    const int widest = problem.max_tensor_parallel_degree();
    const std::string limit = widest < problem.device_count()
                                  ? absl::StrCat(", tensor parallelism is at most ", widest,
                                                 " unless max_tensor_parallel_degree allows more")
                                  : "";
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
        absl::StrCat("planner `", planner, "` has no strategy for all layers on ",
                     problem.device_count(),
                     " device(s): degrees must divide devices, heads and micro-batch", limit,
                     ", stages need a layer each, and all that within the space and the target; "
                     "change the number of devices, global_batch_size, the rules or the planner"));
  }
  return *std::move(result);
}

}  // namespace parplan
