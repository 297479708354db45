#include "clients/cpp/channel.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "clients/cpp/plan_client.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

TEST(MakeChannel, RetriesReachAServerThatComesBack) {
  // A channel as clients use it, with retries, health checks and round robin.
  RpcHarness harness;
  ChannelOptions options;
  options.target = harness.address();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(options));
  PlanClient client(channel);
  EXPECT_OK(client.GetCapabilities());
  harness.store().BreakAfter(0);
  v1::ListPlansRequest list;
  list.set_parent(kCluster);
  std::thread repair([&] {
    while (harness.records().size() < 2) std::this_thread::yield();
    harness.store().SetBroken(false);
  });
  EXPECT_OK(client.ListPlans(list));
  repair.join();
}

TEST(MakeChannel, RefusesHalfACertificateAndFilesThatAreNotThere) {
  ChannelOptions options;
  options.certificate_file = "client.pem";
  EXPECT_THAT(MakeChannel(options), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  options = ChannelOptions();
  options.ca_file = "no such file";
  EXPECT_THAT(MakeChannel(options), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  options = ChannelOptions();
  options.target = "";
  EXPECT_THAT(MakeChannel(options), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

// gRPC takes ports modulo 65536: 99999 would be 34463.
TEST(MakeChannel, RefusesPortsThatThereAreNot) {
  ChannelOptions options;
  for (const char* const target :
       {"127.0.0.1:65536", "host:99999", "[::1]:99999", "dns:///host:99999999999999999999",
        "ipv4:10.0.0.1:99999,10.0.0.2:9477", "ipv4:10.0.0.1:9477,10.0.0.2:99999",
        "unixhost:99999"}) {
    options.target = target;
    EXPECT_THAT(MakeChannel(options), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid))
        << target;
  }
  for (const char* const target :
       {"127.0.0.1:65535", "host", "host:http", "[::1]:9477", "::1", "ipv6:[fe80::9999]:9477",
        "dns:///host:9477", "unix:/run/x:99999", "unix-abstract:x:99999",
        "ipv4:10.0.0.1:1,10.0.0.2:2"}) {
    options.target = target;
    EXPECT_OK(MakeChannel(options)) << target;
  }
}

TEST(MakeUuid, IsVersionFour) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = MakeUuid();
    EXPECT_TRUE(seen.insert(uuid).second) << uuid;
    ASSERT_EQ(uuid.size(), 36u) << uuid;
    EXPECT_EQ(uuid[14], '4') << uuid;
    EXPECT_THAT("89ab", HasSubstr(uuid.substr(19, 1))) << uuid;
  }
}

TEST(ApplyCallOptions, SetsTheDeadline) {
  grpc::ClientContext context;
  const absl::Time before = absl::Now();
  ApplyCallOptions({.timeout = absl::Minutes(5)}, context);
  const absl::Duration timeout = absl::FromChrono(context.deadline()) - before;
  EXPECT_GE(timeout, absl::Minutes(5) - absl::Milliseconds(1));
  EXPECT_LT(timeout, absl::Minutes(6));
}

TEST(ApplyCallOptions, NamesTheCallInTheLogOfTheServer) {
  RpcHarness harness;
  EXPECT_OK(harness.plans().GetCapabilities({.log_request_id = "job-7"}));
  EXPECT_EQ(harness.records().at(0).request_id, "job-7");
}

}  // namespace
}  // namespace parplan
