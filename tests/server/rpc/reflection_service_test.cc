#include "server/rpc/reflection_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/status_from_grpc.h"
#include "server/rpc/reflection_answers.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kReflect[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// A request with a text of up to 127 bytes in one field.
std::string Asking(int field, const std::string& text) {
  return std::string(1, static_cast<char>(field << 3 | 2)) +
         std::string(1, static_cast<char>(text.size())) + text;
}

std::string Answer(const std::string& request) {
  const absl::StatusOr<std::string> answer = AnswerReflection({"a.First", "b.Second"}, request);
  EXPECT_OK(answer.status());
  return answer.value_or("");
}

TEST(AnswerReflection, ListsServicesAndRepeatsTheRequest) {
  const std::string request = Asking(7, "*");
  EXPECT_EQ(Answer(request), absl::StrCat("\x12\x03", request, "\x32\x17", "\x0a\x09\x0a\x07",
                                          "a.First", "\x0a\x0a\x0a\x08", "b.Second"));
}

TEST(AnswerReflection, GivesAFileWithThoseThatItImportsOnce) {
  for (const std::string& request :
       {Asking(4, "parplan.v1.PlanService"), Asking(4, "parplan.v1.PlanService.CreatePlan"),
        Asking(3, "parplan/v1/plan_service.proto")}) {
    const std::string answer = Answer(request);
    EXPECT_THAT(answer, HasSubstr("parplan/v1/plan_service.proto"));
    EXPECT_THAT(answer, HasSubstr("\x0a\x19parplan/v1/topology.proto"));
    EXPECT_LT(answer.size(), 200'000);
  }
}

TEST(AnswerReflection, SaysWhatItDoesNotKnow) {
  for (const std::string& request : {Asking(4, "parplan.v1.NoService"), Asking(3, "/etc/passwd"),
                                     Asking(5, ""), Asking(6, "x")}) {
    EXPECT_THAT(Answer(request), HasSubstr("\x08\x05\x12"));
  }
  EXPECT_THAT(Answer(""), HasSubstr("\x08\x03\x12"));
}

TEST(AnswerReflection, RefusesWhatIsNoRequestOrTooLarge) {
  for (const std::string& request :
       {std::string("\xff"), std::string("\x22\x7f"), std::string("\x7b"), std::string("\x7c"),
        std::string(kMaxReflectionRequestBytes + 1, '\0'), Asking(4, "x") + '\0'}) {
    EXPECT_THAT(AnswerReflection({}, request),
                IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  }
  // Fields of a later release are skipped.
  EXPECT_OK(AnswerReflection({}, std::string("\x7b\x7c", 2) + Asking(7, "")).status());
}

TEST(ReflectionService, ListsWhatIsServed) {
  RpcHarness harness;
  std::string answer;
  EXPECT_TRUE(CallRaw(harness.channel(), kReflect, Asking(7, ""), &answer).ok());
  for (const char* const name : {"parplan.v1.PlanService", "parplan.v1.AgentService",
                                 "grpc.health.v1.Health", kReflectionService}) {
    EXPECT_THAT(answer, HasSubstr(name));
  }
}

// A request of 4 MB of unknown fields took 190 MB.
TEST(ReflectionService, DecodesNoLargeRequest) {
  RpcHarness harness;
  std::string request;
  for (int i = 0; i < 1'000'000; ++i) request += "\x7b\x7c";
  EXPECT_THAT(FromGrpcStatus(CallRaw(harness.channel(), kReflect, request)),
              IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

// Streams that stay open, without a thread each, and with a limit.
class OpenStreams {
 public:
  explicit OpenStreams(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {}
  ~OpenStreams() {
    for (const auto& context : contexts_) context->TryCancel();
    for (size_t i = 0; i < streams_.size(); ++i) (void)End(i);
    events_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (events_.Next(&tag, &ok)) {
    }
  }

  // Opens a stream, and has an answer if it is not refused.
  bool Open() {
    contexts_.push_back(std::make_unique<grpc::ClientContext>());
    streams_.push_back(stub_.PrepareCall(contexts_.back().get(), kReflect, &events_));
    ended_.push_back(false);
    streams_.back()->StartCall(nullptr);
    if (!Next()) return false;
    const grpc::Slice slice(Asking(7, ""));
    streams_.back()->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    if (!Next()) return false;
    grpc::ByteBuffer answer;
    streams_.back()->Read(&answer, nullptr);
    return Next();
  }
  grpc::Status End(size_t i) {
    grpc::Status status;
    if (ended_[i]) return status;
    ended_[i] = true;
    streams_[i]->Finish(&status, nullptr);
    Next();
    return status;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return events_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue events_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::GenericClientAsyncReaderWriter>> streams_;
  std::vector<bool> ended_;
};

TEST(ReflectionService, HasNoMoreThanSoManyStreams) {
  RpcHarness harness;
  OpenStreams streams(harness.channel());
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(streams.Open()) << i;
  EXPECT_FALSE(streams.Open());
  EXPECT_THAT(FromGrpcStatus(streams.End(64)),
              IsRefused(absl::StatusCode::kResourceExhausted, Reason::kQueueFull));
  EXPECT_OK(harness.plans().GetCapabilities().status());
}

TEST(ReflectionService, EndsStreamsThatAskNothing) {
  RpcHarness harness;
  RpcServerOptions options;
  options.max_first_silence = absl::Hours(1);
  options.max_stream_silence = absl::Milliseconds(50);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RpcServer> server,
                       RpcServer::Start(harness.core(), options));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> channel,
                       MakeChannel({.target = absl::StrCat("127.0.0.1:", server->port())}));
  OpenStreams streams(channel);
  ASSERT_TRUE(streams.Open());
  EXPECT_EQ(streams.End(0).error_code(), grpc::CANCELLED);
}

}  // namespace
}  // namespace parplan
