#include "server/core/shape_core.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/field_path.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/rules_wire.h"
#include "server/core/plan_question.h"
#include "server/core/shared_search.h"
#include "solve/money_answer.h"
#include "solve/shape_options.h"
#include "solve/shape_search.h"
#include "solve/shared_time.h"

namespace parplan {
namespace {

// Returns the bytes of the request; within one process equal messages have equal bytes.
std::string ShapeKey(const v1::ShapePlanRequest& request) { return request.SerializeAsString(); }

}  // namespace

struct ShapeCore::Question {
  // Whoever asks first (`Caller::owner`).
  std::string owner;
  std::string cluster;
  std::shared_ptr<const ModelSpec> model;
  std::vector<v1::DeviceOffer> offers;
  int64_t global_batch_size = 0;
  PlanningOptions options;
  absl::Duration time_limit;
  // Read and empty; absent if the request has no question about money.
  std::optional<MoneyTable> money;
  KnowledgeVersion version;
  std::string request_key;
};

ShapeCore::ShapeCore(Dependencies dependencies)
    : dependencies_(std::move(dependencies)),
      ready_shapes_(dependencies_.limits.shape_cache_bytes),
      flights_(dependencies_.clock) {}

void ShapeCore::ShapePlan(const std::shared_ptr<CallContext>& context,
                          const v1::ShapePlanRequest& request, const ShapeDone& done) {
  const absl::StatusOr<ClusterName> parent = ClusterName::Parse(request.parent());
  if (!parent.ok()) return done(parent.status());
  const absl::StatusOr<KnowledgeVersion> version = dependencies_.knowledge.Version(parent->cluster);
  if (!version.ok()) return done(version.status());
  std::string request_key = ShapeKey(request);
  SharedShape ready = FindReady(request_key, *version);
  dependencies_.observer.CacheLookedUp(CacheKind::kShape, ready != nullptr);
  if (ready != nullptr) return done(std::move(ready));

  const absl::StatusOr<SharedQuestion> question =
      ReadQuestion(request, *parent, *version, std::move(request_key), context->caller()->owner());
  if (!question.ok()) return done(question.status());
  const bool shared = flights_.Join(
      absl::StrCat(version->ToString(), "\n", (*question)->request_key), context, nullptr,
      [done](const absl::StatusOr<SharedShape>& response) { done(response); },
      [this, &question](const auto& flight) { return StartSearch(*question, flight); });
  if (shared) dependencies_.observer.SearchShared();
}

absl::StatusOr<ShapeCore::SharedQuestion> ShapeCore::ReadQuestion(
    const v1::ShapePlanRequest& request, const ClusterName& parent, KnowledgeVersion version,
    std::string request_key, const std::string& owner) const {
  auto question = std::make_shared<Question>();
  question->owner = owner;
  question->cluster = parent.cluster;
  PARPLAN_ASSIGN_OR_RETURN(question->options, OptionsFromProto(request.options(), "options"));
  PARPLAN_RETURN_IF_ERROR(CheckPlannerName(question->options.planner, "options"));
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(request.model(), "model"));
  PARPLAN_RETURN_IF_ERROR(CheckModelSize(model, dependencies_.limits, "model"));
  PARPLAN_RETURN_IF_ERROR(CheckModelRuns(question->options.rules.target, model, /*field=*/""));
  question->model = std::make_shared<const ModelSpec>(std::move(model));
  const int offer_count = request.offers_size();
  if (offer_count < 1 || offer_count > dependencies_.limits.max_offer_count) {
    return FieldError(Reason::kSpecInvalid, "offers",
                      absl::StrCat("must have 1 to ", dependencies_.limits.max_offer_count,
                                   " entries; it has ", offer_count));
  }
  for (int i = 0; i < offer_count; ++i) {
    PARPLAN_RETURN_IF_ERROR(CheckOffer(request.offers(i), JoinPath("", "offers", i),
                                       dependencies_.limits.max_device_count));
    question->offers.push_back(request.offers(i));
  }
  question->global_batch_size = request.global_batch_size();
  if (request.has_money()) {
    PARPLAN_ASSIGN_OR_RETURN(
        question->money,
        MoneyTable::Create(request.money(), question->offers, *question->model,
                           question->options.rules.smallest_global_batch_size > 0));
  }
  question->time_limit = std::min(
      question->options.search_time_limit.value_or(dependencies_.limits.max_search_duration),
      dependencies_.limits.max_search_duration);
  question->version = std::move(version);
  question->request_key = std::move(request_key);
  return question;
}

