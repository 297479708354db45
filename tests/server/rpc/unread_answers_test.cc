#include "server/rpc/unread_answers.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "clients/cpp/profile_client.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "parplan/v1/profile_service.grpc.pb.h"
#include "server/rpc/alarm_thread.h"
#include "server/rpc/bounded_request.h"
#include "server/rpc/call.h"
#include "server/rpc/rpc_server.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using UnreadCapabilities = std::unique_ptr<grpc::ClientReader<v1::Capabilities>>;

// How long a call may take until it counts as not broken off.
constexpr absl::Duration kUnreadPatience = absl::Seconds(20);

// A server over the core of a harness, and clients that take no message which they do not ask for.
class UnreadAnswersTest : public testing::Test {
 protected:
  void Serve(absl::Duration max_time, int64_t max_bytes) {
    RpcServerOptions options;
    options.max_unread_time = max_time;
    options.max_unread_bytes = max_bytes;
    options.max_request_memory = max_request_memory;
    // That of health by which `ExpectBrokenOff` asks; none of another is allowed.
    options.connections.max_cancelled_calls = 1;
    options.connections.max_cancelled_calls_per_second = 0;
    options.logger = [this](const CallRecord& record) {
      const std::lock_guard<std::mutex> lock(mutex);
      records.push_back(record);
    };
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
    return Ask(context, "/parplan.v1.PlanService/GetCapabilities");
  }
  UnreadCapabilities Ask(grpc::ClientContext& context, const char* path) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + 2 * kUnreadPatience));
    const grpc::internal::RpcMethod method(path, grpc::internal::RpcMethod::SERVER_STREAMING,
                                           channel);
    return UnreadCapabilities(grpc::internal::ClientReaderFactory<v1::Capabilities>::Create(
        channel.get(), method, &context, v1::GetCapabilitiesRequest()));
  }

  // Returns how many calls were broken off so far, by the log.
  int BrokenOffCount() {
    const std::lock_guard<std::mutex> lock(mutex);
    return static_cast<int>(
        std::count_if(records.begin(), records.end(), [](const CallRecord& record) {
          return record.code == absl::StatusCode::kCancelled &&
                 absl::StrContains(record.message, "broken off");
        }));
  }

  // Expects so many calls to be broken off by the server and gRPC to be done with all; the client
  // of an unread call does not hear of its end before it reads. They are no resets by clients: even
  // one of those would end its connection.
  void ExpectBrokenOff(int count) {
    const absl::Time begin = absl::Now();
    while (BrokenOffCount() < count && absl::Now() - begin < kUnreadPatience) {
      std::this_thread::yield();
    }
    // The gate, which ends first in a drain, has heard of them by the end of a later call: one of
    // health, for which there is room. Its answer is no `Capabilities`, but has no field that
    // matters.
    grpc::ClientContext context;
    v1::Capabilities answer;
    EXPECT_TRUE(Ask(context, "/grpc.health.v1.Health/Check")->Read(&answer));
    EXPECT_EQ(server->gate().counts().cancelling, 0);
    const absl::Time end = absl::Now();
    server->Drain(absl::ZeroDuration(), kUnreadPatience);
    EXPECT_LT(absl::Now() - end, kUnreadPatience);
    EXPECT_EQ(server->gate().counts().cancelling, 0);
    EXPECT_EQ(BrokenOffCount(), count);
    EXPECT_THAT(harness.observer().Text(),
                HasSubstr(absl::StrCat("parplan_unread_answers_total ", count, "\n")));
  }

  RpcHarness harness;
  int64_t max_request_memory = int64_t{1} << 30;
  std::mutex mutex;
  std::vector<CallRecord> records;  // Guarded by mutex.
  std::unique_ptr<RpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
};

// Its progress, or its plan, is on its way for ever.
TEST_F(UnreadAnswersTest, AStreamOfASearchIsBrokenOff) {
  Serve(absl::Milliseconds(30), /*max_bytes=*/int64_t{1} << 30);
  ASSERT_OK(harness.UploadSmallProfile().status());
  const auto stub = v1::PlanService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + 2 * kUnreadPatience));
  const auto reader = stub->SearchPlan(&context, SmallQuestion());
  reader->WaitForInitialMetadata();
  ExpectBrokenOff(1);
  context.TryCancel();
}

