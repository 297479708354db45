#include "profiler-agent/replicas/server_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace parplan {
namespace {

using testing::ElementsAre;
using Kind = ServerTarget::Kind;

void ExpectName(const ServerTarget& target, const std::string& name, int port,
                const std::string& dns_server = "") {
  EXPECT_EQ(target.kind, Kind::kName);
  EXPECT_EQ(target.name, name);
  EXPECT_EQ(target.port, port);
  EXPECT_EQ(target.dns_server, dns_server);
}

TEST(ReadServerTarget, ReadsNames) {
  ExpectName(ReadServerTarget("planner:9477"), "planner", 9477);
  ExpectName(ReadServerTarget("planner.example"), "planner.example", 443);
  ExpectName(ReadServerTarget("dns:planner:9477"), "planner", 9477);
  ExpectName(ReadServerTarget("dns:///parplan-server.parplan.svc:9477"),
             "parplan-server.parplan.svc", 9477);
  ExpectName(ReadServerTarget("dns://10.0.0.10/planner:9477"), "planner", 9477, "10.0.0.10");
  ExpectName(ReadServerTarget("dns://127.0.0.1:5353/planner:9477"), "planner", 9477,
             "127.0.0.1:5353");
}

TEST(ReadServerTarget, ReadsAddressesInOneForm) {
  for (const auto& [target, address] : std::vector<std::pair<std::string, std::string>>{
           {"127.0.0.1:9477", "127.0.0.1:9477"},
           {"dns:///127.0.0.1:9477", "127.0.0.1:9477"},
           {"ipv4:127.0.0.1:9477", "127.0.0.1:9477"},
           {"ipv4:///127.0.0.1:9477", "127.0.0.1:9477"},
           {"[::1]:9477", "[::1]:9477"},
           {"[2001:DB8:0::1]:9477", "[2001:db8::1]:9477"},
           {"2001:db8::1", "[2001:db8::1]:443"},
           {"[2001:db8::1]", "[2001:db8::1]:443"},
           {"ipv6:[2001:db8:0:0::1]:9477", "[2001:db8::1]:9477"}}) {
    const ServerTarget read = ReadServerTarget(target);
    EXPECT_EQ(read.kind, Kind::kAddresses) << target;
    EXPECT_THAT(read.addresses, ElementsAre(address)) << target;
  }
  EXPECT_THAT(ReadServerTarget("ipv4:10.0.0.1:1,10.0.0.2:2,10.0.0.1:1").addresses,
              ElementsAre("10.0.0.1:1", "10.0.0.2:2", "10.0.0.1:1"));
  EXPECT_THAT(ReadServerTarget("ipv6:[::1]:1,[::2]:2").addresses,
              ElementsAre("[::1]:1", "[::2]:2"));
}

TEST(ReadServerTarget, LeavesTheRestToGrpc) {
  for (const char* const target :
       {"unix:/run/parplan.sock", "unix-abstract:parplan", "xds:///planner", "", ":9477",
        "planner:port", "planner:70000", "planner:-1", "[::1]9477", "ipv4:planner:9477",
        "ipv4:10.0.0.1:1,", "ipv6:[::1]:port"}) {
    EXPECT_EQ(ReadServerTarget(target).kind, Kind::kOther) << target;
    EXPECT_THAT(ReadServerTarget(target).addresses, ElementsAre()) << target;
  }
}

}  // namespace
}  // namespace parplan
