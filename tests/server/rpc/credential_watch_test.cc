// Streams end with the token or certificate that they began with.

#include "server/rpc/credential_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cpp/agent_client.h"
#include "clients/cpp/channel.h"
#include "clients/cpp/plan_client.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/execution_service.grpc.pb.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "server/access/web_key_set.h"
#include "tests/base/service/tls/test_certificate.h"
#include "tests/server/access/token_signer.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A time of day that stands still.
class StoppedClock : public Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Duration Steady() const override { return Clock::Real().Steady(); }
  absl::Time now = absl::FromUnixSeconds(1500);
};

AccessRules RulesWith(const TokenSigner& signer, const std::vector<Grant>& grants) {
  absl::StatusOr<WebKeySet> keys =
      WebKeySet::Create(absl::StrCat("{\"keys\":[", signer.json, "]}"), "jwks");
  EXPECT_OK(keys.status());
  absl::StatusOr<Policy> policy = Policy::Create(grants, "grants");
  EXPECT_OK(policy.status());
  return {.policy = *std::move(policy),
          .tokens = std::make_shared<const TokenVerifier>(
              TokenVerifier::Rules{.issuer = "issuer", .audience = "parplan"}, *std::move(keys))};
}

Grant GrantTo(const std::string& identity, const std::string& role) {
  Grant grant;
  grant.identities = {identity};
  grant.role = role;
  grant.clusters = {"lab"};
  if (role == "agent") grant.nodes = {"*"};
  return grant;
}

std::string TokenOf(const TokenSigner& signer, const std::string& name, absl::Time expiry) {
  return MakeToken(signer, {{"alg", "ES256"}, {"kid", "1"}},
                   {{"iss", "issuer"},
                    {"aud", "parplan"},
                    {"sub", absl::StrCat("system:serviceaccount:lab:", name)},
                    {"exp", absl::ToUnixSeconds(expiry)}});
}

const absl::Time kExpiry = absl::FromUnixSeconds(2000);

// Looks are asked for; those of the thread find the same.
class CredentialWatchTest : public testing::Test {
 protected:
  // Watches a stream, whose end goes to `ends`.
  int64_t Watch(const std::string& token) {
    return watch.Add(authorizer.CredentialOfToken(token, clock.now),
                     authorizer.CallerOfToken(token, clock.now), [this](const absl::Status& end) {
                       const std::lock_guard<std::mutex> lock(mutex);
                       ends.push_back(end);
                     });
  }
  std::vector<absl::Status> Look() {
    watch.Look();
    const std::lock_guard<std::mutex> lock(mutex);
    return ends;
  }

  const TokenSigner signer = EcSigner("1");
  Authorizer authorizer{RulesWith(signer, {GrantTo("k8s:lab/a", "agent")})};
  StoppedClock clock;
  std::mutex mutex;
  std::vector<absl::Status> ends;
  CredentialWatch watch{authorizer, clock};
};

TEST_F(CredentialWatchTest, AStreamEndsOnceWithTheExpiryOfItsToken) {
  Watch(TokenOf(signer, "a", kExpiry));
  Watch(TokenOf(signer, "a", kExpiry + absl::Hours(1)));
  clock.now = kExpiry + TokenVerifier::kLeeway - absl::Seconds(1);
  EXPECT_THAT(Look(), IsEmpty());
  clock.now += absl::Seconds(1);
  EXPECT_THAT(Look(), SizeIs(1));
  ASSERT_THAT(Look(), SizeIs(1));
  EXPECT_THAT(ends[0],
              StatusIs(StatusCode::kUnauthenticated,
                       HasSubstr("the token of `k8s:lab/a` expired at 1970-01-01T00:33:20+00:00")));
}

TEST_F(CredentialWatchTest, AStreamThatHasEndedIsForgotten) {
  const int64_t number = Watch(TokenOf(signer, "a", kExpiry));
  EXPECT_TRUE(watch.Remove(number));
  EXPECT_FALSE(watch.Remove(number));
  EXPECT_FALSE(watch.Remove(0));
  clock.now = kExpiry + absl::Hours(1);
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(CredentialWatchTest, AConfigurationThatTakesARoleAwayEndsStreams) {
  authorizer.Replace(RulesWith(signer, {GrantTo("k8s:lab/*", "agent")}));
  Watch(TokenOf(signer, "a", kExpiry));
  Watch(TokenOf(signer, "b", kExpiry));
  watch.Add({}, authorizer.AnonymousCaller(), [](const absl::Status&) { ADD_FAILURE(); });
  EXPECT_THAT(Look(), IsEmpty());
  // More roles end nothing.
  authorizer.Replace(
      RulesWith(signer, {GrantTo("k8s:lab/*", "agent"), GrantTo("k8s:lab/*", "operator")}));
  EXPECT_THAT(Look(), IsEmpty());
  authorizer.Replace(RulesWith(signer, {GrantTo("k8s:lab/a", "agent")}));
  ASSERT_THAT(Look(), SizeIs(1));
  EXPECT_THAT(ends[0],
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("takes a role from `k8s:lab/b`")));
  // Another key set: the first key has been withdrawn.
  authorizer.Replace(RulesWith(EcSigner("1"), {GrantTo("k8s:lab/*", "agent")}));
  ASSERT_THAT(Look(), SizeIs(2));
  EXPECT_THAT(ends[1], StatusIs(StatusCode::kUnauthenticated, HasSubstr("no key of the set")));
}

