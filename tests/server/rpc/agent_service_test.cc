#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/cpp/agent_client.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;

v1::AgentHello Hello(const std::string& node, const std::string& instance = "one") {
  v1::AgentHello hello;
  hello.set_node("clusters/lab/nodes/" + node);
  hello.set_instance_id(instance);
  hello.set_host("127.0.0.1");
  hello.set_device_kind("CPU");
  hello.set_device_count(1);
  return hello;
}

v1::ConnectAgentRequest Ask(const std::vector<std::string>& nodes) {
  v1::ConnectAgentRequest message;
  message.mutable_request_lease()->set_request_id("r");
  for (const std::string& node : nodes) message.mutable_request_lease()->add_node_ids(node);
  return message;
}

class AgentServiceTest : public testing::Test {
 protected:
  // Connected: the welcome has come.
  std::unique_ptr<AgentStream> Connect(const v1::AgentHello& hello) {
    std::unique_ptr<AgentStream> stream = client.Connect(hello);
    const auto first = stream->Receive();
    EXPECT_OK(first.status());
    EXPECT_TRUE(first.ok() && first->has_welcome());
    return stream;
  }

  // The next message, which must be there or come.
  static v1::ConnectAgentResponse Next(AgentStream& stream) {
    absl::StatusOr<v1::ConnectAgentResponse> message = stream.Receive();
    EXPECT_OK(message.status());
    return message.ok() ? *std::move(message) : v1::ConnectAgentResponse();
  }

  // A lease of both nodes, granted to a and open.
  std::string OpenLease(AgentStream& a, AgentStream& b) {
    EXPECT_OK(a.Send(Ask({"a", "b"})));
    const std::string lease = Next(a).lease_granted().lease_id();
    EXPECT_NE(lease, "");
    v1::ConnectAgentRequest opening;
    opening.mutable_open_lease()->set_lease_id(lease);
    opening.mutable_open_lease()->set_rendezvous_port(4711);
    EXPECT_OK(a.Send(opening));
    EXPECT_EQ(Next(a).lease_opened().rendezvous_address(), "127.0.0.1:4711");
    EXPECT_EQ(Next(b).lease_opened().lease_id(), lease);
    return lease;
  }

  RpcHarness harness;
  AgentClient client{harness.channel()};
};

TEST_F(AgentServiceTest, LendsNodesAndTakesThemBack) {
  const auto a = Connect(Hello("a"));
  const auto b = Connect(Hello("b"));
  v1::ConnectAgentRequest given;
  given.mutable_return_lease()->set_lease_id(OpenLease(*a, *b));
  ASSERT_OK(a->Send(given));
  EXPECT_EQ(Next(*a).lease_ended().cause(), v1::LEASE_END_CAUSE_RETURNED);
  EXPECT_EQ(Next(*b).lease_ended().cause(), v1::LEASE_END_CAUSE_RETURNED);
  OpenLease(*a, *b);
  v1::ListAgentsRequest list;
  list.set_parent("clusters/lab");
  ASSERT_OK_AND_ASSIGN(const v1::ListAgentsResponse listed, client.List(list));
  EXPECT_EQ(listed.agents_size(), 2);
  EXPECT_NE(listed.agents(1).lease_id(), "");
  EXPECT_THAT(harness.observer().Text(),
              testing::HasSubstr("parplan_leases_ended_total{outcome=\"returned\"} 1"));
  EXPECT_THAT(harness.observer().Text(),
              testing::HasSubstr("parplan_agents_connected{cluster=\"lab\"} 2"));
}

TEST_F(AgentServiceTest, AStreamThatBreaksEndsItsLease) {
  const auto a = Connect(Hello("a"));
  auto b = Connect(Hello("b"));
  OpenLease(*a, *b);
  b.reset();
  const v1::LeaseEnd end = Next(*a).lease_ended();
  EXPECT_EQ(end.cause(), v1::LEASE_END_CAUSE_AGENT_LOST);
  EXPECT_EQ(end.node_id(), "b");
  // The node is free for whoever comes next.
  const auto again = Connect(Hello("b", "two"));
  OpenLease(*a, *again);
}

