#include "server/core/agent_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/core/core_fixture.h"
#include "tests/server/core/fakes.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records the messages that it receives.
class RecordingPeer : public AgentPeer {
 public:
  void Send(v1::ConnectAgentResponse message) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(message));
  }
  void Close(const absl::Status& status) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!end_.has_value()) end_ = status;
  }
  void Flush() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_.insert(told_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }

  // Returns the messages flushed since the last call.
  std::vector<v1::ConnectAgentResponse> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(told_, {});
  }
  std::optional<absl::Status> end() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return end_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<v1::ConnectAgentResponse> waiting_;
  std::vector<v1::ConnectAgentResponse> told_;
  std::optional<absl::Status> end_;
};

struct ConnectedNode {
  std::shared_ptr<RecordingPeer> peer = std::make_shared<RecordingPeer>();
  std::unique_ptr<AgentSession> session;
  absl::Status greeted;
};

v1::ConnectAgentRequest Hello(const std::string& node, const std::string& instance = "one") {
  v1::ConnectAgentRequest message;
  v1::AgentHello& hello = *message.mutable_hello();
  hello.set_node("clusters/lab/nodes/" + node);
  hello.set_instance_id(instance);
  hello.set_host("host-of-" + node);
  hello.set_device_kind("CPU");
  hello.set_device_count(2);
  return message;
}

v1::ConnectAgentRequest Ask(const std::vector<std::string>& nodes) {
  v1::ConnectAgentRequest message;
  v1::LeaseRequest& request = *message.mutable_request_lease();
  request.set_request_id("r");
  request.set_task("what to do");
  for (const std::string& node : nodes) request.add_node_ids(node);
  return message;
}

v1::ConnectAgentRequest OpenAt(const std::string& lease, int port) {
  v1::ConnectAgentRequest message;
  message.mutable_open_lease()->set_lease_id(lease);
  message.mutable_open_lease()->set_rendezvous_port(port);
  return message;
}

class AgentCoreTest : public testing::Test {
 protected:
  ConnectedNode Connect(const std::string& node, const std::string& instance = "one") {
    ConnectedNode result;
    result.session = core->StartSession(result.peer);
    result.greeted = result.session->Add(Hello(node, instance));
    return result;
  }

  // The lease of a and b, granted to a.
  v1::Lease Grant(ConnectedNode& a) {
    a.peer->Take();
    EXPECT_OK(a.session->Add(Ask({"a", "b"})));
    const auto told = a.peer->Take();
    if (told.size() != 1 || !told[0].has_lease_granted()) {
      ADD_FAILURE() << "not granted";
      return {};
    }
    return told[0].lease_granted();
  }

  FakeClock clock;
  RecordingObserver observer;
  MemoryStore store;
  CallGuard guard{store, AuditSink::Null()};
  std::unique_ptr<AgentCore> core = std::make_unique<AgentCore>(clock, observer, Limits(), guard);
};

// A call of the agent of node a in cluster lab, which may be an operator there too.
std::shared_ptr<CallContext> CallOfNodeA(bool is_operator) {
  HeldRole agent;
  agent.role = Role::kAgent;
  agent.clusters.ids = {"lab"};
  agent.nodes.ids = {"a"};
  std::vector<HeldRole> roles = {agent};
  if (is_operator) {
    HeldRole held;
    held.role = Role::kOperator;
    held.clusters.ids = {"lab"};
    roles.push_back(held);
  }
  return CallContext::Create("call", absl::InfiniteDuration(), Clock::Real(),
                             std::make_shared<const Caller>(Identity::Anonymous(), roles));
}

TEST_F(AgentCoreTest, AnAgentConnectsAsItsOwnNodeOnly) {
  for (const bool is_operator : {false, true}) {
    const auto peer = std::make_shared<RecordingPeer>();
    const auto session = core->StartSession(peer, CallOfNodeA(is_operator));
    EXPECT_THAT(session->Add(Hello("b")), StatusIs(absl::StatusCode::kPermissionDenied));
    EXPECT_THAT(peer->Take(), IsEmpty());
    EXPECT_OK(session->Add(Hello("a")));
  }
}

