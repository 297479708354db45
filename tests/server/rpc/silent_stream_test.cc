// Streams whose client says nothing: one limit for the first message, another for later ones.

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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

// A server over the core of a harness with limits of its own. The limit that a test does not expect
// is an hour, so that the wrong one would end no stream.
class SilentStreamTest : public testing::Test {
 protected:
  std::shared_ptr<grpc::Channel> Serve(absl::Duration first, absl::Duration later) {
    RpcServerOptions options;
    options.max_first_silence = first;
    options.max_stream_silence = later;
    absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(harness.core(), options);
    EXPECT_OK(started.status());
    server = *std::move(started);
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        MakeChannel({.target = absl::StrCat("127.0.0.1:", server->port())});
    EXPECT_OK(channel.status());
    return *std::move(channel);
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

}  // namespace
}  // namespace parplan
