#include "clients/planctl/offline/offline_shape.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/clock.h"
#include "clients/planctl/offline/offline_planner.h"
#include "exports/exporters.h"
#include "planner/model/planning_problem.h"
#include "planner/worth/robust_plan.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/rules_wire.h"
#include "proto/wire/topology_wire.h"
#include "solve/money_answer.h"
#include "solve/run_search.h"
#include "solve/shape_options.h"
#include "solve/shape_search.h"
#include "solve/shared_time.h"

namespace parplan::planctl {
namespace {

// Returns the question for one number of devices of an offer.
absl::StatusOr<v1::PlanSpec> SpecOf(const v1::ShapePlanRequest& request, const ClusterName& cluster,
                                    const v1::DeviceOffer& offer, int device_count) {
  PARPLAN_ASSIGN_OR_RETURN(const Topology topology,
                           OfferTopology(cluster.cluster, offer, device_count));
  v1::PlanSpec spec;
  *spec.mutable_model() = request.model();
  *spec.mutable_topology() = TopologyToProto(topology);
  spec.set_global_batch_size(request.global_batch_size());
  *spec.mutable_options() = request.options();
  return spec;
}

}  // namespace

absl::StatusOr<v1::ShapePlanResponse> ShapeOffline(
    const v1::ShapePlanRequest& request, const std::vector<v1::Profile>& profiles,
    const std::shared_ptr<const Calibration>& calibration, const SearchWatch& watch) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName cluster, ClusterName::Parse(request.parent()));
  PARPLAN_ASSIGN_OR_RETURN(PlanningOptions options, OptionsFromProto(request.options()));
  PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(request.model(), "model"));
  PARPLAN_RETURN_IF_ERROR(CheckModelOfTarget(options.rules.target, model));
  if (request.offers().empty()) {
    return FieldError(Reason::kSpecInvalid, "offers", "must have at least one entry");
  }
  std::vector<v1::DeviceOffer> offers;
  for (int i = 0; i < request.offers_size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(
        CheckOffer(request.offers(i), JoinPath("", "offers", i), kMaxDeviceCount));
    offers.push_back(request.offers(i));
  }
  std::optional<MoneyTable> money;
  if (request.has_money()) {
    PARPLAN_ASSIGN_OR_RETURN(money,
                             MoneyTable::Create(request.money(), offers, model,
                                                options.rules.smallest_global_batch_size > 0));
  }
  const PlanningRules rules = RulesOfShape(options, money.has_value());
  SharedTime time(Clock::Real(), options.search_time_limit.value_or(absl::InfiniteDuration()),
                  CountOfTries(offers));
  const auto try_count = [&](const v1::DeviceOffer& offer,
                             int device_count) -> absl::StatusOr<ShapeTry> {
    const std::optional<absl::Duration> next = time.Next();
    if (!next.has_value()) return StoppedEmptyError({.limit = SearchLimit::kTime});
    const absl::Duration end = Clock::Real().Steady() + *next;
    PARPLAN_ASSIGN_OR_RETURN(const v1::PlanSpec spec,
                             SpecOf(request, cluster, offer, device_count));
    PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem asked,
                             OfflineProblem(spec, profiles, calibration));
    PlanningRules asked_rules = asked.rules();
    asked_rules.top_plan_count = rules.top_plan_count;
    asked_rules.wants_memory_front = rules.wants_memory_front;
    const PlanningProblem problem = asked.WithRules(std::move(asked_rules));
    options.search_time_limit = end - Clock::Real().Steady();
    PARPLAN_ASSIGN_OR_RETURN(LocalSearch search,
                             SearchHere(problem, options.planner, options, watch));
    const bool is_complete = IsComplete(SummaryOf(search.result));
    if (auto* const stopped = std::get_if<StoppedEmpty>(&search.result)) {
      return StoppedEmptyError(stopped->search);
    }
    if (auto* const nothing = std::get_if<NothingFits>(&search.result)) {
      return ShapeTry{std::move(*nothing), is_complete};
    }
    PlanFound found = std::get<PlanFound>(std::move(search.result));
    // An option has one plan.
    if (options.wants_robust_plan) found = WithRobustPlan(std::move(found), 0);
    return ShapeTry{std::move(found), is_complete};
  };
  PARPLAN_ASSIGN_OR_RETURN(SearchedShape shape,
                           SearchShapes(offers, try_count, money.has_value() ? &*money : nullptr));
  return std::move(shape.response);
}

}  // namespace parplan::planctl