TEST_F(AgentCoreTest, BusyNodesAreLentToOperatorsOnly) {
  const ConnectedNode b = Connect("b");
  v1::ConnectAgentRequest busy;
  busy.mutable_heartbeat()->set_is_busy(true);
  ASSERT_OK(b.session->Add(busy));
  v1::ConnectAgentRequest ask = Ask({"a", "b"});
  ask.mutable_request_lease()->set_even_if_busy(true);
  for (const bool is_operator : {false, true}) {
    const auto peer = std::make_shared<RecordingPeer>();
    const auto session = core->StartSession(peer, CallOfNodeA(is_operator));
    ASSERT_OK(session->Add(Hello("a")));
    peer->Take();
    ASSERT_OK(session->Add(ask));
    const std::vector<v1::ConnectAgentResponse> answers = peer->Take();
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].has_lease_granted(), is_operator);
    EXPECT_EQ(answers[0].has_lease_refused(), !is_operator);
  }
}

TEST_F(AgentCoreTest, WelcomesAndLends) {
  ConnectedNode a = Connect("a");
  ConnectedNode b = Connect("b");
  ASSERT_OK(a.greeted);
  const auto welcome = a.peer->Take();
  ASSERT_EQ(welcome.size(), 1);
  EXPECT_EQ(welcome[0].welcome().heartbeat_time().seconds(), 15);
  b.peer->Take();
  const v1::Lease granted = Grant(a);
  EXPECT_EQ(granted.request_id(), "r");
  EXPECT_EQ(granted.rendezvous_address(), "");
  EXPECT_EQ(granted.token().size(), 32);
  EXPECT_EQ(granted.remaining_time().seconds(), 60);
  EXPECT_THAT(b.peer->Take(), IsEmpty());
  clock.Advance(absl::Seconds(10));
  ASSERT_OK(a.session->Add(OpenAt(granted.lease_id(), 4711)));
  for (ConnectedNode* node : {&a, &b}) {
    const auto told = node->peer->Take();
    ASSERT_EQ(told.size(), 1);
    const v1::Lease& opened = told[0].lease_opened();
    EXPECT_EQ(opened.lease_id(), granted.lease_id());
    EXPECT_EQ(opened.rendezvous_address(), "host-of-a:4711");
    EXPECT_EQ(opened.token(), granted.token());
    EXPECT_EQ(opened.task(), "what to do");
    EXPECT_EQ(opened.remaining_time().seconds(), 50);
    ASSERT_EQ(opened.nodes_size(), 2);
    EXPECT_EQ(opened.nodes(1).node_id(), "b");
    EXPECT_EQ(opened.nodes(1).device_count(), 2);
  }
  EXPECT_EQ(observer.leases(), 1);
  EXPECT_EQ(observer.agents(), 2);
  EXPECT_EQ(observer.agents_of("lab"), 2);
  EXPECT_EQ(observer.heard("lab"), clock.Now());
  b.session.reset();
  const auto told = a.peer->Take();
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0].lease_ended().cause(), v1::LEASE_END_CAUSE_AGENT_LOST);
  EXPECT_EQ(told[0].lease_ended().node_id(), "b");
  EXPECT_THAT(observer.lease_ends(), ElementsAre(LeaseOutcome::kAgentLost));
  EXPECT_EQ(observer.agents(), 1);
  EXPECT_EQ(observer.agents_of("lab"), 1);
}

TEST_F(AgentCoreTest, RefusalsSayWhichNodeAndWhen) {
  ConnectedNode a = Connect("a");
  a.peer->Take();
  ASSERT_OK(a.session->Add(Ask({"a", "b"})));
  const auto told = a.peer->Take();
  ASSERT_EQ(told.size(), 1);
  const v1::LeaseRefusal& refusal = told[0].lease_refused();
  EXPECT_EQ(refusal.request_id(), "r");
  EXPECT_EQ(refusal.cause(), v1::LEASE_REFUSAL_CAUSE_NODE_ABSENT);
  EXPECT_EQ(refusal.node_id(), "b");
  EXPECT_GT(refusal.retry_time().seconds(), 0);
}