TEST_F(AgentServiceTest, ASecondAgentOfANodeIsRefusedAndTheSameOneTakesOver) {
  const auto a = Connect(Hello("a"));
  EXPECT_THAT(client.Connect(Hello("a", "two"))->Receive(),
              IsRefused(StatusCode::kAlreadyExists, Reason::kAgentConnected));
  const auto anew = Connect(Hello("a"));
  EXPECT_THAT(a->Receive(), IsRefused(StatusCode::kAborted, Reason::kAgentConnected));
  ASSERT_OK(anew->Send(Ask({"a"})));
  EXPECT_TRUE(Next(*anew).has_lease_granted());
}

TEST_F(AgentServiceTest, MessagesOutOfPlaceEndTheStreamAndNoOther) {
  const auto a = Connect(Hello("a"));
  const auto b = Connect(Hello("b"));
  ASSERT_OK(b->Send(Ask({"a"})));
  EXPECT_THAT(b->Receive(), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  EXPECT_THAT(b->Receive(), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  EXPECT_THAT(client.Connect(v1::AgentHello())->Receive(),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  ASSERT_OK(a->Send(Ask({"a", "b"})));
  EXPECT_EQ(Next(*a).lease_refused().cause(), v1::LEASE_REFUSAL_CAUSE_NODE_ABSENT);
}

TEST_F(AgentServiceTest, BytesThatAreNoMessageEndTheStreamAndNoOther) {
  const auto a = Connect(Hello("a"));
  for (const std::string junk : {"\xff\xff\xff", "\x0a\x7f", "GET / HTTP/1.1"}) {
    grpc::GenericStub stub(harness.channel());
    grpc::ClientContext context;
    grpc::CompletionQueue events;
    const auto stream =
        stub.PrepareCall(&context, "/parplan.v1.AgentService/ConnectAgent", &events);
    void* tag = nullptr;
    bool ok = false;
    stream->StartCall(nullptr);
    ASSERT_TRUE(events.Next(&tag, &ok));
    const grpc::Slice slice(junk);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(events.Next(&tag, &ok));
    grpc::Status status;
    stream->Finish(&status, nullptr);
    ASSERT_TRUE(events.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    events.Shutdown();
    while (events.Next(&tag, &ok)) {
    }
  }
  ASSERT_OK(a->Send(Ask({"a"})));
  EXPECT_TRUE(Next(*a).has_lease_granted());
}

TEST_F(AgentServiceTest, AnAgentThatReadsNothingHoldsUpNobody) {
  const auto a = Connect(Hello("a"));
  const auto deaf = client.Connect(Hello("deaf"));
  // Far more answers than are kept for one caller; no other caller waits.
  for (int i = 0; i < 2000; ++i) {
    v1::ConnectAgentRequest question = Ask({"deaf", "nobody"});
    question.mutable_request_lease()->set_request_id(std::string(64, 'r'));
    if (!deaf->Send(question).ok()) break;
  }
  ASSERT_OK(a->Send(Ask({"a"})));
  EXPECT_TRUE(Next(*a).has_lease_granted());
}

TEST_F(AgentServiceTest, ADrainingServerEndsLeasesAndStreams) {
  const auto a = Connect(Hello("a"));
  const auto b = Connect(Hello("b"));
  OpenLease(*a, *b);
  std::thread drain([this] { harness.server().Drain(absl::ZeroDuration(), absl::Minutes(10)); });
  EXPECT_EQ(Next(*a).lease_ended().cause(), v1::LEASE_END_CAUSE_DRAINING);
  EXPECT_EQ(Next(*b).lease_ended().cause(), v1::LEASE_END_CAUSE_DRAINING);
  EXPECT_THAT(a->Receive(), IsRefused(StatusCode::kUnavailable, Reason::kDraining));
  EXPECT_THAT(b->Receive(), IsRefused(StatusCode::kUnavailable, Reason::kDraining));
  drain.join();
  EXPECT_EQ(harness.records().size(), 2);
}

}  // namespace
}  // namespace parplan