SharedShape ShapeCore::FindReady(const std::string& request_key, const KnowledgeVersion& version) {
  const std::optional<ReadyShape> ready = ready_shapes_.Get(request_key);
  return ready.has_value() && ready->version == version ? ready->response : nullptr;
}

absl::Status ShapeCore::StartSearch(const SharedQuestion& question, const ShapeFlight& flight) {
  // A flight of this question may have ended since the look into the cache.
  if (SharedShape ready = FindReady(question->request_key, question->version)) {
    flight->Finish(ready);
    return absl::OkStatus();
  }
  const absl::Duration submitted = dependencies_.clock.Steady();
  const auto run = [this, question, flight, submitted](const std::function<bool()>& stopping) {
    return Shape(*question, *flight, dependencies_.clock.Steady() - submitted, stopping);
  };
  return QueueSharedSearch<SharedShape>(dependencies_.pool, flight,
                                        {question->owner, question->cluster}, run);
}

absl::StatusOr<ShapeTry> ShapeCore::Try(const Question& question, const v1::DeviceOffer& offer,
                                        int device_count, SearchOrder order) {
  // Knowledge of the devices may have to be read first, which takes a part of the limit.
  const absl::Duration end = dependencies_.clock.Steady() + order.time_limit;
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, OfferTopology(question.cluster, offer, device_count));
  PARPLAN_ASSIGN_OR_RETURN(
      JobKnowledge known,
      dependencies_.knowledge.Find(topology, question.version, question.options.rules, "offers"));
  PARPLAN_ASSIGN_OR_RETURN(
      const PlanningProblem problem,
      PlanningProblem::Create(question.model, std::make_shared<const Topology>(topology),
                              std::move(known.knowledge), question.global_batch_size,
                              RulesOfShape(question.options, question.money.has_value())));
  order.time_limit = std::max(end - dependencies_.clock.Steady(), absl::ZeroDuration());
  PARPLAN_ASSIGN_OR_RETURN(PlannerAnswer answer,
                           ExecuteOrder(dependencies_.planner, problem, order, dependencies_.clock,
                                        dependencies_.observer));
  if (auto* const searched = std::get_if<SearchedPlan>(&answer.result)) {
    return ShapeTry{std::move(searched->found), answer.is_complete};
  }
  return ShapeTry{std::get<NothingFits>(std::move(answer.result)), answer.is_complete};
}

absl::StatusOr<SharedShape> ShapeCore::Shape(const Question& question, Flight<SharedShape>& flight,
                                             absl::Duration queue_duration,
                                             const std::function<bool()>& stopping) {
  SharedTime time(dependencies_.clock, question.time_limit, CountOfTries(question.offers));
  SearchOrder order;
  order.planner = question.options.planner;
  order.max_state_count = question.options.max_state_count;
  order.wanted_gap_ratio = question.options.wanted_gap_ratio;
  // An option has one plan.
  if (question.options.wants_robust_plan) order.robust_alternative_count = 0;
  order.queue_duration = queue_duration;
  order.helpers = &dependencies_.pool.helpers();
  order.should_stop = [&flight, &stopping] { return stopping() || flight.ShouldStop(); };

  std::optional<MoneyTable> money = question.money;
  // A shape that must end does so here, before its next count, with the error of that end.
  absl::Status ended;
  const auto try_count = [&](const v1::DeviceOffer& offer,
                             int device_count) -> absl::StatusOr<ShapeTry> {
    if (stopping()) ended = SearchPool::DrainingError();
    if (ended.ok() && flight.ShouldStop()) ended = flight.TimeoutError();
    if (!ended.ok()) return absl::AbortedError("the shape ends");
    const std::optional<absl::Duration> next = time.Next();
    if (!next.has_value()) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                       "the time was over before this number of devices was searched; ask again "
                       "with a longer deadline and options.search_time_limit");
    }
    order.time_limit = *next;
    return Try(question, offer, device_count, order);
  };
  absl::StatusOr<SearchedShape> searched =
      SearchShapes(question.offers, try_count, money.has_value() ? &*money : nullptr);
  if (!ended.ok()) return ended;
  PARPLAN_RETURN_IF_ERROR(searched.status());
  auto response = std::make_shared<v1::ShapePlanResponse>(std::move(searched->response));
  if (searched->is_complete) {
    auto ready = std::make_shared<v1::ShapePlanResponse>(*response);
    ready->set_from_cache(true);
    ready_shapes_.Put(question.request_key, ReadyShape{question.version, ready},
                      ready->SpaceUsedLong());
  }
  return SharedShape(std::move(response));
}

}  // namespace parplan
