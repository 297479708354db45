#include "clients/cpp/agent_client.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/reserved_port.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;

v1::AgentHello Hello() {
  v1::AgentHello hello;
  hello.set_node("clusters/lab/nodes/a");
  hello.set_instance_id("one");
  hello.set_host("127.0.0.1");
  hello.set_device_kind("CPU");
  hello.set_device_count(1);
  return hello;
}

TEST(AgentStream, BeginsWithAHelloAndAWelcome) {
  RpcHarness harness;
  AgentClient client(harness.channel());
  const std::unique_ptr<AgentStream> stream = client.Connect(Hello());
  ASSERT_OK_AND_ASSIGN(const v1::ConnectAgentResponse first, stream->Receive());
  EXPECT_TRUE(first.has_welcome());
  v1::ListAgentsRequest list;
  list.set_parent("clusters/lab");
  ASSERT_OK_AND_ASSIGN(const v1::ListAgentsResponse listed, client.List(list));
  EXPECT_EQ(listed.agents_size(), 1);
}

TEST(AgentStream, ReturnsTheErrorThatEndedItAtEveryCall) {
  RpcHarness harness;
  AgentClient client(harness.channel());
  const std::unique_ptr<AgentStream> stream = client.Connect({});
  const absl::Status end = stream->Receive().status();
  EXPECT_THAT(end, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(stream->Receive().status(), end);
}

TEST(AgentStream, CancelEndsIt) {
  RpcHarness harness;
  AgentClient client(harness.channel());
  const std::unique_ptr<AgentStream> stream = client.Connect(Hello());
  ASSERT_OK(stream->Receive());
  stream->Cancel();
  EXPECT_THAT(stream->Receive(), StatusIs(StatusCode::kCancelled));
}

TEST(AgentStream, WithoutAServerIsUnavailable) {
  const ReservedPort nobody;
  AgentClient client(grpc::CreateChannel(absl::StrCat("127.0.0.1:", nobody.number()),
                                         grpc::InsecureChannelCredentials()));
  EXPECT_THAT(client.Connect(Hello())->Receive(), StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace parplan
