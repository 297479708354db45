// What the server tells about itself while it works. The core speaks, server/
// metrics counts; so the core knows no metrics library, and labels can come from
// nothing but these enums and the names of methods.

#ifndef PARPLAN_SERVER_CORE_OBSERVER_H_
#define PARPLAN_SERVER_CORE_OBSERVER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/units.h"
#include "planner/model/profile_snapshot.h"
#include "server/core/store_operation.h"

namespace parplan {

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
  // Predicted step time of the best baseline over that of the plan, where the caller asked
  // for the comparison and a baseline has a plan: 1.2 is a fifth faster.
  std::optional<double> baseline_gain;
};

// Which links a collective went over when it was measured.
enum class LinkReach { kWithinNode, kAcrossNodes };
inline constexpr int kLinkReachCount = 2;

// What one link carries, for messages as large as were measured.
struct MeasuredBandwidth {
  LinkReach reach = LinkReach::kWithinNode;
  Collective collective = Collective::kAllReduce;
  BusBandwidth bandwidth = BusBandwidth::BytesPerSecond(0.0);
};
inline constexpr int kCollectiveCount = 6;

// Measurements of one kind of node that plans of a cluster rest on from now on.
struct SnapshotReport {
  std::string cluster;
  std::string device_kind;
  int devices_per_node = 0;
  // The end of the newest of them.
  absl::Time newest_measurement;
  std::vector<MeasuredBandwidth> bandwidths;
};

// One kind of node of which a cluster has profiles stored, and when the newest was measured.
struct StoredKind {
  std::string device_kind;
  int devices_per_node = 0;
  absl::Time newest_measurement;
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
  virtual void CallStarted(absl::string_view /*method*/) {}

  // A call has its answer. `reason` is absent for OK and for errors of the
  // transport. Called by server/rpc, which alone sees all calls.
  virtual void CallFinished(absl::string_view /*method*/, absl::StatusCode, std::optional<Reason>,
                            absl::Duration) {}

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

  // A profile was stored that was measured at `newest_measurement`; the bandwidths are
  // empty. Then, when a question needs them, its measurements merged with others.
  virtual void ProfileStored(const SnapshotReport&) {}
  virtual void SnapshotLoaded(const SnapshotReport&) {}
  // All kinds of nodes of which the cluster has profiles now; none where the last was deleted.
  // Whoever stored or deleted them; within a round of maintenance.
  virtual void ProfilesSeen(absl::string_view /*cluster*/, const std::vector<StoredKind>&) {}

  // Since when the cluster has its active calibration; absent where it has none. Told again
  // and again.
  virtual void CalibrationSeen(absl::string_view /*cluster*/,
                               std::optional<absl::Time> /*active_since*/) {}

  virtual void PlanVerified(VerifyOutcome) {}

  // An execution of a plan of the cluster ended: measured over predicted step time, absent
  // when it never reported.
  virtual void ExecutionClosed(absl::string_view /*cluster*/, bool /*succeeded*/,
                               std::optional<double> /*ratio*/) {}
  // Of an execution that ended, where it was measured and predicted: memory of the fullest
  // device, and of each stage the time of a phase and the memory of an item, by the numbers
  // and names of the contract.
  virtual void PeakMemoryMeasured(absl::string_view /*cluster*/, double /*ratio*/) {}
  virtual void PhaseMeasured(int /*phase*/, double /*ratio*/) {}
  virtual void MemoryItemMeasured(int /*kind*/, double /*ratio*/) {}
  virtual void WindowsStored(int64_t /*count*/) {}

  // Agents connected, and leases that go on, now.
  virtual void AgentsChanged(int /*agent_count*/, int /*lease_count*/) {}
  // Of them, the agents of one cluster.
  virtual void ClusterAgentsChanged(absl::string_view /*cluster*/, int /*agent_count*/) {}
  // An agent of the cluster gave a sign of life.
  virtual void AgentHeard(absl::string_view /*cluster*/, absl::Time) {}
  virtual void LeaseEnded(LeaseOutcome, absl::Duration /*since_grant*/) {}
  virtual void LeaseRefused(LeaseRefusalKind) {}

  // A method of the store returned.
  virtual void StoreCalled(StoreOperation, absl::StatusCode, absl::Duration) {}

  // When the last of the keys that sign plans, or will, ends.
  virtual void SigningKeysSeen(absl::Time /*last_expiry*/) {}

  // An observer that listens to nothing. Lives as long as the process.
  static Observer& Null();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_OBSERVER_H_
