#include "base/service/health/health_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpc/compression.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/system/posix_file.h"
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

// gRPC inflates a message before it looks at its size.
TEST(HealthServer, TakesNoCompressedAndNoLargeMessages) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0"));
  grpc::ChannelArguments compressed;
  compressed.SetCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(AddressOf(*server), grpc::InsecureChannelCredentials(), compressed);
  constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
  EXPECT_EQ(CallRaw(channel, kCheck, std::string(100'000, '\0')).error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(CallRaw(ChannelTo(AddressOf(*server)), kCheck, std::string(5000, 'x')).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CheckHealth(ChannelTo(AddressOf(*server)), ""), kServing);
}

// Connections that say nothing, and those that say what a client says and stay: gRPC would take a
// descriptor for each, and at the last one accept no more.
TEST(HealthServer, HoldsFewConnectionsAndAnswersBesideThem) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<HealthServer> server,
                       HealthServer::Start("127.0.0.1:0"));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string preface =
      std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
  for (const bool speaks : {false, true}) {
    std::vector<FileDescriptor> held;
    for (int i = 0; i < 200; ++i) {
      held.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(held.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
                0);
      if (speaks) {
        EXPECT_EQ(WriteAll(held.back().get(), preface), 0);
      }
    }
    // Those that the server ended, among the 200.
    int ended = 0;
    const absl::Time patience = absl::Now() + absl::Seconds(20);
    while (ended < 200 - 64 && absl::Now() < patience) {
      ended = 0;
      for (const FileDescriptor& each : held) {
        char bytes[4096];
        ssize_t size = 0;
        while ((size = recv(each.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        }
        if (size == 0 || errno == ECONNRESET || errno == EPIPE) ++ended;
      }
    }
    EXPECT_GE(ended, 200 - 64) << speaks;
    std::string health;
    while (health != kServing && absl::Now() < patience) {
      health = CheckHealth(ChannelTo(AddressOf(*server)), "");
    }
    EXPECT_EQ(health, kServing) << speaks;
  }
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
