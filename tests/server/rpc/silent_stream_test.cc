// Streams whose client says nothing: one limit for the first message, another for later ones. And
// streams of agents that read nothing.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/agent_client.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/agent_service.grpc.pb.h"
#include "parplan/v1/profile_service.grpc.pb.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

// How long a stream may take until it counts as not broken off.
constexpr absl::Duration kPatience = absl::Seconds(20);

// A server over the core of a harness with limits of its own. The limit that a test does not expect
// is an hour, so that the wrong one would end no stream.
class SilentStreamTest : public testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> Serve(absl::Duration first, absl::Duration later) {
    RpcServerOptions options;
    options.max_first_silence = first;
    options.max_stream_silence = later;
    // That of the channel, which watches the health of the server; none of another is allowed.
    options.connections.max_cancelled_calls = 1;
    options.connections.max_cancelled_calls_per_second = 0;
    absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(harness.core(), options);
    EXPECT_OK(started.status());
    server = *std::move(started);
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        MakeChannel({.target = absl::StrCat("127.0.0.1:", server->port())});
    EXPECT_OK(channel.status());
    return *std::move(channel);
  }

  // A channel to the server that takes no message which is not asked for, however short.
  std::shared_ptr<grpc::Channel> NarrowChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server->port()),
                                     grpc::InsecureChannelCredentials(), arguments);
  }

  // Returns the number of streams of agents that the server has not ended.
  int AgentStreams() {
    const std::string text = harness.observer().Text();
    const std::string series = "parplan_requests_in_flight{method=\"ConnectAgent\"} ";
    const size_t found = text.find(series);
    return found == std::string::npos ? 0 : std::atoi(text.c_str() + found + series.size());
  }

  // Waits until the server has ended all streams of agents but so many.
  void ExpectAgentStreams(int count) {
    const absl::Time end = absl::Now() + kPatience;
    while (AgentStreams() != count && absl::Now() < end) std::this_thread::yield();
    EXPECT_EQ(AgentStreams(), count);
  }

  // The first message of agents.
  static v1::ConnectAgentRequest Hello() {
    v1::ConnectAgentRequest message;
    v1::AgentHello& hello = *message.mutable_hello();
    hello.set_node(kNode);
    hello.set_instance_id("one");
    hello.set_host("127.0.0.1");
    hello.set_device_kind("CPU");
    hello.set_device_count(1);
    return message;
  }

  RpcHarness harness;
  std::unique_ptr<RpcServer> server;
  grpc::ClientContext context;
};

TEST_F(SilentStreamTest, AnUploadHasTheFirstLimitForItsFirstMessage) {
  const auto stub =
      v1::ProfileService::NewStub(Serve(absl::Milliseconds(30), /*later=*/absl::Hours(1)));
  v1::Profile stored;
  const auto writer = stub->UploadProfile(&context, &stored);
  EXPECT_THAT(FromGrpcStatus(writer->Finish()),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("30ms")));
}

TEST_F(SilentStreamTest, AnUploadHasTheOtherLimitForLaterMessages) {
  const auto stub =
      v1::ProfileService::NewStub(Serve(/*first=*/absl::Hours(1), absl::Milliseconds(40)));
  v1::Profile stored;
  const auto writer = stub->UploadProfile(&context, &stored);
  EXPECT_TRUE(writer->Write(UploadMessages(kNode, "id", SmallProfile()).front()));
  EXPECT_THAT(FromGrpcStatus(writer->Finish()),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("40ms")));
}

TEST_F(SilentStreamTest, AnAgentHasTheFirstLimitForItsHello) {
  const auto stub =
      v1::AgentService::NewStub(Serve(absl::Milliseconds(30), /*later=*/absl::Hours(1)));
  const auto stream = stub->ConnectAgent(&context);
  v1::ConnectAgentResponse answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_THAT(FromGrpcStatus(stream->Finish()),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("30ms")));
}

// The welcome is on its way for ever, and no end of the stream can follow it.
TEST_F(SilentStreamTest, AnAgentThatReadsNothingIsBrokenOffWhenItConnectsAnew) {
  AgentClient client(Serve(/*first=*/absl::Hours(1), absl::Milliseconds(30)));
  const auto stub = v1::AgentService::NewStub(NarrowChannel());
  context.set_deadline(absl::ToChronoTime(absl::Now() + 2 * kPatience));
  const auto deaf = stub->ConnectAgent(&context);
  ASSERT_TRUE(deaf->Write(Hello()));
  v1::ListAgentsRequest list;
  list.set_parent("clusters/lab");
  absl::StatusOr<v1::ListAgentsResponse> listed;
  do {
    listed = client.List(list);
    ASSERT_OK(listed.status());
  } while (listed->agents().empty());
  const auto anew = client.Connect(Hello().hello());
  ASSERT_OK(anew->Receive());
  ExpectAgentStreams(1);
  // That was no reset by the agent: even one would end its connection.
  server->Drain(absl::ZeroDuration(), kPatience);
  EXPECT_EQ(server->gate().counts().cancelling, 0);
}

// The end that follows too many messages breaks the stream off as well, or its agent could go on.
TEST_F(SilentStreamTest, AnAgentThatReadsNothingCannotWriteForEver) {
  Serve(/*first=*/absl::Hours(1), absl::Milliseconds(30));
  const auto stub = v1::AgentService::NewStub(NarrowChannel());
  context.set_deadline(absl::ToChronoTime(absl::Now() + 2 * kPatience));
  const auto deaf = stub->ConnectAgent(&context);
  ASSERT_TRUE(deaf->Write(Hello()));
  ExpectAgentStreams(1);
  v1::ConnectAgentRequest question;
  question.mutable_request_lease()->set_request_id("r");
  question.mutable_request_lease()->add_node_ids("nobody");
  const absl::Time end = absl::Now() + kPatience;
  while (AgentStreams() == 1 && absl::Now() < end) deaf->Write(question);
  ExpectAgentStreams(0);
}

}  // namespace
}  // namespace parplan