TEST_F(CredentialWatchTest, RulesThatChangeBeforeAStreamIsWatchedCount) {
  const std::string token = TokenOf(signer, "a", kExpiry);
  const auto caller = authorizer.CallerOfToken(token, clock.now);
  authorizer.Replace(RulesWith(signer, {}));
  Look();
  watch.Add(authorizer.CredentialOfToken(token, clock.now), caller,
            [this](const absl::Status& end) {
              const std::lock_guard<std::mutex> lock(mutex);
              ends.push_back(end);
            });
  EXPECT_THAT(Look(), SizeIs(1));
}

v1::CreatePlanRequest QuestionForJob(const std::string& job) {
  v1::CreatePlanRequest request = SmallQuestion();
  request.set_job_id(job);
  return request;
}

v1::AgentHello HelloOf(const std::string& node) {
  v1::AgentHello hello;
  hello.set_node("clusters/lab/nodes/" + node);
  hello.set_instance_id("one");
  hello.set_host("127.0.0.1");
  hello.set_device_kind("CPU");
  hello.set_device_count(1);
  return hello;
}

std::string Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Servers with callers of their own over the core of a harness.
class CredentialStreamTest : public testing::Test {
 protected:
  void Serve(RpcServerOptions options) {
    options.authorizer = authorizer;
    options.max_first_silence = absl::Hours(1);
    options.max_stream_silence = absl::Hours(1);
    absl::StatusOr<std::unique_ptr<RpcServer>> started = RpcServer::Start(harness.core(), options);
    ASSERT_OK(started.status());
    server = *std::move(started);
  }
  std::shared_ptr<grpc::Channel> ChannelTo(const ChannelOptions& options) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = MakeChannel(options);
    EXPECT_OK(channel.status());
    return channel.ok() ? *std::move(channel) : nullptr;
  }
  // Serves tokens on a Unix socket, and returns a channel of the service account `lab/a`.
  std::shared_ptr<grpc::Channel> ServeTokens(const std::string& role) {
    authorizer->Replace(RulesWith(signer, {GrantTo("k8s:lab/a", role)}));
    RpcServerOptions options;
    options.listen_address = absl::StrCat("unix:", folder, "/socket");
    Serve(options);
    return ChannelTo({.target = options.listen_address,
                      .token_file = Write(absl::StrCat(folder, "/token"),
                                          TokenOf(signer, "a", absl::Now() + absl::Hours(1)))});
  }

  const std::string folder = MakeTestFolder();
  const TokenSigner signer = EcSigner("1");
  const std::shared_ptr<Authorizer> authorizer = std::make_shared<Authorizer>(AccessRules());
  RpcHarness harness;
  std::unique_ptr<RpcServer> server;
};

TEST_F(CredentialStreamTest, OfAnAgentEndsWithItsToken) {
  AgentClient client(ServeTokens("agent"));
  const auto stream = client.Connect(HelloOf("a"));
  ASSERT_OK(stream->Receive());
  harness.clock().Forward(absl::Hours(1) + TokenVerifier::kLeeway);
  EXPECT_THAT(stream->Receive(), StatusIs(StatusCode::kUnauthenticated,
                                          HasSubstr("the token of `k8s:lab/a` expired")));
  // A new stream needs the renewed one.
  EXPECT_THAT(client.Connect(HelloOf("a"))->Receive(),
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("it has expired")));
  Write(absl::StrCat(folder, "/token"), TokenOf(signer, "a", absl::Now() + absl::Hours(3)));
  EXPECT_OK(client.Connect(HelloOf("a"))->Receive());
}

TEST_F(CredentialStreamTest, OfAnAgentEndsWithItsRole) {
  AgentClient client(ServeTokens("agent"));
  const auto stream = client.Connect(HelloOf("a"));
  ASSERT_OK(stream->Receive());
  authorizer->Replace(RulesWith(signer, {GrantTo("k8s:lab/b", "agent")}));
  EXPECT_THAT(stream->Receive(),
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("takes a role from `k8s:lab/a`")));
}

