// Events of the server for those who watch it. The core, server/rpc and server/main report them,
// and server/metrics counts them, so that the core knows no metrics library.

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

// The caches of the server.
enum class CacheKind {
  // Signed plans, by `RequestKey` (plan_question.h).
  kPlan,
  // Answers of the planner, by `PlanQuestion::answer_key`.
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
  // A plan was found whose optimality the planner did not prove, or not in time.
  kFeasible,
  kNothingFits,
  // A limit ended the search before the first plan.
  kStoppedEmpty,
  // Measurements are missing, or the planner refused the question.
  kRefused,
  // The answer failed the independent check: a fault of the server.
  kCheckFailed,
};
inline constexpr int kSearchOutcomeCount = 6;

// One search of one planner.
struct SearchReport {
  // A name of `PlannerNames()`.
  std::string planner;
  SearchOutcome outcome = SearchOutcome::kFeasible;
  // Time that the question waited for its turn: 0 for a baseline, and the same for each count of a
  // `ShapePlan`.
  absl::Duration queue_duration;
  // Wall time, and processor time of all its threads, both without the check of the answer.
  absl::Duration wall_duration;
  absl::Duration cpu_duration;
  // Partial plans that the search expanded; 0 if the planner gave no answer.
  int64_t expanded_state_count = 0;
};

// One plan that was signed and stored.
struct PlanReport {
  // Name of the planner, and the figures of the plan's prediction.
  std::string planner;
  Seconds predicted_step;
  double predicted_samples_per_second = 0.0;
  Bytes predicted_peak_memory;
  // Memory that a plan may use on one device: less than the device has by the headroom.
  Bytes usable_memory;
  // Time since the newest measurement that the plan rests on; absent if unknown.
  std::optional<absl::Duration> profile_age;
  // Predicted step time of the best baseline over that of the plan; 1.2 means that the baseline
  // takes a fifth longer. Absent unless the caller asked for the comparison and a baseline has a
  // plan.
  std::optional<double> baseline_gain;
};

// The links that a collective used when it was measured.
enum class LinkReach { kWithinNode, kAcrossNodes };
inline constexpr int kLinkReachCount = 2;

// Bandwidth of a collective at the largest message that was measured.
struct MeasuredBandwidth {
  LinkReach reach = LinkReach::kWithinNode;
  Collective collective = Collective::kAllReduce;
  BusBandwidth bandwidth = BusBandwidth::BytesPerSecond(0.0);
};
// Number of collectives; they are counted from 1. server/rpc/status_to_grpc.cc asserts it.
inline constexpr int kCollectiveCount = 6;

// Merged measurements of one kind of node, on which plans of the cluster rest from now on.
struct SnapshotReport {
  std::string cluster;
  std::string device_kind;
  int devices_per_node = 0;
  // End of the newest of them.
  absl::Time newest_measurement;
  std::vector<MeasuredBandwidth> bandwidths;
};

// A kind of node that has stored profiles in a cluster, and the end of the newest measurement.
struct StoredKind {
  std::string device_kind;
  int devices_per_node = 0;
  absl::Time newest_measurement;
};

// Verdicts of `VerifyPlan` (plan_service.proto).
enum class VerifyOutcome {
  kValid,
  kBadSignature,
  kMalformed,
  kExpired,
  kWrongAudience,
  kWrongTopology,
};
inline constexpr int kVerifyOutcomeCount = 6;

// How a lease of nodes ended: its host returned it, a node gave it up, its time was over, a node's
// agent left or fell silent, or the server shuts down.
enum class LeaseOutcome { kReturned, kGivenUp, kExpired, kAgentLost, kDraining };
inline constexpr int kLeaseOutcomeCount = 5;

// Reasons why nodes were not lent: a node has no agent, is in another lease, or runs a job.
enum class LeaseRefusalKind { kNodeAbsent, kNodeLent, kNodeBusy };
inline constexpr int kLeaseRefusalKindCount = 3;

// Receives the events. The server's one is `PrometheusObserver` (server/metrics). Called from any
// thread, also while locks of the core are held: methods must return at once and must not call the
// core. Every method does nothing by default.
class Observer {
 public:
  virtual ~Observer() = default;

  // A call has begun; `CallFinished` follows. Called by server/rpc.
  virtual void CallStarted(absl::string_view /*method*/) {}

  // A call has its answer. `reason` is absent for OK and for errors of the transport; the duration
  // is from the first byte of the call to its answer. Called by server/rpc, which alone sees all
  // calls.
  virtual void CallFinished(absl::string_view /*method*/, absl::StatusCode, std::optional<Reason>,
                            absl::Duration) {}

