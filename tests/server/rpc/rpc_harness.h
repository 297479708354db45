// A server in this process, on a port of its own, and what tests need to look at
// it from both sides.

#ifndef PARPLAN_TESTS_SERVER_RPC_RPC_HARNESS_H_
#define PARPLAN_TESTS_SERVER_RPC_RPC_HARNESS_H_

#include <grpcpp/channel.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "clients/cpp/execution_client.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/profile_client.h"
#include "planner/find_plan.h"
#include "server/access/authorizer.h"
#include "server/access/policy.h"
#include "server/access/token_verifier.h"
#include "server/audit/audit_record.h"
#include "server/core/server_core.h"
#include "server/metrics/prometheus_observer.h"
#include "server/rpc/rpc_server.h"
#include "tests/support/memory_store.h"

namespace parplan {

// The machine's clocks, with a time of day that can be put forward.
class ShiftedClock : public Clock {
 public:
  absl::Time Now() const override;
  absl::Duration Steady() const override;
  void Forward(absl::Duration shift);

 private:
  mutable std::mutex mutex_;
  absl::Duration shift_;  // Guarded by mutex_.
};

// `FindPlan` behind a gate. While the gate is shut, a search waits before it, calls `should_stop`
// as a search does, and ends without a plan when that returns true.
class GatedPlanner {
 public:
  // The planner to give to a core; the gate outlives it.
  PlannerFunction Function();

  void Shut();
  void Open();

  // Waits until so many searches have come to the gate since the beginning.
  void WaitForArrivals(int count);
  // Waits until so many searches have given up.
  void WaitForStops(int count);
  int arrivals() const;

 private:
  absl::StatusOr<PlanningResult> Find(const PlanningProblem& problem, absl::string_view planner,
                                      const SearchControl& control);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;  // Guarded by mutex_, as the rest.
  int arrivals_ = 0;
  int stops_ = 0;
};

// An audit log in memory, which can be made to fail, and to wait as one whose disk hangs.
class RecordingAudit : public AuditSink {
 public:
  absl::Status Write(const AuditRecord& record) override;
  // Every write fails from now on, or no more.
  void SetBroken(bool broken);
  // Every write but those of refusals waits from now on, or no more.
  void Hold(bool holds);
  // Waits until a write waits.
  void AwaitHeld();
  std::vector<AuditRecord> records() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool broken_ = false;  // Guarded by mutex_, as the rest.
  bool holds_ = false;
  int held_count_ = 0;
  std::vector<AuditRecord> records_;
};

class RpcHarness {
 public:
  // Port 0 is a free one.
  explicit RpcHarness(const Limits& limits = TestLimits(),
                      const PlannerFunction& planner = &FindPlan,
                      absl::Duration default_deadline = absl::Minutes(10), int port = 0);
  ~RpcHarness();

  // One worker, so that tests know what runs.
  static Limits TestLimits();

  // A channel that repeats nothing, so that a test sees the first error.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  std::string address() const;

  PlanClient& plans() { return *plans_; }
  ProfileClient& profiles() { return *profiles_; }
  ExecutionClient& executions() { return *executions_; }

  // Uploads `SmallProfile`.
  absl::StatusOr<v1::Profile> UploadSmallProfile();

  ServerCore& core() { return *core_; }
  RpcServer& server() { return *server_; }
  MemoryStore& store() { return *store_; }
  ShiftedClock& clock() { return clock_; }
  PrometheusObserver& observer() { return observer_; }
  RecordingAudit& audit() { return audit_; }

  // From now on callers may do what `grants` say; at first everything. Their tokens are read if
  // `tokens` is not null.
  void Allow(const std::vector<Grant>& grants,
             std::shared_ptr<const TokenVerifier> tokens = nullptr);

  // Records of ended calls, in the order of their ends.
  std::vector<CallRecord> records() const;

 private:
  ShiftedClock clock_;
  PrometheusObserver observer_;
  RecordingAudit audit_;
  const std::shared_ptr<Authorizer> authorizer_ = std::make_shared<Authorizer>(AccessRules());
  MemoryStore* store_ = nullptr;  // Owned by the core.
  std::unique_ptr<ServerCore> core_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<PlanClient> plans_;
  std::unique_ptr<ProfileClient> profiles_;
  std::unique_ptr<ExecutionClient> executions_;

  mutable std::mutex mutex_;
  std::vector<CallRecord> records_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_RPC_RPC_HARNESS_H_
