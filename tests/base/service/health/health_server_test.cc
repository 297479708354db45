#include "base/service/health/health_server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr char kService[] = "parplan.v1.PlanService";

std::string AddressOf(const HealthServer& server) {
  return absl::StrCat("127.0.0.1:", server.port());
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

TEST(HealthServer, ServesTheNamesItWasGivenAndNoOther) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0", {kService}));
  EXPECT_GT(server->port(), 0);
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(AddressOf(*server));
  EXPECT_EQ(CheckHealth(channel, ""), kServing);
  EXPECT_EQ(CheckHealth(channel, kService), kServing);
  EXPECT_EQ(CheckHealth(channel, "parplan.v1.NoService"), absl::StrCat("code ", grpc::NOT_FOUND));
}

TEST(HealthServer, ChangesTheStateOfAllNames) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0", {kService}));
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(AddressOf(*server));
  for (const bool is_serving : {false, true, false}) {
    server->SetServing(is_serving);
    for (const std::string& name : {std::string(), std::string(kService)}) {
      EXPECT_EQ(CheckHealth(channel, name), is_serving ? kServing : kNotServing) << name;
    }
  }
}

TEST(HealthServer, RefusesEveryOtherMethod) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0", {kService}));
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(AddressOf(*server));
  for (const char* const method :
       {"/parplan.v1.PlanService/GetCapabilities",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallRaw(channel, method, "").error_code(), grpc::UNIMPLEMENTED) << method;
  }
}

TEST(HealthServer, SharesItsPortWithNoOther) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0"));
  const absl::Status refused = HealthServer::Start(AddressOf(*server)).status();
  EXPECT_THAT(refused,
              StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr(AddressOf(*server))));
  EXPECT_FALSE(GetErrorDetail(refused).has_value());
  EXPECT_EQ(CheckHealth(ChannelTo(AddressOf(*server)), ""), kServing);
}

TEST(HealthServer, EndsWithTheObject) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<HealthServer> server, HealthServer::Start("127.0.0.1:0"));
  const std::shared_ptr<grpc::Channel> channel = ChannelTo(AddressOf(*server));
  EXPECT_EQ(CheckHealth(channel, ""), kServing);
  server.reset();
  EXPECT_EQ(CheckHealth(channel, ""), absl::StrCat("code ", grpc::UNAVAILABLE));
}

}  // namespace
}  // namespace parplan
