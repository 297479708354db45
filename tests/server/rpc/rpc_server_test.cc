// The server around the services: names of calls, metrics, health, addresses,
// and its end.

#include "server/rpc/rpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "parplan/v1/plan_service.grpc.pb.h"
#include "server/rpc/method_names.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

constexpr char kTraceParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Makes a call and gives the request id among its trailing metadata.
std::string AskWith(RpcHarness& harness,
                    const std::vector<std::pair<std::string, std::string>>& metadata) {
  const auto stub = v1::PlanService::NewStub(harness.channel());
  grpc::ClientContext context;
  for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
  v1::Capabilities capabilities;
  EXPECT_TRUE(stub->GetCapabilities(&context, {}, &capabilities).ok());
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto found = trailing.find("x-request-id");
  return found == trailing.end() ? "" : std::string(found->second.data(), found->second.size());
}

std::shared_ptr<grpc::Channel> ProbeChannel(const RpcServer& server) {
  return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server.health_port()),
                             grpc::InsecureChannelCredentials());
}

TEST(RpcServer, ACallKeepsItsNameAndItsTrace) {
  RpcHarness harness;
  EXPECT_EQ(AskWith(harness, {{"x-request-id", "job-7.1"}, {"traceparent", kTraceParent}}),
            "job-7.1");
  const CallRecord record = harness.records().at(0);
  EXPECT_EQ(record.method, "GetCapabilities");
  EXPECT_EQ(record.code, StatusCode::kOk);
  EXPECT_EQ(record.request_id, "job-7.1");
  EXPECT_EQ(record.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_THAT(record.peer, HasSubstr("127.0.0.1"));
  EXPECT_GE(record.duration, absl::ZeroDuration());
}

TEST(RpcServer, ACallWithoutAGoodNameGetsOne) {
  RpcHarness harness;
  const std::string first = AskWith(harness, {});
  const std::string second = AskWith(harness, {{"x-request-id", "spaces are no part of it"}});
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(second.size(), 32u);
  EXPECT_NE(first, second);
}

TEST(RpcServer, ARefusalIsRecordedWithItsReason) {
  RpcHarness harness;
  EXPECT_FALSE(harness.plans().CreatePlan({}).ok());
  const CallRecord record = harness.records().at(0);
  EXPECT_EQ(record.code, StatusCode::kInvalidArgument);
  EXPECT_EQ(record.reason, Reason::kSpecInvalid);
  EXPECT_THAT(record.message, Not(testing::IsEmpty()));
}

TEST(RpcServer, CallsAreCountedByMethodAndCode) {
  RpcHarness harness;
  ASSERT_OK(harness.UploadSmallProfile());
  ASSERT_OK(harness.plans().CreatePlan(SmallQuestion()));
  EXPECT_FALSE(harness.plans().CreatePlan({}).ok());
  const std::string text = harness.observer().Text();
  EXPECT_THAT(text, HasSubstr(R"(parplan_requests_total{code="OK",method="UploadProfile"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(parplan_requests_total{code="OK",method="CreatePlan"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(code="INVALID_ARGUMENT",method="CreatePlan"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(parplan_requests_in_flight{method="CreatePlan"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(parplan_rejects_total{reason="SPEC_INVALID"} 1)"));
}

TEST(RpcServer, EveryMethodOfTheContractIsALabelFromTheStart) {
  RpcHarness harness;
  EXPECT_THAT(MethodNames(), testing::SizeIs(25));
  for (const std::string& name : MethodNames()) {
    EXPECT_THAT(harness.observer().Text(),
                HasSubstr(absl::StrCat("parplan_requests_in_flight{method=\"", name, "\"} 0")));
  }
  EXPECT_THAT(harness.observer().Text(), Not(HasSubstr("method=\"other\"")));
}

TEST(RpcServer, RequestsThatCannotBeDecodedAreCountedAndRecorded) {
  RpcHarness harness;
  const std::string junk = "\xff\xff\xff";
  for (const char* method : {"CreatePlan", "SearchPlan", "GetPlan"}) {
    EXPECT_EQ(CallRaw(harness.channel(), absl::StrCat("/parplan.v1.PlanService/", method), junk)
                  .error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
    const CallRecord record = harness.records().back();
    EXPECT_EQ(record.method, method);
    EXPECT_EQ(record.code, StatusCode::kUnimplemented);
    EXPECT_EQ(record.identity, "anonymous");
    EXPECT_THAT(record.peer, HasSubstr("127.0.0.1"));
    EXPECT_THAT(harness.observer().Text(),
                HasSubstr(absl::StrCat("parplan_requests_total{code=\"UNIMPLEMENTED\",method=\"",
                                       method, "\"} 1")));
    EXPECT_THAT(harness.observer().Text(),
                HasSubstr(absl::StrCat("parplan_requests_in_flight{method=\"", method, "\"} 0")));
  }
  EXPECT_EQ(harness.records().size(), 3u);
  // An answered call is recorded once, as before.
  EXPECT_OK(harness.plans().GetCapabilities().status());
  EXPECT_EQ(harness.records().size(), 4u);
}

TEST(RpcServer, UnknownMethodsMakeNoMetricsAndNoRecords) {
  RpcHarness harness;
  const std::string before = harness.observer().Text();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(CallRaw(harness.channel(), absl::StrCat("/parplan.v1.PlanService/Method", i), "")
                  .error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_EQ(harness.observer().Text(), before);
  EXPECT_TRUE(harness.records().empty());
}

TEST(RpcServer, BytesThatAreNoMessageAreRefused) {
  RpcHarness harness;
  const grpc::Status status =
      CallRaw(harness.channel(), "/parplan.v1.PlanService/CreatePlan", "\xff\xff");
  EXPECT_FALSE(status.ok());
  EXPECT_OK(harness.plans().GetCapabilities());
}

TEST(RpcServer, ARequestBeyondTheLimitIsRefused) {
  Limits limits = RpcHarness::TestLimits();
  limits.max_request_bytes = 10'000;
  RpcHarness harness(limits);
  v1::CreatePlanRequest request = SmallQuestion();
  request.set_job_id(std::string(20'000, 'x'));
  EXPECT_THAT(harness.plans().CreatePlan(request), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_OK(harness.plans().GetCapabilities());
}

TEST(RpcServer, RefusesAddressesThatOthersReachWithoutTls) {
  RpcHarness harness;
  RpcServerOptions options;
  options.listen_address = "0.0.0.0:0";
  const absl::Status refused = RpcServer::Start(harness.core(), options).status();
  EXPECT_THAT(refused, StatusIs(StatusCode::kFailedPrecondition, HasSubstr("--insecure")));
  options.tls.certificate = "no such file";
  EXPECT_THAT(RpcServer::Start(harness.core(), options),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tls_certificate")));
}

TEST(RpcServer, TwoServersNeverShareAPort) {
  RpcHarness harness;
  RpcServerOptions options;
  options.listen_address = harness.address();
  EXPECT_THAT(RpcServer::Start(harness.core(), options), StatusIs(StatusCode::kUnavailable));
  EXPECT_OK(harness.plans().GetCapabilities());
}

TEST(RpcServer, TheHealthPortServesHealthAndNothingElse) {
  RpcHarness harness;
  EXPECT_EQ(harness.server().health_port(), 0);
  RpcServerOptions options;
  options.health_listen_address = "127.0.0.1:0";
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RpcServer> server,
                       RpcServer::Start(harness.core(), options));
  const std::shared_ptr<grpc::Channel> probe = ProbeChannel(*server);
  EXPECT_EQ(CheckHealth(probe, ""), kServing);
  EXPECT_EQ(CheckHealth(probe, "parplan.v1.PlanService"), kServing);
  EXPECT_EQ(CheckHealth(probe, "parplan.v1.NoService"), absl::StrCat("code ", grpc::NOT_FOUND));
  for (const char* const method :
       {"/parplan.v1.PlanService/GetCapabilities", "/parplan.v1.PlanService/CreatePlan",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallRaw(probe, method, "").error_code(), grpc::UNIMPLEMENTED) << method;
    // The same is there on the port of the API.
    EXPECT_NE(CallRaw(harness.channel(), method, "").error_code(), grpc::UNIMPLEMENTED) << method;
  }
  options.health_listen_address = "nonsense";
  EXPECT_THAT(RpcServer::Start(harness.core(), options), StatusIs(StatusCode::kInvalidArgument));
  options.health_listen_address = absl::StrCat("127.0.0.1:", server->health_port());
  EXPECT_THAT(RpcServer::Start(harness.core(), options), StatusIs(StatusCode::kUnavailable));
}

TEST(RpcServer, ADrainingServerSaysSoOnTheHealthPort) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  RpcServerOptions options;
  options.health_listen_address = "127.0.0.1:0";
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RpcServer> server,
                       RpcServer::Start(harness.core(), options));
  const std::shared_ptr<grpc::Channel> probe = ProbeChannel(*server);
  ChannelOptions target;
  target.target = absl::StrCat("127.0.0.1:", server->port());
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> channel, MakeChannel(target));
  planner.Shut();
  std::thread caller([&] { EXPECT_OK(PlanClient(channel).CreatePlan(SmallQuestion())); });
  planner.WaitForArrivals(1);
  EXPECT_EQ(CheckHealth(probe, ""), kServing);
  std::thread drain([&] { server->Drain(absl::ZeroDuration(), absl::Minutes(5)); });
  std::string health = kServing;
  while (health == kServing) health = CheckHealth(probe, "");
  EXPECT_EQ(health, kNotServing);
  planner.Open();
  caller.join();
  drain.join();
  EXPECT_EQ(CheckHealth(probe, ""), absl::StrCat("code ", grpc::UNAVAILABLE));
}

TEST(RpcServer, ADrainAnswersTheCallsInProgress) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  std::thread caller([&] { EXPECT_OK(harness.plans().CreatePlan(SmallQuestion())); });
  planner.WaitForArrivals(1);
  std::thread drain([&] { harness.server().Drain(absl::ZeroDuration(), absl::Seconds(30)); });
  planner.Open();
  caller.join();
  drain.join();
  EXPECT_FALSE(harness.plans().GetCapabilities().ok());
}

TEST(RpcServer, IdleConnectionsAndWatchersOfHealthDoNotHoldUpTheEnd) {
  RpcHarness harness;
  EXPECT_OK(harness.plans().GetCapabilities());
  ChannelOptions options;
  options.target = harness.address();
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> watching, MakeChannel(options));
  EXPECT_OK(PlanClient(watching).GetCapabilities());
  const absl::Duration start = harness.clock().Steady();
  harness.server().Drain(absl::ZeroDuration(), absl::Seconds(30));
  EXPECT_LT(harness.clock().Steady() - start, absl::Seconds(4));
}

TEST(RpcServer, ADrainEndsWhatTakesTooLong) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile());
  planner.Shut();
  std::thread caller([&] { EXPECT_FALSE(harness.plans().CreatePlan(SmallQuestion()).ok()); });
  planner.WaitForArrivals(1);
  harness.server().Drain(absl::ZeroDuration(), absl::Milliseconds(100));
  planner.WaitForStops(1);
  caller.join();
}

TEST(RpcServer, AnExceptionBecomesAnInternalError) {
  RpcHarness harness(RpcHarness::TestLimits(),
                     [](const PlanningProblem&, absl::string_view,
                        const SearchControl&) -> absl::StatusOr<PlanningResult> {
                       return absl::InternalError("the planner failed");
                     });
  ASSERT_OK(harness.UploadSmallProfile());
  EXPECT_THAT(harness.plans().CreatePlan(SmallQuestion()), StatusIs(StatusCode::kInternal));
  const absl::Status status =
      WithoutExceptions([]() -> absl::Status { throw std::runtime_error("boom"); });
  EXPECT_THAT(status, StatusIs(StatusCode::kInternal, HasSubstr("boom")));
  EXPECT_THAT(WithoutExceptions([]() -> absl::Status { throw 1; }),
              StatusIs(StatusCode::kInternal));
}

}  // namespace
}  // namespace parplan
