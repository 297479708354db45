#include "tests/server/rpc/rpc_harness.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "proto/envelope/key_store.h"
#include "server/rpc/method_names.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/test_folder.h"

namespace parplan {
absl::Time ShiftedClock::Now() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Clock::Real().Now() + shift_;
}

absl::Duration ShiftedClock::Steady() const { return Clock::Real().Steady(); }

void ShiftedClock::Forward(absl::Duration shift) {
  const std::lock_guard<std::mutex> lock(mutex_);
  shift_ += shift;
}

PlannerFunction GatedPlanner::Function() {
  return [this](const PlanningProblem& problem, absl::string_view planner,
                const SearchControl& control) { return Find(problem, planner, control); };
}

void GatedPlanner::Shut() {
  const std::lock_guard<std::mutex> lock(mutex_);
  shut_ = true;
}

void GatedPlanner::Open() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    shut_ = false;
  }
  changed_.notify_all();
}

void GatedPlanner::WaitForArrivals(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, count] { return arrivals_ >= count; });
}

void GatedPlanner::WaitForStops(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, count] { return stops_ >= count; });
}

int GatedPlanner::arrivals() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return arrivals_;
}

absl::StatusOr<PlanningResult> GatedPlanner::Find(const PlanningProblem& problem,
                                                  absl::string_view planner,
                                                  const SearchControl& control) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ++arrivals_;
    changed_.notify_all();
    while (shut_) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
      lock.unlock();
      const bool stop = control.should_stop && control.should_stop();
      if (control.on_progress) control.on_progress(SearchProgress{});
      lock.lock();
      if (stop) {
        ++stops_;
        changed_.notify_all();
        return StoppedEmpty{};
      }
    }
  }
  return FindPlan(problem, planner, control);
}

absl::Status RecordingAudit::Write(const AuditRecord& record) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (holds_ && record.event != AuditRecord::Event::kRefusal) {
    ++held_count_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !holds_; });
    --held_count_;
  }
  if (broken_) {
    return MakeError(absl::StatusCode::kUnavailable, Reason::kAuditUnavailable, "broken");
  }
  records_.push_back(record);
  return absl::OkStatus();
}

void RecordingAudit::SetBroken(bool broken) {
  const std::lock_guard<std::mutex> lock(mutex_);
  broken_ = broken;
}

void RecordingAudit::Hold(bool holds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  holds_ = holds;
  changed_.notify_all();
}

void RecordingAudit::AwaitHeld() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return held_count_ > 0; });
}

std::vector<AuditRecord> RecordingAudit::records() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return records_;
}

Limits RpcHarness::TestLimits() {
  Limits limits;
  limits.worker_count = 1;
  return limits;
}

RpcHarness::RpcHarness(const Limits& limits, const PlannerFunction& planner,
                       absl::Duration default_deadline, int port)
    : observer_(PlannerNames(), MethodNames()) {
  auto store = std::make_unique<MemoryStore>();
  store_ = store.get();
  absl::StatusOr<KeyStore> keys = KeyStore::OpenOrCreate(MakeTestFolder(), clock_.Now());
  PARPLAN_CHECK(keys.ok());
  core_ = std::make_unique<ServerCore>(std::move(store),
                                       std::make_unique<KeyRing>(*std::move(keys), clock_.Now()),
                                       limits, clock_, observer_, planner, nullptr, audit_);
  RpcServerOptions options;
  options.authorizer = authorizer_;
  options.listen_address = absl::StrCat("127.0.0.1:", port);
  options.default_deadline = default_deadline;
  options.logger = [this](const CallRecord& record) {
    const std::lock_guard<std::mutex> lock(mutex_);
    records_.push_back(record);
  };
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(*core_, options);
  PARPLAN_CHECK(server.ok());
  server_ = *std::move(server);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments);
  plans_ = std::make_unique<PlanClient>(channel_);
  profiles_ = std::make_unique<ProfileClient>(channel_);
  executions_ = std::make_unique<ExecutionClient>(channel_);
}

// Calls that end with the server are still recorded.
RpcHarness::~RpcHarness() { server_.reset(); }

std::string RpcHarness::address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

absl::StatusOr<v1::Profile> RpcHarness::UploadSmallProfile() {
  return profiles_->Upload(kNode, SmallProfile());
}

void RpcHarness::Allow(const std::vector<Grant>& grants,
                       std::shared_ptr<const TokenVerifier> tokens) {
  absl::StatusOr<Policy> policy = Policy::Create(grants, "grants");
  PARPLAN_CHECK(policy.ok());
  authorizer_->Replace({.policy = *std::move(policy), .tokens = std::move(tokens)});
}

std::vector<CallRecord> RpcHarness::records() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return records_;
}

}  // namespace parplan