TEST_F(UnreadAnswersTest, ACallWithOneAnswerIsBrokenOff) {
  Serve(absl::Milliseconds(30), /*max_bytes=*/int64_t{1} << 30);
  grpc::ClientContext context;
  const UnreadCapabilities unread = GetCapabilities(context);
  unread->WaitForInitialMetadata();
  ExpectBrokenOff(1);
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
  ExpectBrokenOff(1);
  first_context.TryCancel();
}

// Calls with an empty request are bounded as all others, by what they take themselves, until their
// answers have gone: those of one host have room for three here.
TEST_F(UnreadAnswersTest, CallsInProgressOfOneCallerAreBounded) {
  const int64_t request =
      *DecodedBytes(*v1::GetCapabilitiesRequest::descriptor(), "", kMaxRequestParts);
  max_request_memory = 2 * (3 * (kCallBytes + request) + kCallBytes / 2);
  Serve(/*max_time=*/absl::Hours(1), /*max_bytes=*/int64_t{1} << 30);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<UnreadCapabilities> unread;
  for (int i = 0; i < 3; ++i) {
    unread.push_back(GetCapabilities(*contexts.emplace_back(new grpc::ClientContext)));
    unread.back()->WaitForInitialMetadata();
  }
  v1::Capabilities answer;
  grpc::ClientContext refused_context;
  const UnreadCapabilities refused = GetCapabilities(refused_context);
  EXPECT_FALSE(refused->Read(&answer));
  const absl::Status status = FromGrpcStatus(refused->Finish());
  EXPECT_THAT(status, IsRefused(absl::StatusCode::kResourceExhausted, Reason::kQueueFull));
  EXPECT_TRUE(GetRetryDelay(status).has_value());
  // An answer that is read makes room, as soon as gRPC is done with its call.
  EXPECT_TRUE(unread[0]->Read(&answer));
  EXPECT_TRUE(unread[0]->Finish().ok());
  const absl::Time begin = absl::Now();
  bool is_answered = false;
  while (!is_answered && absl::Now() - begin < kUnreadPatience) {
    grpc::ClientContext context;
    const UnreadCapabilities next = GetCapabilities(context);
    is_answered = next->Read(&answer) && next->Finish().ok();
  }
  EXPECT_TRUE(is_answered);
  for (size_t i = 1; i < unread.size(); ++i) EXPECT_TRUE(unread[i]->Read(&answer));
}

// The message of a stream of requests has one answer too.
TEST_F(UnreadAnswersTest, AStreamOfRequestsIsBrokenOff) {
  Serve(absl::Milliseconds(30), /*max_bytes=*/int64_t{1} << 30);
  const grpc::internal::RpcMethod method("/parplan.v1.ProfileService/UploadProfile",
                                         grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + 2 * kUnreadPatience));
  const std::unique_ptr<grpc::ClientReaderWriter<v1::UploadProfileRequest, v1::Profile>> stream(
      grpc::internal::ClientReaderWriterFactory<v1::UploadProfileRequest, v1::Profile>::Create(
          channel.get(), method, &context));
  for (const v1::UploadProfileRequest& request : UploadMessages(kNode, "id", SmallProfile())) {
    ASSERT_TRUE(stream->Write(request));
  }
  ASSERT_TRUE(stream->WritesDone());
  stream->WaitForInitialMetadata();
  ExpectBrokenOff(1);
  context.TryCancel();
}

// Answers without gRPC, which note who was broken off.
class UnreadAnswersShareTest : public testing::Test {
 protected:
  // Adds an answer under a name of its own.
  int64_t Add(absl::string_view reader, int64_t bytes, const std::string& name) {
    return unread.Add(reader, bytes, [this, name] {
      const std::lock_guard<std::mutex> lock(mutex);
      broken_off.push_back(name);
    });
  }

  // Returns the names of those that were broken off so far.
  std::vector<std::string> BrokenOff() {
    // Alarms that are set at once ring in the order in which they were set.
    absl::Notification rang;
    alarms.Set(absl::ZeroDuration(), [&rang] { rang.Notify(); });
    EXPECT_TRUE(rang.WaitForNotificationWithTimeout(kUnreadPatience));
    const std::lock_guard<std::mutex> lock(mutex);
    return broken_off;
  }

