// Agents and a real server in one process, over loopback.

#include "profiler-agent/lease/lease_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/device/comm/rendezvous.h"
#include "executor/device/comm/rendezvous_server.h"
#include "profiler-agent/replicas/replica_order.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/reserved_port.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(5);

// Records the callbacks of one node's agent, and waits for them.
class Node {
 public:
  Node(RpcHarness& harness, const std::string& id) : Node(harness.address(), id) {}

  Node(const std::string& target, const std::string& id) : id_(id) {
    LeaseAgentOptions options;
    options.machine.hello.set_node("clusters/lab/nodes/" + id);
    options.machine.hello.set_host("127.0.0.1");
    options.machine.hello.set_device_kind("CPU");
    options.machine.hello.set_device_count(1);
    options.machine.backoff = {.first_pause = absl::Milliseconds(5),
                               .longest_pause = absl::Milliseconds(50)};
    options.machine.connect_patience = kPatience;
    options.machine.look_interval = absl::Milliseconds(50);
    options.on_opened = [this](const v1::Lease& lease) {
      const std::lock_guard<std::mutex> lock(mutex_);
      opened_.push_back(lease);
      changed_.notify_all();
    };
    options.on_ended = [this](const v1::LeaseEnd& end) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_.push_back(end);
      changed_.notify_all();
    };
    agent_ = std::make_unique<LeaseAgent>(ChannelOptions{.target = target}, options);
  }

  LeaseAgent& agent() { return *agent_; }
  void Stop() { agent_.reset(); }

  v1::Lease AwaitOpened(size_t count = 1) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return opened_.size() >= count; });
    return opened_[count - 1];
  }
  v1::LeaseEnd AwaitEnded(size_t count = 1) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ended_.size() >= count; });
    return ended_[count - 1];
  }
  size_t ended_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_.size();
  }

 private:
  const std::string id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::Lease> opened_;
  std::vector<v1::LeaseEnd> ended_;
  std::unique_ptr<LeaseAgent> agent_;
};

LeaseWish Wish(std::vector<std::string> nodes) {
  LeaseWish wish;
  wish.node_ids = std::move(nodes);
  wish.task = "measure the link";
  return wish;
}

void AwaitAgents(RpcHarness& harness, int count) {
  v1::ListAgentsRequest request;
  request.set_parent("clusters/lab");
  while (harness.core().agents().List(request)->agents_size() != count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(LeaseAgent, TwoNodesMeetAtTheRendezvousOfALease) {
  RpcHarness harness;
  Node a(harness, "a");
  Node b(harness, "b");
  AwaitAgents(harness, 2);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"b", "a"}), kPatience));
  ASSERT_EQ(lease.nodes_size(), 2);
  EXPECT_EQ(lease.nodes(0).node_id(), "b");
  EXPECT_EQ(lease.host_index(), 1);
  RendezvousServerOptions options;
  options.token = lease.token();
  options.world_size = 2;
  ASSERT_OK_AND_ASSIGN(const auto rendezvous, RendezvousServer::Start(options));
  const std::vector<std::string> parts = absl::StrSplit(rendezvous->address(), ':');
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(parts.back(), &port));
  a.agent().Open(lease.lease_id(), port);
  // The other node knows nothing but what the lease says.
  absl::Status met;
  std::thread other([&] {
    const v1::Lease opened = b.AwaitOpened();
    const auto joined = Rendezvous::Join({.address = opened.rendezvous_address(),
                                          .token = opened.token(),
                                          .rank = 0,
                                          .world_size = 2,
                                          .patience = kPatience});
    met = joined.ok() ? (*joined)->Set("task", opened.task()) : joined.status();
    if (met.ok()) met = (*joined)->Get("seen", kPatience).status();
  });
  const auto joined = Rendezvous::Join({.address = rendezvous->address(),
                                        .token = lease.token(),
                                        .rank = 1,
                                        .world_size = 2,
                                        .patience = kPatience});
  if (joined.ok()) {
    EXPECT_THAT((*joined)->Get("task", kPatience), IsOkAndHolds("measure the link"));
    EXPECT_OK((*joined)->Set("seen", "yes"));
  }
  other.join();
  EXPECT_OK(joined.status());
  EXPECT_OK(met);
  a.agent().Return(lease.lease_id());
  EXPECT_EQ(b.AwaitEnded().cause(), v1::LEASE_END_CAUSE_RETURNED);
  EXPECT_EQ(a.ended_count(), 0) << "a gave it back itself";
}

