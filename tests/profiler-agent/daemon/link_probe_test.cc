// A node's part in measurements of links, beside another agent and a real server in one process.

#include "profiler-agent/daemon/link_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr absl::Duration kPatience = absl::Minutes(5);

v1::AgentHello Hello(const std::string& node, const std::string& host) {
  v1::AgentHello hello;
  hello.set_node("clusters/lab/nodes/" + node);
  hello.set_host(host);
  hello.set_device_kind("CPU");
  hello.set_device_count(1);
  return hello;
}

// The first message of each kind that an agent receives.
class Heard {
 public:
  LeaseAgentOptions OptionsFor(const std::string& node) {
    LeaseAgentOptions options;
    options.machine.hello = Hello(node, "127.0.0.1");
    options.machine.connect_patience = kPatience;
    options.on_opened = [this](const v1::Lease& lease) { Add(opened_, lease); };
    options.on_ended = [this](const v1::LeaseEnd& end) { Add(ended_, end); };
    return options;
  }
  v1::Lease AwaitOpened() { return Await(opened_); }
  // The next one, each time.
  v1::LeaseEnd AwaitEnded() { return Await(ended_); }

 private:
  template <typename T>
  void Add(std::vector<T>& all, const T& news) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all.push_back(news);
    changed_.notify_all();
  }
  template <typename T>
  T Await(std::vector<T>& all) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !all.empty(); });
    T first = all.front();
    all.erase(all.begin());
    return first;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::Lease> opened_;
  std::vector<v1::LeaseEnd> ended_;
};

agent::v1::ProbePlan PairPlan() {
  agent::v1::ProbePlan plan;
  plan.set_backend("cpu");
  plan.set_rank_count(2);
  plan.set_devices_per_node(1);
  plan.mutable_time_budget()->set_seconds(10);
  plan.mutable_collective_time_limit()->set_seconds(1);
  return plan;
}

// Options of a node without devices, so that no measurement reaches its ranks.
LinkProbeOptions Options(const std::string& node, const std::string& host) {
  LinkProbeOptions options;
  options.hello = Hello(node, host);
  options.read_inventory = [] { return NodeInventory(); };
  return options;
}

void AwaitAgents(RpcHarness& harness, int count) {
  v1::ListAgentsRequest request;
  request.set_parent("clusters/lab");
  while (harness.core().agents().List(request)->agents_size() != count) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::Status ResultOf(LinkProbe& probe, WakeSet& wakes) {
  std::optional<absl::StatusOr<v1::Profile>> profile = probe.TakeProfile();
  while (!profile.has_value()) {
    wakes.Wait(kPatience);
    profile = probe.TakeProfile();
  }
  return profile->status();
}

TEST(LinkProbe, ItsHostIsForOthersAndNotWhereItListens) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  Heard heard;
  LeaseAgent other({.target = harness.address()}, heard.OptionsFor("b"));
  // An address that is not in use (RFC 5737), like that of a router that forwards connections.
  LinkProbe probe({.target = harness.address()}, Options("a", "192.0.2.1"), *wakes);
  AwaitAgents(harness, 2);
  ASSERT_TRUE(probe.Begin(PairPlan(), {"a", "b"}));
  EXPECT_THAT(heard.AwaitOpened().rendezvous_address(), StartsWith("192.0.2.1:"));
  EXPECT_THAT(ResultOf(probe, *wakes),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("0 cores")));
  EXPECT_THAT(heard.AwaitEnded().detail(), HasSubstr("0 cores"));
}

TEST(LinkProbe, ABusyNodeTakesNoPart) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  Heard heard;
  LeaseAgent other({.target = harness.address()}, heard.OptionsFor("a"));
  LinkProbe probe({.target = harness.address()}, Options("b", "127.0.0.1"), *wakes);
  AwaitAgents(harness, 2);
  EXPECT_TRUE(probe.SetBusy(true));
  EXPECT_FALSE(probe.Begin(PairPlan(), {"b", "a"}));
  LeaseWish wish;
  wish.node_ids = {"a", "b"};
  wish.even_if_busy = true;
  wish.task = PairPlan().SerializeAsString();
  ASSERT_OK_AND_ASSIGN(const v1::Lease first, other.Acquire(wish, kPatience));
  other.Open(first.lease_id(), 4711);
  EXPECT_THAT(heard.AwaitEnded().detail(), HasSubstr("already measuring"));
  EXPECT_FALSE(probe.is_active());
  EXPECT_TRUE(probe.SetBusy(false));
  ASSERT_OK_AND_ASSIGN(const v1::Lease second, other.Acquire(wish, kPatience));
  other.Open(second.lease_id(), 4711);
  EXPECT_THAT(heard.AwaitEnded().detail(), HasSubstr("0 cores"));
}

// A stranger's plan that would hold the node's memory.
TEST(LinkProbe, APlanThatNoAgentMakesIsReturnedBeforeAnythingStarts) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  Heard heard;
  LeaseAgent other({.target = harness.address()}, heard.OptionsFor("a"));
  LinkProbe probe({.target = harness.address()}, Options("b", "127.0.0.1"), *wakes);
  AwaitAgents(harness, 2);
  agent::v1::ProbePlan plan = PairPlan();
  agent::v1::CollectiveKey& key = *plan.add_collectives();
  key.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  key.set_participant_count(2);
  key.set_rank_stride(1);
  key.set_message_size_bytes(int64_t{1} << 40);
  LeaseWish wish;
  wish.node_ids = {"a", "b"};
  wish.task = plan.SerializeAsString();
  ASSERT_OK_AND_ASSIGN(const v1::Lease lease, other.Acquire(wish, kPatience));
  other.Open(lease.lease_id(), 4711);
  EXPECT_THAT(heard.AwaitEnded().detail(), HasSubstr("message_size_bytes"));
  EXPECT_FALSE(probe.is_active());
}

// The agent began with other GPUs, then with none at all: the driver was being replaced.
TEST(LinkProbe, ReadsTheNodeAnewForEachMeasurement) {
  RpcHarness harness;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<WakeSet> wakes, WakeSet::Create(""));
  Heard heard;
  LeaseAgent other({.target = harness.address()}, heard.OptionsFor("b"));
  LinkProbeOptions options = Options("a", "127.0.0.1");
  options.hello.set_device_kind("old GPU");
  options.measurement.device_type = DeviceType::kCuda;
  NodeInventory inventory;
  inventory.gpus.availability = GpuAvailability::kAvailable;
  inventory.gpus.devices.resize(1);
  inventory.gpus.devices.front().name = "new GPU";
  std::atomic<int> read_count = 0;
  options.read_inventory = [&]() -> absl::StatusOr<NodeInventory> {
    if (++read_count == 1) return inventory;
    return absl::InternalError("no driver");
  };
  LinkProbe probe({.target = harness.address()}, std::move(options), *wakes);
  AwaitAgents(harness, 2);
  ASSERT_TRUE(probe.Begin(PairPlan(), {"a", "b"}));
  EXPECT_THAT(ResultOf(probe, *wakes),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("new GPU"), HasSubstr("start the agent again"))));
  EXPECT_THAT(heard.AwaitEnded().detail(), HasSubstr("new GPU"));
  while (probe.is_active()) std::this_thread::yield();
  ASSERT_TRUE(probe.Begin(PairPlan(), {"a", "b"}));
  EXPECT_THAT(ResultOf(probe, *wakes), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(read_count, 2);
}

}  // namespace
}  // namespace parplan
