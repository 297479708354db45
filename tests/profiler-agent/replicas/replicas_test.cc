#include "profiler-agent/replicas/replicas.h"

#include <gmock/gmock.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/service/health/health_server.h"
#include "clients/cpp/agent_client.h"
#include "parplan/v1/agent_service.grpc.pb.h"
#include "profiler-agent/replicas/replica_order.h"
#include "tests/support/reserved_port.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::ElementsAre;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// A server that serves or says that it does not.
class HealthyServer {
 public:
  HealthyServer() {
    absl::StatusOr<std::unique_ptr<HealthServer>> server =
        HealthServer::Start("127.0.0.1:0", {"parplan.v1.PlanService"});
    EXPECT_OK(server.status());
    server_ = *std::move(server);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }
  void SetServing(bool is_serving) { server_->SetServing(is_serving); }

 private:
  std::unique_ptr<HealthServer> server_;
};

// A server with a certificate for the name localhost, and for no address.
class NamedServer {
 public:
  NamedServer() : folder_(MakeTestFolder()) {
    const std::string command = absl::StrCat(
        "cd '", folder_, "' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 ",
        "-nodes -keyout key.pem -out certificate.pem -days 2 -subj /CN=test ",
        "-addext subjectAltName=DNS:localhost 2>/dev/null");
    EXPECT_EQ(std::system(command.c_str()), 0);
    grpc::SslServerCredentialsOptions ssl;
    ssl.pem_key_cert_pairs.push_back(
        {ReadFile(absl::StrCat(folder_, "/key.pem")), ReadFile(certificate_file())});
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(ssl), &port_);
    // A setting of the process, which other tests change.
    grpc::EnableDefaultHealthCheckService(true);
    server_ = builder.BuildAndStart();
    server_->GetHealthCheckService()->SetServingStatus("parplan.v1.PlanService", true);
  }

  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::string certificate_file() const { return absl::StrCat(folder_, "/certificate.pem"); }

  // Whether a connection comes about by `target`.
  bool Takes(const std::string& target, const std::string& server_name) const {
    const Replicas replicas(
        {.target = target, .ca_file = certificate_file(), .server_name = server_name}, "lab");
    const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        replicas.MakeChannelTo(address());
    EXPECT_OK(channel.status());
    if (!channel.ok()) return false;
    grpc_connectivity_state state = GRPC_CHANNEL_CONNECTING;
    while (state == GRPC_CHANNEL_CONNECTING) state = replicas.AwaitReady(**channel);
    return state == GRPC_CHANNEL_READY;
  }

 private:
  const std::string folder_;
  v1::AgentService::Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(Replicas, OfAListAreInTheOrderOfTheCluster) {
  Replicas replicas({.target = "ipv4:10.0.0.1:9477,10.0.0.2:9477,10.0.0.3:9477"}, "lab");
  EXPECT_THAT(replicas.Order(), IsOkAndHolds(OrderReplicas(
                                    "lab", {"10.0.0.1:9477", "10.0.0.2:9477", "10.0.0.3:9477"})));
}

TEST(Replicas, OfOtherTargetsAreOne) {
  Replicas replicas({.target = "unix:/run/parplan.sock"}, "lab");
  EXPECT_THAT(replicas.Order(), IsOkAndHolds(ElementsAre("unix:/run/parplan.sock")));
  EXPECT_OK(replicas.MakeChannelTo("unix:/run/parplan.sock").status());
}

TEST(Replicas, NobodyKnowsAreUnavailable) {
  Replicas replicas({.target = "dns://no-address/planner:9477"}, "lab");
  EXPECT_THAT(replicas.Order().status(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(replicas.IsThereBetter("10.0.0.1:9477"));
}

TEST(Replicas, ABetterOneIsOneThatServes) {
  std::vector<HealthyServer> servers(2);
  Replicas replicas(
      {.target = absl::StrCat("ipv4:", servers[0].address(), ",", servers[1].address())}, "lab");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> order, replicas.Order());
  HealthyServer& first = servers[servers[0].address() == order[0] ? 0 : 1];
  EXPECT_TRUE(replicas.IsThereBetter(order[1]));
  EXPECT_FALSE(replicas.IsThereBetter(order[0]));
  first.SetServing(false);
  EXPECT_FALSE(replicas.IsThereBetter(order[1]));
  // One that is named no more is worse than all.
  EXPECT_TRUE(replicas.IsThereBetter("10.0.0.9:9477"));
  first.SetServing(true);
  EXPECT_TRUE(replicas.IsThereBetter(order[1]));
}

TEST(Replicas, MayHaveAddressesOfIpv6) {
  const absl::StatusOr<std::unique_ptr<HealthServer>> server =
      HealthServer::Start("[::1]:0", {"parplan.v1.PlanService"});
  if (!server.ok()) GTEST_SKIP() << "this machine has no IPv6: " << server.status();
  Replicas replicas({.target = absl::StrCat("ipv6:[::1]:", (*server)->port())}, "lab");
  EXPECT_TRUE(replicas.IsThereBetter("[::9]:9477"));
}

TEST(Replicas, OneThatIsAwayIsNotBetter) {
  const ReservedPort nobody;
  Replicas replicas({.target = absl::StrCat("ipv4:127.0.0.1:", nobody.number())}, "lab");
  EXPECT_FALSE(replicas.IsThereBetter("10.0.0.9:9477"));
}

// gRPC 1.51 crashes at a call of a channel that joins another one's connection as that fails.
TEST(Replicas, AreAskedByChannelsThatShareNoConnection) {
  const ReservedPort nobody;
  const std::string address = absl::StrCat("127.0.0.1:", nobody.number());
  const Replicas replicas({.target = address}, "lab");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
            replicas.MakeChannelTo(address);
        ASSERT_OK(channel.status());
        EXPECT_EQ(replicas.AwaitReady(**channel), GRPC_CHANNEL_TRANSIENT_FAILURE);
        EXPECT_THAT(AgentClient(*channel).List({}).status(),
                    StatusIs(absl::StatusCode::kUnavailable));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Replicas, AreHeldToTheNameOfTheTarget) {
  const NamedServer server;
  EXPECT_TRUE(server.Takes(absl::StrCat("localhost:", server.port()), ""));
  EXPECT_TRUE(server.Takes(absl::StrCat("dns:///localhost:", server.port()), ""));
  EXPECT_FALSE(server.Takes(absl::StrCat("localhost:", server.port()), "planner.example"));
  // Without a name the certificate has to be for the address.
  EXPECT_FALSE(server.Takes(absl::StrCat("ipv4:", server.address()), ""));
  EXPECT_TRUE(server.Takes(absl::StrCat("ipv4:", server.address()), "localhost"));
}

}  // namespace
}  // namespace parplan
