#include "server/rpc/unread_answers.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "server/rpc/alarm_thread.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using UnreadCapabilities = std::unique_ptr<grpc::ClientReader<v1::Capabilities>>;

// A server over the core of a harness, and clients that take no message which they do not ask for.
// None of them gives its calls a deadline. A test whose call is not broken off does not end.
class UnreadAnswersTest : public testing::Test {
 protected:
  void Serve(absl::Duration max_time, int64_t max_bytes) {
    RpcServerOptions options;
    options.max_unread_time = max_time;
    options.max_unread_bytes = max_bytes;
    absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(harness.core(), options);
    ASSERT_OK(started.status());
    server = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server->port()),
                                        grpc::InsecureChannelCredentials(), arguments);
  }

  // Calls a method with one answer, and leaves it to the caller whether that is read.
  UnreadCapabilities GetCapabilities(grpc::ClientContext& context) {
    const grpc::internal::RpcMethod method("/parplan.v1.PlanService/GetCapabilities",
                                           grpc::internal::RpcMethod::SERVER_STREAMING, channel);
    return UnreadCapabilities(grpc::internal::ClientReaderFactory<v1::Capabilities>::Create(
        channel.get(), method, &context, v1::GetCapabilitiesRequest()));
  }

  // Ends the server once gRPC is done with all calls. The client of an unread call does not hear of
  // its end before it reads.
  void AwaitEndOfCalls() { server->Drain(absl::ZeroDuration(), /*grace=*/absl::Hours(1)); }

  RpcHarness harness;
  std::unique_ptr<RpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
};

// Its progress, or its plan, is on its way for ever.
TEST_F(UnreadAnswersTest, AStreamOfASearchIsBrokenOff) {
  Serve(absl::Milliseconds(30), /*max_bytes=*/int64_t{1} << 30);
  ASSERT_OK(harness.UploadSmallProfile().status());
  const auto stub = v1::PlanService::NewStub(channel);
  grpc::ClientContext context;
  const auto reader = stub->SearchPlan(&context, SmallQuestion());
  reader->WaitForInitialMetadata();
  AwaitEndOfCalls();
  context.TryCancel();
}

TEST_F(UnreadAnswersTest, ACallWithOneAnswerIsBrokenOff) {
  Serve(absl::Milliseconds(30), /*max_bytes=*/int64_t{1} << 30);
  grpc::ClientContext context;
  const UnreadCapabilities unread = GetCapabilities(context);
  unread->WaitForInitialMetadata();
  AwaitEndOfCalls();
  context.TryCancel();
}

// Two answers do not fit: the second one takes the place of the first, and can be read.
TEST_F(UnreadAnswersTest, TheOldestGivesWayWhenThereAreTooManyBytes) {
  Serve(/*max_time=*/absl::Hours(1), /*max_bytes=*/10);
  grpc::ClientContext first_context;
  const UnreadCapabilities first = GetCapabilities(first_context);
  first->WaitForInitialMetadata();
  grpc::ClientContext second_context;
  const UnreadCapabilities second = GetCapabilities(second_context);
  v1::Capabilities answer;
  EXPECT_TRUE(second->Read(&answer));
  EXPECT_TRUE(second->Finish().ok());
  AwaitEndOfCalls();
  first_context.TryCancel();
}

TEST(UnreadAnswers, ForgetsWhatWasRead) {
  AlarmThread alarms;
  UnreadAnswers unread(alarms, absl::Hours(1), /*max_bytes=*/100);
  grpc::CallbackServerContext one;
  grpc::CallbackServerContext two;
  const int64_t first = unread.Add(one, 60);
  const int64_t second = unread.Add(two, 40);
  EXPECT_EQ(unread.bytes(), 100);
  unread.Remove(first);
  unread.Remove(first);
  unread.Remove(0);
  EXPECT_EQ(unread.bytes(), 40);
  unread.Remove(second);
  EXPECT_EQ(unread.bytes(), 0);
}

}  // namespace
}  // namespace parplan
