// The whole core, put together in the order in which its parts need each other.
// What server/rpc is given.

#ifndef PARPLAN_SERVER_CORE_SERVER_CORE_H_
#define PARPLAN_SERVER_CORE_SERVER_CORE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "server/core/agent_core.h"
#include "server/core/calibration_core.h"
#include "server/core/execution_core.h"
#include "server/core/key_ring.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"
#include "server/core/observer.h"
#include "server/core/plan_core.h"
#include "server/core/profile_keeper.h"
#include "server/core/search_pool.h"
#include "server/core/shape_core.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

// Safe to use from any thread.
class ServerCore {
 public:
  // `clock` and `observer` outlive the core. `planner` is for tests. `turns` are those of
  // the servers that share `store`; null where there is one.
  ServerCore(std::unique_ptr<Store> store, std::unique_ptr<KeyRing> keys, const Limits& limits,
             const Clock& clock = Clock::Real(), Observer& observer = Observer::Null(),
             PlannerFunction planner = &FindPlan, std::unique_ptr<Turns> turns = nullptr);

  // As `Drain(0)`.
  ~ServerCore();

  ProfileKeeper& profiles() { return profiles_; }
  CalibrationCore& calibrations() { return calibrations_; }
  PlanCore& plans() { return plans_; }
  ShapeCore& shapes() { return shapes_; }
  ExecutionCore& executions() { return executions_; }
  AgentCore& agents() { return agents_; }
  KeyRing& keys() { return *keys_; }
  Store& store() { return *store_; }
  const Limits& limits() const { return limits_; }
  const Clock& clock() const { return clock_; }
  Observer& observer() { return observer_; }

  // Household work, to be called at start and every `maintenance_interval`: makes a
  // new signing key when the old ones end soon, forgets plans that expired long ago
  // (`kExpiredPlanRetention`) and were never executed, and fails executions that are
  // silent for too long. Gives the first error, and does the rest all the same.
  absl::Status Maintain();
  // An hour; shorter where executions may be silent for a few hours only.
  absl::Duration maintenance_interval() const;
  static constexpr absl::Duration kExpiredPlanRetention = absl::Hours(24 * 30);

  // New searches are refused (DRAINING) from now on; what is in flight goes on,
  // and everything answered without a search is still served. Streams of agents end,
  // and with them their leases. The transport
  // calls it first when it is told to end, then stops taking calls, then
  // `Drain`s.
  void StopTaking();

  // `StopTaking`, then gives searches `grace` to end by themselves; then they end
  // with the best plan so far. After it no thread of the core runs.
  void Drain(absl::Duration grace);

 private:
  const std::unique_ptr<Store> store_;
  const std::unique_ptr<KeyRing> keys_;
  const Limits limits_;
  const Clock& clock_;
  Observer& observer_;
  ProfileKeeper profiles_;
  CalibrationCore calibrations_;
  KnowledgeKeeper knowledge_;
  ExecutionCore executions_;
  AgentCore agents_;
  SearchPool pool_;
  PlanCore plans_;
  ShapeCore shapes_;
  // Calls plans and pool until it is gone.
  const std::unique_ptr<Turns> turns_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SERVER_CORE_H_