TEST(LeaseAgent, ALostNodeEndsTheLeaseOfTheOthers) {
  RpcHarness harness;
  Node a(harness, "a");
  Node b(harness, "b");
  AwaitAgents(harness, 2);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"a", "b"}), kPatience));
  a.agent().Open(lease.lease_id(), 4711);
  b.AwaitOpened();
  b.Stop();
  const v1::LeaseEnd end = a.AwaitEnded();
  EXPECT_EQ(end.cause(), v1::LEASE_END_CAUSE_AGENT_LOST);
  EXPECT_EQ(end.node_id(), "b");
}

TEST(LeaseAgent, AMemberThatGivesUpEndsTheLeaseAndSaysWhy) {
  RpcHarness harness;
  Node a(harness, "a");
  Node b(harness, "b");
  AwaitAgents(harness, 2);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"a", "b"}), kPatience));
  a.agent().Open(lease.lease_id(), 4711);
  b.agent().Return(b.AwaitOpened().lease_id(), "a job has begun");
  const v1::LeaseEnd end = a.AwaitEnded();
  EXPECT_EQ(end.cause(), v1::LEASE_END_CAUSE_GIVEN_UP);
  EXPECT_THAT(end.detail(), HasSubstr("a job has begun"));
}

TEST(LeaseAgent, ANodeThatIsLentIsHadOnceItIsFree) {
  RpcHarness harness;
  Node a(harness, "a");
  Node b(harness, "b");
  AwaitAgents(harness, 2);
  ASSERT_OK_AND_ASSIGN(const v1::Lease first, a.agent().Acquire(Wish({"a", "b"}), kPatience));
  EXPECT_THAT(b.agent().Acquire(Wish({"b"}), absl::ZeroDuration()).status(),
              StatusIs(absl::StatusCode::kUnavailable));
  absl::StatusOr<v1::Lease> second = absl::UnknownError("not asked");
  std::thread waiting([&] { second = b.agent().Acquire(Wish({"a", "b"}), kPatience); });
  a.agent().Return(first.lease_id());
  waiting.join();
  ASSERT_OK(second.status());
  EXPECT_NE(second->lease_id(), first.lease_id());
}

TEST(LeaseAgent, BusyNodesAreRefusedByName) {
  RpcHarness harness;
  Node a(harness, "a");
  Node b(harness, "b");
  AwaitAgents(harness, 2);
  b.agent().SetBusy(true);
  v1::ListAgentsRequest request;
  request.set_parent("clusters/lab");
  while (!harness.core().agents().List(request)->agents(1).is_busy()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(a.agent().Acquire(Wish({"a", "b"}), absl::Seconds(20)).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("a job runs on node b")));
}

TEST(LeaseAgent, AServerThatGoesEndsLeases) {
  auto first = std::make_unique<RpcHarness>();
  Node a(*first, "a");
  Node b(*first, "b");
  AwaitAgents(*first, 2);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"a", "b"}), kPatience));
  a.agent().Open(lease.lease_id(), 4711);
  b.AwaitOpened();
  first->server().Drain(absl::ZeroDuration(), kPatience);
  a.AwaitEnded();
  b.AwaitEnded();
  EXPECT_FALSE(a.agent().Acquire(Wish({"a"}), absl::ZeroDuration()).ok());
  first.reset();
  EXPECT_EQ(a.ended_count(), 1);
  EXPECT_EQ(b.ended_count(), 1);
}