  std::mutex mutex;
  std::vector<std::string> broken_off;  // Guarded by mutex.
  AlarmThread alarms;
  UnreadAnswers unread{alarms, /*max_wait=*/absl::Hours(1), /*max_bytes=*/100};
};

TEST_F(UnreadAnswersShareTest, AReaderPushesOutItsOwn) {
  Add("slow", 30, "slow 1");
  for (const int i : {1, 2, 3, 4, 5}) Add("flood", 20, absl::StrCat("flood ", i));
  EXPECT_THAT(BrokenOff(), ElementsAre("flood 1", "flood 2"));
  EXPECT_EQ(unread.bytes(), 90);
}

// Not that of the oldest of all.
TEST_F(UnreadAnswersShareTest, ANewReaderTakesThePlaceOfTheOneWithMost) {
  Add("small", 10, "small 1");
  Add("large", 40, "large 1");
  Add("large", 40, "large 2");
  Add("new", 50, "new 1");
  EXPECT_THAT(BrokenOff(), ElementsAre("large 1"));
  EXPECT_EQ(unread.bytes(), 100);
}

TEST_F(UnreadAnswersShareTest, AnAnswerWithoutBytesNeitherTakesNorGivesWay) {
  Add("reader", 0, "empty 1");
  Add("reader", 100, "full 1");
  Add("reader", 0, "empty 2");
  EXPECT_THAT(BrokenOff(), IsEmpty());
  Add("other", 1, "other 1");
  EXPECT_THAT(BrokenOff(), ElementsAre("full 1"));
}

// One that is larger than all may be has nobody to take the place of, and does not end itself.
TEST_F(UnreadAnswersShareTest, TheNewestStays) {
  const int64_t number = Add("reader", 1000, "reader 1");
  EXPECT_THAT(BrokenOff(), IsEmpty());
  EXPECT_FALSE(unread.Remove(number));
}

TEST_F(UnreadAnswersShareTest, TellsWhetherAnAnswerWasBrokenOff) {
  const int64_t first = Add("reader", 60, "1");
  const int64_t second = Add("reader", 60, "2");
  EXPECT_THAT(BrokenOff(), ElementsAre("1"));
  EXPECT_TRUE(unread.Remove(first));
  EXPECT_FALSE(unread.Remove(first));
  EXPECT_FALSE(unread.Remove(second));
  EXPECT_EQ(unread.bytes(), 0);
}

// gRPC may call the handler of another method while it cancels a call.
TEST_F(UnreadAnswersShareTest, BreakingOffMayAddAndRemove) {
  absl::Notification done;
  int64_t first = 0;
  first = unread.Add("reader", 60, [this, &first, &done] {
    EXPECT_FALSE(unread.Remove(Add("other", 1, "other")));
    EXPECT_TRUE(unread.Remove(first));
    done.Notify();
  });
  Add("reader", 60, "2");
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kUnreadPatience));
  EXPECT_EQ(unread.bytes(), 60);
}

// What an answer belongs to may end once it was removed.
TEST_F(UnreadAnswersShareTest, RemoveWaitsForTheBreakingOff) {
  absl::Notification begun;
  absl::Notification go_on;
  std::atomic<bool> has_ended = false;
  const int64_t first = unread.Add("reader", 60, [&] {
    begun.Notify();
    EXPECT_TRUE(go_on.WaitForNotificationWithTimeout(kUnreadPatience));
    has_ended = true;
  });
  Add("reader", 60, "2");
  ASSERT_TRUE(begun.WaitForNotificationWithTimeout(kUnreadPatience));
  std::thread remover([&] {
    EXPECT_TRUE(unread.Remove(first));
    EXPECT_TRUE(has_ended);
  });
  // The mutex is free meanwhile.
  EXPECT_EQ(unread.bytes(), 60);
  go_on.Notify();
  remover.join();
}

TEST_F(UnreadAnswersShareTest, ForgetsWhatWasRead) {
  const int64_t first = Add("reader", 60, "1");
  const int64_t second = Add("reader", 40, "2");
  EXPECT_EQ(unread.bytes(), 100);
  unread.Remove(first);
  unread.Remove(first);
  unread.Remove(0);
  EXPECT_EQ(unread.bytes(), 40);
  unread.Remove(second);
  EXPECT_EQ(unread.bytes(), 0);
  EXPECT_THAT(BrokenOff(), IsEmpty());
}

}  // namespace
}  // namespace parplan
