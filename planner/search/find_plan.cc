#include "planner/search/find_plan.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "planner/cost/cost_model.h"
#include "planner/ilp/ilp_planners.h"
#include "planner/search/baseline_search.h"
#include "planner/search/baselines.h"
#include "planner/search/exact_search.h"
#include "planner/search/galvatron_search.h"
#include "planner/search/uniform_search.h"

namespace parplan {
namespace {

using Search = std::function<std::optional<PlanningResult>(const PlanningProblem&, const CostModel&,
                                                           const SearchControl&)>;

struct Planner {
  std::string name;
  bool is_baseline = false;
  Search search;
};

Search OfGalvatron(GalvatronVariant variant) {
  return [variant](const PlanningProblem& problem, const CostModel& costs,
                   const SearchControl& control) {
    return SearchGalvatron(problem, costs, variant, control);
  };
}

Search OfBaseline(const std::string& name) {
  return
      [name](const PlanningProblem& problem, const CostModel& costs, const SearchControl& control) {
        return SearchBaseline(problem, costs, *SpaceOfBaseline(name, problem), control);
      };
}

Search OfGrid(const UniformGrid& grid) {
  return
      [grid](const PlanningProblem& problem, const CostModel& costs, const SearchControl& control) {
        return SearchUniform(problem, costs, grid, control);
      };
}

// The default first.
const std::vector<Planner>& Planners() {
  static const auto* const planners = [] {
    auto* const list = new std::vector<Planner>{
        {.name = "exact", .search = SearchExact},
        {.name = "galvatron", .search = OfGalvatron(GalvatronVariant::kGalvatron)},
        {.name = "galvatron-base", .search = OfGalvatron(GalvatronVariant::kGalvatronBase)},
        {.name = "galvatron-bmw", .search = OfGalvatron(GalvatronVariant::kGalvatronBmw)},
        {.name = "min-memory-ilp", .search = SearchMinMemoryIlp},
        {.name = "alpa-like", .search = SearchAlpaLike},
    };
    for (const char* name : {"dp", "sdp", "tp", "pp", "dp+tp", "dp+pp", "deepspeed-3d"}) {
      list->push_back({.name = name, .is_baseline = true, .search = OfBaseline(name)});
    }
    list->push_back({.name = "megatron", .is_baseline = true, .search = OfGrid(MegatronGrid())});
    list->push_back({.name = "fsdp-best", .is_baseline = true, .search = OfGrid(FsdpGrid())});
    return list;
  }();
  return *planners;
}

}  // namespace

const std::vector<std::string>& PlannerNames() {
  static const auto* const names = [] {
    auto* const list = new std::vector<std::string>;
    for (const Planner& planner : Planners()) list->push_back(planner.name);
    return list;
  }();
  return *names;
}

const std::vector<std::string>& BaselineNames() {
  static const auto* const names = [] {
    auto* const list = new std::vector<std::string>;
    for (const Planner& planner : Planners()) {
      if (planner.is_baseline) list->push_back(planner.name);
    }
    return list;
  }();
  return *names;
}

absl::StatusOr<PlanningResult> FindPlan(const PlanningProblem& problem, absl::string_view planner,
                                        const SearchControl& control) {
  const Planner* chosen = nullptr;
  for (const Planner& known : Planners()) {
    if (known.name == planner) chosen = &known;
  }
  if (chosen == nullptr) {
    return FieldError(Reason::kSpecInvalid, "planner",
                      absl::StrCat("`", planner, "` is unknown; use one of ",
                                   absl::StrJoin(PlannerNames(), ", ")));
  }
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  std::optional<PlanningResult> result = chosen->search(problem, costs, control);
  if (!result) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan,
        absl::StrCat("planner `", planner, "` has no strategy for all layers on ",
                     problem.device_count(),
                     " device(s): degrees must divide devices, heads and micro-batch, stages need "
                     "a layer each, and all that within the space and the target; change the "
                     "number of devices, global_batch_size, the rules or the planner"));
  }
  return *std::move(result);
}

}  // namespace parplan
