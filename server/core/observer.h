// What the server tells about itself while it works. The core speaks, server/
// metrics counts; so the core knows no metrics library, and labels can come from
// nothing but these enums.

#ifndef PARPLAN_SERVER_CORE_OBSERVER_H_
#define PARPLAN_SERVER_CORE_OBSERVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "planner/base/error.h"
#include "planner/base/units.h"

namespace parplan {

// Every method of the API.
enum class Method {
  kUploadProfile,
  kGetProfile,
  kListProfiles,
  kDeleteProfile,
  kShapePlan,
  kCreatePlan,
  kSearchPlan,
  kGetPlan,
  kListPlans,
  kVerifyPlan,
  kGetCapabilities,
  kCreateExecution,
  kReportMetrics,
  kCompleteExecution,
  kFailExecution,
  kGetExecution,
  kListExecutions,
  kUploadCalibration,
  kGetCalibration,
  kListCalibrations,
  kActivateCalibration,
  kGetActiveCalibration,
  kConnectAgent,
  kListAgents,
};
inline constexpr int kMethodCount = 24;

// Answers kept in memory.
enum class CacheKind {
  // Signed plans, by the bytes of the request.
  kPlan,
  // Answers of the planner, by plan key.
  kResult,
  // Answers of `ShapePlan`.
  kShape,
  // Merged measurements.
  kSnapshot,
};
inline constexpr int kCacheKindCount = 4;

// How a search ended.
enum class SearchOutcome {
  kOptimal,
  // A plan whose optimality the planner does not prove, or not in time.
  kFeasible,
  kNothingFits,
  // A limit came before the first plan.
  kStoppedEmpty,
  // Measurements are missing, or the question is refused by the planner.
  kRefused,
  // The answer failed the independent check: our fault.
  kCheckFailed,
};
inline constexpr int kSearchOutcomeCount = 6;

// One search of one planner.
struct SearchReport {
  // A name of `PlannerNames()`.
  std::string planner;
  SearchOutcome outcome = SearchOutcome::kFeasible;
  absl::Duration queue_duration;
  absl::Duration wall_duration;
  absl::Duration cpu_duration;
  int64_t expanded_state_count = 0;
};

// One plan that was signed and stored.
struct PlanReport {
  std::string planner;
  Seconds predicted_step;
  double predicted_samples_per_second = 0.0;
  Bytes predicted_peak_memory;
  // What one device may hold, headroom taken off.
  Bytes usable_memory;
  // Since the newest measurement the plan rests on; absent when unknown.
  std::optional<absl::Duration> profile_age;
};

// Verdicts of `VerifyPlan`, as in plan_service.proto.
enum class VerifyOutcome {
  kValid,
  kBadSignature,
  kMalformed,
  kExpired,
  kWrongAudience,
  kWrongTopology,
};
inline constexpr int kVerifyOutcomeCount = 6;

// How a lease of nodes ended.
enum class LeaseOutcome { kReturned, kGivenUp, kExpired, kAgentLost, kDraining };
inline constexpr int kLeaseOutcomeCount = 5;

// Why nodes were not lent.
enum class LeaseRefusalKind { kNodeAbsent, kNodeLent, kNodeBusy };
inline constexpr int kLeaseRefusalKindCount = 3;

// Called from any thread, also while locks of the core are held: returns at once
// and calls nothing of the core. Every method has an empty default.
class Observer {
 public:
  virtual ~Observer() = default;

  // A call has begun; `CallFinished` follows. By server/rpc as well.
  virtual void CallStarted(Method) {}

  // A call has its answer. `reason` is absent for OK and for errors of the
  // transport. Called by server/rpc, which alone sees all calls.
  virtual void CallFinished(Method, absl::StatusCode, std::optional<Reason>, absl::Duration) {}

  // Searches waiting and running now.
  virtual void QueueChanged(int /*waiting*/, int /*running*/) {}

  // A look into a cache.
  virtual void CacheLookedUp(CacheKind, bool /*hit*/) {}

  // A call found its question in flight and waits for that search.
  virtual void SearchShared() {}

  virtual void SearchFinished(const SearchReport&) {}
  virtual void PlanIssued(const PlanReport&) {}

  // An upload was stored, or refused (`reason` is absent when it was given up);
  // its bytes so far.
  virtual void UploadFinished(std::optional<Reason> /*reason*/, bool /*stored*/,
                              int64_t /*bytes*/) {}

  virtual void PlanVerified(VerifyOutcome) {}

  // An execution ended: measured over predicted step time, absent when it never
  // reported.
  virtual void ExecutionClosed(bool /*succeeded*/, std::optional<double> /*ratio*/) {}
  // Of an execution that ended, where it was measured and predicted: memory of the fullest
  // device, and of each stage the time of a phase and the memory of an item, by the numbers
  // and names of the contract.
  virtual void PeakMemoryMeasured(double /*ratio*/) {}
  virtual void PhaseMeasured(int /*phase*/, double /*ratio*/) {}
  virtual void MemoryItemMeasured(int /*kind*/, double /*ratio*/) {}
  virtual void WindowsStored(int64_t /*count*/) {}

  // Agents connected, and leases that go on, now.
  virtual void AgentsChanged(int /*agent_count*/, int /*lease_count*/) {}
  virtual void LeaseEnded(LeaseOutcome, absl::Duration /*since_grant*/) {}
  virtual void LeaseRefused(LeaseRefusalKind) {}

  // An observer that listens to nothing. Lives as long as the process.
  static Observer& Null();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_OBSERVER_H_
