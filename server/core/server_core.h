// The parts of the core, created in the order in which they depend on each other. server/rpc serves
// it. server/main/main.cc makes one.

#ifndef PARPLAN_SERVER_CORE_SERVER_CORE_H_
#define PARPLAN_SERVER_CORE_SERVER_CORE_H_

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "server/audit/audit_record.h"
#include "server/core/agent_core.h"
#include "server/core/calibration_core.h"
#include "server/core/call_guard.h"
#include "server/core/clock_check.h"
#include "server/core/execution_core.h"
#include "server/core/key_ring.h"
#include "server/core/knowledge_keeper.h"
#include "server/core/limits.h"
#include "server/core/metered_store.h"
#include "server/core/observer.h"
#include "server/core/plan_core.h"
#include "server/core/profile_keeper.h"
#include "server/core/quota_keeper.h"
#include "server/core/search_pool.h"
#include "server/core/shape_core.h"
#include "server/store/store.h"
#include "server/store/turns.h"

namespace parplan {

// Safe to use from any thread.
class ServerCore {
 public:
  // `store` and `keys` are not null; `clock`, `observer` and `audit` outlive the core. Only tests
  // give another `planner`. `turns` are those of the servers that share `store`; null for a single
  // server.
  ServerCore(std::unique_ptr<Store> store, std::unique_ptr<KeyRing> keys, const Limits& limits,
             const Clock& clock = Clock::Real(), Observer& observer = Observer::Null(),
             const PlannerFunction& planner = &FindPlan, std::unique_ptr<Turns> turns = nullptr,
             AuditSink& audit = AuditSink::Null());

  // Calls `Drain(0)`.
  ~ServerCore();

  // The parts of the core, valid as long as the core.
  CallGuard& guard() { return guard_; }
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

  // Makes a new signing key if the old ones end soon, looks whether a key signs (`CheckSigning`)
  // and whether changes can be stored (`CheckWriting`), marks executions as failed that are silent
  // for too long, finds the coverage of old profiles (`ProfileKeeper::CoverOldProfiles`), reports
  // keys to the observer, and stored kinds of nodes once all coverages are found. Deletes
  // executions that ended long ago (`Limits::execution_retention`) and plans that expired long ago
  // (`kExpiredPlanRetention`) and have no executions, if the time of day is confirmed
  // (`ClockCheck`), so never at the first call. To be called at start and every
  // `maintenance_interval`, by one thread; waits for the disk. Returns the first error, of the key
  // store or the store, after the other tasks were tried as well. A task with many records ends
  // after a few transactions, and after the one in progress once `StopTaking` was called.
  absl::Status Maintain();
  // Returns whether the last `Maintain` left records that the next one need not wait to work on.
  bool has_more_to_maintain() const { return has_more_to_maintain_; }
  // Returns OK if a key signs plans now. If none does it tries to make one, and returns the error
  // of the key store (FAILED_PRECONDITION or UNAVAILABLE, STORE_UNAVAILABLE) if that fails. Reports
  // the number of keys to the observer. To be called every few seconds; uses the disk only if no
  // key signs.
  absl::Status CheckSigning();
  // Returns OK if changes can be stored, as far as is known. Tries it if a change failed with
  // UNAVAILABLE since the last call, if that call found that none can, and with `always`; then it
  // waits for the disk, reports the result to the observer, and returns the error of
  // `Store::TryWrite`. To be called every few seconds.
  absl::Status CheckWriting(bool always = false);
  // Returns a sixth of `Limits::longest_execution_silence`, at least a second and at most an hour.
  absl::Duration maintenance_interval() const;
  // Time for which an expired plan is kept at least, unless a quota needs its room before
  // (`QuotaKeeper`).
  static constexpr absl::Duration kExpiredPlanRetention = absl::Hours(24 * 30);

  // Refuses new searches (DRAINING) from now on. Searches in flight go on, and calls that need no
  // search are still answered. Streams of agents end, and with them their leases, and `Maintain`
  // changes no further records. When the transport shuts down it calls this first, then refuses
  // calls, then calls `Drain`.
  void StopTaking();

  // Calls `StopTaking`, and gives searches `grace` to end by themselves, those that wait included.
  // After that those that run end with the best plan so far, and those that wait with DRAINING.
  // When it returns, no search runs.
  void Drain(absl::Duration grace);

 private:
  // Calls `step`, which returns whether there is more to do, until there is not, `StopTaking` was
  // called, or it is enough for one `Maintain`: then sets `has_more`. Returns the error of `step`.
  absl::Status Repeat(const std::function<absl::StatusOr<bool>()>& step, bool& has_more) const;

  // Delete a batch of what is old at `now`, and return whether there may be more.
  absl::StatusOr<bool> DeleteOldExecutions(absl::Time now);
  absl::StatusOr<bool> DeleteExpiredPlans(absl::Time now);

  const std::unique_ptr<MeteredStore> store_;
  std::atomic<bool> can_write_ = true;
  std::atomic<bool> has_more_to_maintain_ = false;
  std::atomic<bool> is_stopping_ = false;
  const std::unique_ptr<KeyRing> keys_;
  const Limits limits_;
  const Clock& clock_;
  Observer& observer_;
  ClockCheck clock_check_;  // Of `Maintain`.
  CallGuard guard_;
  QuotaKeeper quotas_;
  ProfileKeeper profiles_;
  CalibrationCore calibrations_;
  KnowledgeKeeper knowledge_;
  ExecutionCore executions_;
  AgentCore agents_;
  SearchPool pool_;
  PlanCore plans_;
  ShapeCore shapes_;
  // Calls plans and pool until it is destroyed, so it is destroyed first.
  const std::unique_ptr<Turns> turns_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SERVER_CORE_H_