  // A call was broken off because its client did not read the answer, after `CallFinished` or
  // before it. Called by server/rpc.
  virtual void AnswerBrokenOff() {}

  // The numbers of searches that wait and run may have changed.
  virtual void QueueChanged(int /*waiting*/, int /*running*/) {}

  // A cache was looked into.
  virtual void CacheLookedUp(CacheKind, bool /*hit*/) {}

  // A call waits for a search in flight of an equal question, or a search was not begun because
  // another server on the store had its answer.
  virtual void SearchShared() {}

  // A search of a planner, one of a comparison included, has ended.
  virtual void SearchFinished(const SearchReport&) {}
  // A plan was signed and stored. Not called for a plan that was issued before.
  virtual void PlanIssued(const PlanReport&) {}

  // An upload ended: stored, refused, or given up. The reason is absent if it was stored or given
  // up, and for an error without one. The bytes are those that came so far.
  virtual void UploadFinished(std::optional<Reason> /*reason*/, bool /*stored*/,
                              int64_t /*bytes*/) {}

  // A profile was stored; the report is about it alone and has no bandwidths.
  virtual void ProfileStored(const SnapshotReport&) {}
  // The measurements of a kind of node were merged because a question needs them; the report has
  // their bandwidths.
  virtual void SnapshotLoaded(const SnapshotReport&) {}
  // All kinds of nodes with profiles in the cluster, reported once after the start and when
  // profiles were added or deleted; none if the last was deleted. Also reports changes by other
  // servers on the store, after at most one round of maintenance.
  virtual void ProfilesSeen(absl::string_view /*cluster*/, const std::vector<StoredKind>&) {}

  // Since when the cluster has its active calibration; absent if it has none. Reported repeatedly.
  virtual void CalibrationSeen(absl::string_view /*cluster*/,
                               std::optional<absl::Time> /*active_since*/) {}

  // `VerifyPlan` has its verdict.
  virtual void PlanVerified(VerifyOutcome) {}

  // An execution of a plan of the cluster ended. The ratio is measured over predicted step time,
  // absent if it never reported or nothing was predicted.
  virtual void ExecutionClosed(absl::string_view /*cluster*/, bool /*succeeded*/,
                               std::optional<double> /*ratio*/) {}
  // Ratios of measured to predicted values of an execution that ended, if it has both: memory of
  // the fullest device, and for each stage the time of a phase and the memory of an item, by the
  // numbers of the contract.
  virtual void PeakMemoryMeasured(absl::string_view /*cluster*/, double /*ratio*/) {}
  virtual void PhaseMeasured(int /*phase*/, double /*ratio*/) {}
  virtual void MemoryItemMeasured(int /*kind*/, double /*ratio*/) {}
  // So many windows, none of them a duplicate, were stored.
  virtual void WindowsStored(int64_t /*count*/) {}

  // The numbers of connected agents and of leases may have changed.
  virtual void AgentsChanged(int /*agent_count*/, int /*lease_count*/) {}
  // The number of connected agents of one cluster has changed.
  virtual void ClusterAgentsChanged(absl::string_view /*cluster*/, int /*agent_count*/) {}
  // An agent of the cluster sent a message, at this time.
  virtual void AgentHeard(absl::string_view /*cluster*/, absl::Time) {}
  // A lease of nodes has ended so long after it was granted.
  virtual void LeaseEnded(LeaseOutcome, absl::Duration /*since_grant*/) {}
  // Nodes were not lent.
  virtual void LeaseRefused(LeaseRefusalKind) {}

  // A method of the store returned.
  virtual void StoreCalled(StoreOperation, absl::StatusCode, absl::Duration) {}

  // It was tried whether changes can be stored. Reported when it may have changed, and repeatedly.
  virtual void StoreTried(bool /*can_write*/) {}

  // When the last key that signs plans, or will sign, expires. Reported repeatedly.
  virtual void SigningKeysSeen(absl::Time /*last_expiry*/) {}
  // So many keys sign plans now; with 0 no plan can be made. Reported repeatedly.
  virtual void SigningKeysCounted(int /*count*/) {}

  // So many records could not be written to the audit log. Called by server/main, which has the
  // log.
  virtual void AuditFailed(int64_t /*record_count*/) {}

  // Returns an observer that ignores everything. It lives as long as the process.
  static Observer& Null();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_OBSERVER_H_
