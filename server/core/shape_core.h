// Answers `ShapePlan`: plans a job, whose nodes are not chosen yet, for the devices on offer.
// server/rpc/plan_service.cc calls it.

#ifndef PARPLAN_SERVER_CORE_SHAPE_CORE_H_
#define PARPLAN_SERVER_CORE_SHAPE_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/find_plan.h"
#include "proto/wire/resource_name.h"
#include "server/core/call_context.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"
#include "server/core/lru_cache.h"
#include "server/core/observer.h"
#include "server/core/plan_search.h"
#include "server/core/search_pool.h"
#include "server/core/single_flight.h"
#include "solve/shape_search.h"

namespace parplan {

// Immutable.
using SharedShape = std::shared_ptr<const v1::ShapePlanResponse>;

// Called exactly once: on the calling thread if the answer is known or the request refused, else on
// a searching thread, the thread of a call whose search takes the place of this one in the queue,
// or the thread that cancels the call or drains the pool.
using ShapeDone = std::function<void(absl::StatusOr<SharedShape>)>;

// The method `ShapePlan` of PlanService. Errors are those listed in plan_service.proto:
// INVALID_ARGUMENT (SPEC_INVALID), FAILED_PRECONDITION (PROFILE_MISSING) if measurements are
// missing for every count, RESOURCE_EXHAUSTED (QUEUE_FULL, QUOTA_EXCEEDED, SEARCH_OUT_OF_MEMORY),
// DEADLINE_EXCEEDED (SEARCH_TIMED_OUT), UNAVAILABLE (DRAINING, STORE_UNAVAILABLE), DATA_LOSS
// (STORE_UNAVAILABLE), INTERNAL (CHECK_FAILED, STORE_UNAVAILABLE); and CANCELLED with no `Reason`
// for a call that was cancelled. That nothing fits is an answer. Safe to use from any thread.
class ShapeCore {
 public:
  // REQUIRES, unchecked: the references outlive the core; the pool is drained before the core is
  // destroyed.
  struct Dependencies {
    KnowledgeKeeper& knowledge;
    SearchPool& pool;
    const Clock& clock;
    Observer& observer;
    const Limits& limits;
    PlannerFunction planner = &FindPlan;
  };
  explicit ShapeCore(Dependencies dependencies);

  ShapeCore(const ShapeCore&) = delete;
  ShapeCore& operator=(const ShapeCore&) = delete;

  // Waits for the store on the calling thread, then plans for each device count of every offer, one
  // after the other, as one task of the pool, which reads the measurements of each.
  // `options.search_time_limit`, at most `Limits::max_search_duration`, is for all of them
  // together. Equal requests at the same time share one search.
  //
  // An answer whose searches all ended by themselves is kept, and returned at once while profiles
  // and calibration of the cluster are the same; one with a search that a limit cut off is not.
  // SEARCH_TIMED_OUT or SEARCH_OUT_OF_MEMORY if a search was cut off before its first plan and no
  // count can be recommended; SEARCH_TIMED_OUT if the deadline of the call passes, or is near when
  // a count is about to be tried. Neither `context` nor `done` may be null; `request` is not read
  // after the return.
  void ShapePlan(const std::shared_ptr<CallContext>& context, const v1::ShapePlanRequest& request,
                 const ShapeDone& done);

 private:
  struct ReadyShape {
    KnowledgeVersion version;
    SharedShape response;  // Marked `from_cache`.
  };
  struct Question;
  using SharedQuestion = std::shared_ptr<const Question>;

  using ShapeFlight = std::shared_ptr<Flight<SharedShape>>;

  absl::StatusOr<SharedQuestion> ReadQuestion(const v1::ShapePlanRequest& request,
                                              const ClusterName& parent, KnowledgeVersion version,
                                              std::string request_key,
                                              const std::string& owner) const;
  SharedShape FindReady(const std::string& request_key, const KnowledgeVersion& version);
  absl::Status StartSearch(const SharedQuestion& question, const ShapeFlight& flight);

  // Plans for every count of every offer, in order. Runs on a worker.
  absl::StatusOr<SharedShape> Shape(const Question& question, Flight<SharedShape>& flight,
                                    absl::Duration queue_duration,
                                    const std::function<bool()>& stopping);

  // Plans for one count of one offer, in `order.time_limit` from the call.
  absl::StatusOr<ShapeTry> Try(const Question& question, const v1::DeviceOffer& offer,
                               int device_count, SearchOrder order);

  Dependencies dependencies_;
  LruCache<ReadyShape> ready_shapes_;
  SingleFlight<SharedShape> flights_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SHAPE_CORE_H_