TEST(LeaseAgent, ASecondAgentOfTheNodeWaitsForTheFirstToGo) {
  RpcHarness harness;
  Node a(harness, "a");
  AwaitAgents(harness, 1);
  Node twin(harness, "a");
  while (twin.agent().last_end().code() != absl::StatusCode::kAlreadyExists) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(a.agent().is_connected());
  a.Stop();
  while (!twin.agent().is_connected()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_OK(twin.agent().Acquire(Wish({"a"}), kPatience).status());
}

// Servers that know nothing of each other, each with a port it can come back to. In the order
// in which agents of the cluster choose them.
class Servers {
 public:
  Servers() {
    std::map<std::string, int> ports;
    for (const ReservedPort& port : ports_) {
      ports[absl::StrCat("127.0.0.1:", port.number())] = port.number();
    }
    std::vector<std::string> addresses;
    for (const auto& [address, port] : ports) addresses.push_back(address);
    target_ = absl::StrCat("ipv4:", absl::StrJoin(addresses, ","));
    for (const std::string& address : OrderReplicas("lab", addresses)) {
      order_.push_back(ports[address]);
    }
  }

  const std::string& target() const { return target_; }
  void Start(int index) {
    servers_[index] = std::make_unique<RpcHarness>(RpcHarness::TestLimits(), &FindPlan,
                                                   absl::Minutes(10), order_[index]);
  }
  void Stop(int index) { servers_[index].reset(); }
  void AwaitAgents(int index, int count) { parplan::AwaitAgents(*servers_[index], count); }

 private:
  const ReservedPort ports_[3];
  std::string target_;
  std::vector<int> order_;
  std::unique_ptr<RpcHarness> servers_[3];
};

TEST(LeaseAgent, AgentsComeTogetherAtOneOfSeveralServers) {
  Servers servers;
  for (const int index : {0, 1, 2}) servers.Start(index);
  Node a(servers.target(), "a");
  Node b(servers.target(), "b");
  Node c(servers.target(), "c");
  servers.AwaitAgents(0, 3);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"a", "b", "c"}), kPatience));
  EXPECT_EQ(lease.nodes_size(), 3);
  a.agent().Return(lease.lease_id());
  servers.AwaitAgents(1, 0);
  servers.AwaitAgents(2, 0);
  servers.Stop(0);
  servers.AwaitAgents(1, 3);
  EXPECT_OK(b.agent().Acquire(Wish({"a", "b", "c"}), kPatience).status());
  servers.Stop(1);
  servers.AwaitAgents(2, 3);
  EXPECT_OK(c.agent().Acquire(Wish({"a", "b", "c"}), kPatience).status());
}

TEST(LeaseAgent, AgentsMoveToABetterServerWhenTheyAreInNoLease) {
  Servers servers;
  servers.Start(2);
  Node a(servers.target(), "a");
  Node b(servers.target(), "b");
  Node c(servers.target(), "c");
  servers.AwaitAgents(2, 3);
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, a.agent().Acquire(Wish({"a", "b"}), kPatience));
  a.agent().Open(lease.lease_id(), 4711);
  b.AwaitOpened();
  servers.Start(0);
  servers.AwaitAgents(0, 1);
  // The others are in a lease.
  servers.AwaitAgents(2, 2);
  a.agent().Return(lease.lease_id());
  EXPECT_EQ(b.AwaitEnded().cause(), v1::LEASE_END_CAUSE_RETURNED);
  servers.AwaitAgents(0, 3);
  EXPECT_EQ(a.ended_count(), 0);
  EXPECT_EQ(b.ended_count(), 1);
  EXPECT_OK(c.agent().Acquire(Wish({"a", "b", "c"}), kPatience).status());
}

TEST(LeaseAgent, AnAgentWithoutAServerEndsAtOnce) {
  Node a("127.0.0.1:1", "a");
  EXPECT_THAT(a.agent().Acquire(Wish({"a"}), absl::Milliseconds(50)).status(),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace parplan
