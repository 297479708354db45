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
#include "server/core/shape.h"
#include "server/core/shared_search.h"

namespace parplan {
namespace {

// The measurements that were missing for any option, without duplicates, in the order of the
// options.
class MissingList {
 public:
  void Add(const absl::Status& status) {
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    if (!detail.has_value()) return;
    for (size_t i = 0; i < kMaxCount; ++i) {
      const auto found = detail->metadata.find(absl::StrCat("missing", i));
      if (found == detail->metadata.end()) return;
      if (known_.insert(found->second).second) items_.push_back(found->second);
    }
  }

  absl::Status ToError() const {
    std::map<std::string, std::string> metadata = {{"count", absl::StrCat(items_.size())}};
    std::string message =
        "measurements are missing for every offer; measure them and upload a profile, or set "
        "options.allow_estimates. Missing:";
    for (size_t i = 0; i < std::min(items_.size(), kMaxCount); ++i) {
      metadata[absl::StrCat("missing", i)] = items_[i];
      absl::StrAppend(&message, "\n", items_[i]);
    }
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing, message,
                     metadata);
  }

 private:
  static constexpr size_t kMaxCount = 100;
  std::set<std::string> known_;
  std::vector<std::string> items_;
};

bool HasReason(const absl::Status& status, Reason reason) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == reason;
}

v1::ShapeOption InfeasibleOption(const absl::Status& status) {
  v1::ShapeOption option;
  option.set_infeasible_reason(std::string(status.message()));
  return option;
}

std::string NothingFitsText(const v1::ShapePlanResponse& response) {
  int64_t smallest = 0;
  int device_count = 0;
  for (const v1::ShapeOption& option : response.options()) {
    const int64_t needed = option.smallest_device_memory_bytes();
    if (needed == 0 || (smallest != 0 && needed >= smallest)) continue;
    smallest = needed;
    device_count = option.device_count();
  }
  if (smallest == 0) return "no offer has a device count that can be planned for";
  return absl::StrCat("nothing fits in memory; ", device_count, " devices of at least ", smallest,
                      " bytes would do");
}

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
  question->model = std::make_shared<const ModelSpec>(std::move(model));
  const int offer_count = request.offers_size();
  if (offer_count < 1 || offer_count > dependencies_.limits.max_offer_count) {
    return FieldError(Reason::kSpecInvalid, "offers",
                      absl::StrCat("must have 1 to ", dependencies_.limits.max_offer_count,
                                   " entries; it has ", offer_count));
  }
  for (int i = 0; i < offer_count; ++i) {
    PARPLAN_RETURN_IF_ERROR(
        CheckOffer(request.offers(i), JoinPath("", "offers", i), dependencies_.limits));
    question->offers.push_back(request.offers(i));
  }
  question->global_batch_size = request.global_batch_size();
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
    flight->Finish(Shape(*question, *flight, dependencies_.clock.Steady() - submitted, stopping));
  };
  return QueueSharedSearch<SharedShape>(dependencies_.pool, flight,
                                        {question->owner, question->cluster}, run);
}

absl::StatusOr<PlannerAnswer> ShapeCore::Try(const Question& question, const v1::DeviceOffer& offer,
                                             int device_count, const SearchOrder& order) {
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, OfferTopology(question.cluster, offer, device_count));
  PARPLAN_ASSIGN_OR_RETURN(
      JobKnowledge known,
      dependencies_.knowledge.Find(topology, question.version, question.options.rules, "offers"));
  // An option reports one plan.
  PlanningRules rules = question.options.rules;
  rules.top_plan_count = 1;
  rules.wants_memory_front = false;
  PARPLAN_ASSIGN_OR_RETURN(
      const PlanningProblem problem,
      PlanningProblem::Create(question.model, std::make_shared<const Topology>(topology),
                              std::move(known.knowledge), question.global_batch_size,
                              std::move(rules)));
  return ExecuteOrder(dependencies_.planner, problem, order, dependencies_.clock,
                      dependencies_.observer);
}

absl::StatusOr<SharedShape> ShapeCore::Shape(const Question& question, Flight<SharedShape>& flight,
                                             absl::Duration queue_duration,
                                             const std::function<bool()>& stopping) {
  const absl::Duration end = dependencies_.clock.Steady() + question.time_limit;
  SearchOrder order;
  order.planner = question.options.planner;
  order.max_state_count = question.options.max_state_count;
  order.wanted_gap_ratio = question.options.wanted_gap_ratio;
  order.queue_duration = queue_duration;
  order.helpers = &dependencies_.pool.helpers();
  order.should_stop = [&flight, &stopping] { return stopping() || flight.ShouldStop(); };

  auto response = std::make_shared<v1::ShapePlanResponse>();
  MissingList missing;
  bool is_complete = true;
  bool any_measured = false;
  bool any_tried = false;
  absl::Status cut_off;
  for (size_t i = 0; i < question.offers.size(); ++i) {
    for (const int device_count : DeviceCounts(question.offers[i])) {
      if (stopping()) return SearchPool::DrainingError();
      if (flight.ShouldStop()) return flight.TimeoutError();
      order.time_limit = end - dependencies_.clock.Steady();
      any_tried = true;
      const absl::StatusOr<PlannerAnswer> answer =
          Try(question, question.offers[i], device_count, order);
      v1::ShapeOption option;
      if (answer.ok()) {
        any_measured = true;
        is_complete = is_complete && answer->is_complete;
        option = ShapeOptionOf(*answer);
      } else if (HasReason(answer.status(), Reason::kProfileMissing)) {
        missing.Add(answer.status());
        option = InfeasibleOption(answer.status());
      } else if (HasReason(answer.status(), Reason::kNoFeasiblePlan)) {
        // The planner has no plan of its kind for this count, which is an answer.
        any_measured = true;
        option = InfeasibleOption(answer.status());
      } else if (HasReason(answer.status(), Reason::kSearchTimedOut) ||
                 HasReason(answer.status(), Reason::kSearchOutOfMemory)) {
        any_measured = true;
        is_complete = false;
        cut_off = answer.status();
        option = InfeasibleOption(answer.status());
      } else {
        return answer.status();
      }
      option.set_offer_index(static_cast<int>(i));
      option.set_device_count(device_count);
      *response->add_options() = std::move(option);
    }
  }
  if (any_tried && !any_measured) return missing.ToError();
  if (const std::optional<int> recommended = RecommendedOption(response->options())) {
    response->set_recommended_option_index(*recommended);
  } else if (!cut_off.ok()) {
    return cut_off;
  } else {
    response->set_infeasible_reason(NothingFitsText(*response));
  }
  if (is_complete) {
    auto ready = std::make_shared<v1::ShapePlanResponse>(*response);
    ready->set_from_cache(true);
    ready_shapes_.Put(question.request_key, ReadyShape{question.version, ready},
                      ready->SpaceUsedLong());
  }
  return SharedShape(std::move(response));
}

}  // namespace parplan