TEST_F(AgentCoreTest, AnIpv6HostIsPutIntoBrackets) {
  ConnectedNode a;
  a.session = core->StartSession(a.peer);
  v1::ConnectAgentRequest hello = Hello("a");
  hello.mutable_hello()->set_host("fd00::1");
  ASSERT_OK(a.session->Add(hello));
  a.peer->Take();
  ASSERT_OK(a.session->Add(Ask({"a"})));
  const std::string lease = a.peer->Take()[0].lease_granted().lease_id();
  ASSERT_OK(a.session->Add(OpenAt(lease, 80)));
  EXPECT_EQ(a.peer->Take()[0].lease_opened().rendezvous_address(), "[fd00::1]:80");
}

TEST_F(AgentCoreTest, LeasesExpireAndSilentAgentsAreClosed) {
  ConnectedNode a = Connect("a");
  ConnectedNode b = Connect("b");
  Grant(a);
  for (int i = 0; i < 3; ++i) {
    clock.Advance(absl::Seconds(20));
    v1::ConnectAgentRequest heartbeat;
    heartbeat.mutable_heartbeat();
    ASSERT_OK(a.session->Add(heartbeat));
  }
  a.peer->Take();
  core->Tick();
  // The node that is silent takes the lease with it, if its time was not over anyway.
  const auto told = a.peer->Take();
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0].lease_ended().cause(), v1::LEASE_END_CAUSE_EXPIRED);
  ASSERT_TRUE(b.peer->end().has_value());
  EXPECT_THAT(*b.peer->end(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(a.peer->end().has_value());
}

TEST_F(AgentCoreTest, TheThreadOfTheCoreEndsWhatIsOver) {
  RecordingPeer* peer = nullptr;
  // A clock that is late for every deadline, as if a day went by between two looks.
  class HurriedClock : public Clock {
   public:
    absl::Time Now() const override { return absl::UnixEpoch(); }
    absl::Duration Steady() const override { return absl::Hours(24) * ++looks_; }

   private:
    mutable std::atomic<int> looks_ = 0;
  } hurried;
  AgentCore quick(hurried, observer, Limits(), guard);
  ConnectedNode a;
  peer = a.peer.get();
  a.session = quick.StartSession(a.peer);
  ASSERT_OK(a.session->Add(Hello("a")));
  while (!peer->end().has_value()) std::this_thread::yield();
  EXPECT_THAT(*peer->end(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  a.session.reset();
}

TEST_F(AgentCoreTest, DrainingEndsLeasesThenStreams) {
  ConnectedNode a = Connect("a");
  ConnectedNode b = Connect("b");
  Grant(a);
  core->Drain();
  const auto told = a.peer->Take();
  ASSERT_EQ(told.size(), 1);
  EXPECT_EQ(told[0].lease_ended().cause(), v1::LEASE_END_CAUSE_DRAINING);
  EXPECT_EQ(ReasonOf(*a.peer->end()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(*b.peer->end()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(Connect("c").greeted), Reason::kDraining);
}

TEST_F(AgentCoreTest, AListShowsWhoIsThere) {
  ConnectedNode b = Connect("b");
  ConnectedNode a = Connect("a");
  const v1::Lease lease = Grant(a);
  clock.Advance(absl::Seconds(7));
  v1::ListAgentsRequest request;
  request.set_parent("clusters/lab");
  ASSERT_OK_AND_ASSIGN(const v1::ListAgentsResponse list, core->List(request));
  ASSERT_EQ(list.agents_size(), 2);
  EXPECT_EQ(list.agents(0).node(), "clusters/lab/nodes/a");
  EXPECT_EQ(list.agents(0).lease_id(), lease.lease_id());
  EXPECT_EQ(list.agents(0).silent_time().seconds(), 7);
  request.set_parent("lab");
  EXPECT_THAT(core->List(request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(AgentCoreTest, MessagesThatBreakARuleNameTheirField) {
  const auto hello_field = [&](const auto& change) {
    v1::ConnectAgentRequest message = Hello("x");
    change(*message.mutable_hello());
    const auto session = core->StartSession(std::make_shared<RecordingPeer>());
    return FactOf(session->Add(message), "field");
  };
  using H = v1::AgentHello;
  EXPECT_EQ(hello_field([](H& h) { h.set_node("x"); }), "hello.node");
  EXPECT_EQ(hello_field([](H& h) { h.clear_instance_id(); }), "hello.instance_id");
  EXPECT_EQ(hello_field([](H& h) { h.set_host("two words"); }), "hello.host");
  EXPECT_EQ(hello_field([](H& h) { h.set_host(std::string(300, 'a')); }), "hello.host");
  EXPECT_EQ(hello_field([](H& h) { h.clear_device_kind(); }), "hello.device_kind");
  EXPECT_EQ(hello_field([](H& h) { h.set_device_count(0); }), "hello.device_count");
  EXPECT_EQ(hello_field([](H& h) { h.set_agent(std::string(129, 'a')); }), "hello.agent");
  for (const std::string& fingerprint :
       {std::string(65, 'a'), std::string(63, 'a'), std::string(64, 'A'), std::string(64, 'g'),
        std::string(64, '\n'), std::string("no digest")}) {
    EXPECT_EQ(hello_field([&](H& h) { h.set_inventory_fingerprint(fingerprint); }),
              "hello.inventory_fingerprint")
        << fingerprint;
  }
  const auto known = core->StartSession(std::make_shared<RecordingPeer>());
  v1::ConnectAgentRequest hello = Hello("y");
  hello.mutable_hello()->set_inventory_fingerprint("09af" + std::string(60, '0'));
  EXPECT_OK(known->Add(hello));

  const auto session = core->StartSession(std::make_shared<RecordingPeer>());
  EXPECT_EQ(FactOf(session->Add(Ask({"a"})), "field"), "hello");
  ConnectedNode a = Connect("a");
  const auto field = [&](const v1::ConnectAgentRequest& message) {
    return FactOf(a.session->Add(message), "field");
  };
  EXPECT_EQ(field(Hello("a")), "hello");
  EXPECT_EQ(field(Ask({"a", "no node"})), "request_lease.node_ids[1]");
  v1::ConnectAgentRequest message = Ask({"a"});
  message.mutable_request_lease()->clear_request_id();
  EXPECT_EQ(field(message), "request_lease.request_id");
  message = Ask({"a"});
  message.mutable_request_lease()->mutable_duration();
  EXPECT_EQ(field(message), "request_lease.duration");
  message = Ask({"a"});
  message.mutable_request_lease()->set_task(std::string(70000, 'a'));
  EXPECT_EQ(field(message), "request_lease.task");
  message.mutable_return_lease()->set_failure_reason(std::string(1025, 'a'));
  EXPECT_EQ(field(message), "return_lease.failure_reason");
  message.mutable_renew_lease()->set_lease_id("gone");
  EXPECT_EQ(field(message), "renew_lease.duration");
  EXPECT_OK(a.session->Add(v1::ConnectAgentRequest()));
}

// Agents connect, request, open, return and disconnect from many threads. In the end no agent is
// connected and every lease has ended.
TEST_F(AgentCoreTest, ManyThreadsLeaveNothingBehind) {
  constexpr int kThreads = 6;
  std::atomic<int> granted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        ConnectedNode node = Connect(absl::StrCat("n", t), absl::StrCat(t));
        if (!node.greeted.ok()) continue;
        static_cast<void>(
            node.session->Add(Ask({absl::StrCat("n", t), absl::StrCat("n", (t + 1) % kThreads)})));
        for (const v1::ConnectAgentResponse& told : node.peer->Take()) {
          if (!told.has_lease_granted()) continue;
          ++granted;
          static_cast<void>(node.session->Add(OpenAt(told.lease_granted().lease_id(), 1 + i)));
          v1::ConnectAgentRequest message;
          message.mutable_return_lease()->set_lease_id(told.lease_granted().lease_id());
          if (i % 3 > 0) static_cast<void>(node.session->Add(message));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(observer.agents(), 0);
  EXPECT_EQ(observer.agents_of("lab"), 0);
  EXPECT_EQ(observer.leases(), 0);
  EXPECT_EQ(static_cast<int>(observer.lease_ends().size()), granted);
}

}  // namespace
}  // namespace parplan