// The stream of reports, which waits for its first message.
TEST_F(CredentialStreamTest, OfReportsEndsWithItsToken) {
  const auto stub = v1::ExecutionService::NewStub(ServeTokens("operator"));
  grpc::ClientContext context;
  v1::ReportMetricsResponse response;
  const auto writer = stub->ReportMetrics(&context, &response);
  while (harness.observer().Text().find("parplan_requests_in_flight{method=\"ReportMetrics\"} 1") ==
         std::string::npos) {
    std::this_thread::yield();
  }
  harness.clock().Forward(absl::Hours(1) + TokenVerifier::kLeeway);
  EXPECT_THAT(FromGrpcStatus(writer->Finish()),
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("expired at")));
}

// The request of a search that waits for a thread is read when it gets one.
TEST_F(CredentialStreamTest, OfASearchThatHasNotBegunEndsWithItsToken) {
  ASSERT_OK(harness.UploadSmallProfile());
  const std::shared_ptr<grpc::Channel> channel = ServeTokens("planner");
  PlanClient plans(channel);
  ASSERT_OK(plans.CreatePlan(QuestionForJob("first")));
  harness.audit().Hold(true);
  // More than the server has threads for questions.
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back(
        [&plans, i] { EXPECT_OK(plans.CreatePlan(QuestionForJob(absl::StrCat("job-", i)))); });
  }
  harness.audit().AwaitHeld();
  const auto in_flight = [&](const char* method, int count) {
    return harness.observer().Text().find(absl::StrCat("parplan_requests_in_flight{method=\"",
                                                       method, "\"} ", count)) != std::string::npos;
  };
  while (!in_flight("CreatePlan", 16)) std::this_thread::yield();
  const auto stub = v1::PlanService::NewStub(channel);
  grpc::ClientContext context;
  const auto reader = stub->SearchPlan(&context, QuestionForJob("late"));
  while (!in_flight("SearchPlan", 1)) std::this_thread::yield();
  // A stream of the same token that began later: when it ends, the other has been ended too.
  authorizer->Replace(
      RulesWith(signer, {GrantTo("k8s:lab/a", "planner"), GrantTo("k8s:lab/a", "operator")}));
  const auto reports = v1::ExecutionService::NewStub(channel);
  grpc::ClientContext later_context;
  v1::ReportMetricsResponse nothing;
  const auto writer = reports->ReportMetrics(&later_context, &nothing);
  while (!in_flight("ReportMetrics", 1)) std::this_thread::yield();
  harness.clock().Forward(absl::Hours(1) + TokenVerifier::kLeeway);
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), StatusIs(StatusCode::kUnauthenticated));
  harness.audit().Hold(false);
  v1::SearchPlanResponse response;
  while (reader->Read(&response)) EXPECT_FALSE(response.has_plan());
  EXPECT_THAT(FromGrpcStatus(reader->Finish()),
              StatusIs(StatusCode::kUnauthenticated, HasSubstr("expired at")));
  for (std::thread& caller : callers) caller.join();
}

TEST_F(CredentialStreamTest, OfAnAgentEndsWithItsCertificate) {
  const absl::Time now = absl::Now();
  const TestCertificate long_lived =
      MakeTestCertificate(now - absl::Hours(1), now + absl::Hours(100), "lab");
  const TestCertificate short_lived =
      MakeTestCertificate(now - absl::Hours(1), now + absl::Hours(1), "a");
  const std::string certificate = Write(folder + "/server.pem", long_lived.certificate);
  const std::string own = Write(folder + "/own.pem", short_lived.certificate);
  absl::StatusOr<Policy> policy = Policy::Create({GrantTo("cn:a", "agent")}, "grants");
  ASSERT_OK(policy.status());
  authorizer->Replace({.policy = *std::move(policy)});
  RpcServerOptions options;
  options.tls = {.certificate = certificate,
                 .key = Write(folder + "/server.key", long_lived.key),
                 .client_ca = own};
  Serve(options);
  AgentClient client(ChannelTo({.target = absl::StrCat("127.0.0.1:", server->port()),
                                .ca_file = certificate,
                                .certificate_file = own,
                                .key_file = Write(folder + "/own.key", short_lived.key),
                                .server_name = "lab"}));
  const auto stream = client.Connect(HelloOf("a"));
  ASSERT_OK(stream->Receive());
  harness.clock().Forward(absl::Hours(1) + absl::Seconds(1));
  EXPECT_THAT(stream->Receive(),
              StatusIs(StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("the client certificate of `cn:a` expired"),
                             HasSubstr("renew the certificate"))));
  // The connection lives, and a stream that begins on it ends at the next look.
  const auto next = client.Connect(HelloOf("a"));
  absl::Status end;
  while (end.ok()) end = next->Receive().status();
  EXPECT_THAT(end, StatusIs(StatusCode::kUnauthenticated, HasSubstr("certificate of `cn:a`")));
}

}  // namespace
}  // namespace parplan
