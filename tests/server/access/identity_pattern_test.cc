#include "server/access/identity_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;
using Captures = IdentityPattern::Captures;

Identity Spiffe(const std::string& id) { return Identity::OfCertificate({.uris = {id}}, {}); }

Identity Dns(const std::string& name) {
  return Identity::OfCertificate({.dns_names = {name}}, {NameSource::kDns});
}

Identity CommonName(const std::string& name) {
  return Identity::OfCertificate({.common_names = {name}}, {NameSource::kCommonName});
}

std::optional<Captures> Match(const std::string& pattern, const Identity& identity) {
  const absl::StatusOr<IdentityPattern> made = IdentityPattern::Create(pattern, "identities");
  EXPECT_OK(made.status());
  return made.ok() ? made->Match(identity) : std::nullopt;
}

TEST(IdentityPattern, TakesWhatItsPlaceholdersStandFor) {
  EXPECT_EQ(Match("spiffe://lab.example/cluster/{cluster}/node/{node}",
                  Spiffe("spiffe://lab.example/cluster/west/node/Gpu_1.a")),
            (Captures{.cluster = "west", .node = "Gpu_1.a"}));
  EXPECT_EQ(Match("dns:{node}.nodes.lab.example", Dns("Gpu-1.rack2.NODES.lab.example")),
            (Captures{.node = "gpu-1.rack2"}));
  EXPECT_EQ(Match("cn:job-{job}", CommonName("job-4711")), (Captures{.job = "4711"}));
  EXPECT_EQ(Match("spiffe://d/ns/*/sa/*", Spiffe("spiffe://d/ns/training/sa/rank")), Captures());
  EXPECT_EQ(Match("anonymous", Identity::Anonymous()), Captures());
}

TEST(IdentityPattern, MatchesTheWholeIdentityOrNothing) {
  const char* const pattern = "spiffe://d/node/{node}";
  for (const char* other : {"spiffe://d/node", "spiffe://d/node/a/b", "spiffe://d/nodes/a",
                            "spiffe://dd/node/a", "spiffe://d/x/node/a"}) {
    EXPECT_EQ(Match(pattern, Spiffe(other)), std::nullopt) << other;
  }
  EXPECT_EQ(Match("dns:a", Dns("a.b")), std::nullopt);
  EXPECT_EQ(Match("dns:{node}.d", Dns("d")), std::nullopt);
  const Identity account = *Identity::OfServiceAccount("system:serviceaccount:lab:job-7");
  EXPECT_EQ(Match("k8s:{cluster}/job-{job}", account), (Captures{.cluster = "lab", .job = "7"}));
  EXPECT_EQ(Match("k8s:*/*", account), Captures());
  EXPECT_EQ(Match("k8s:other/*", account), std::nullopt);
  EXPECT_EQ(Match("cn:*/*", account), std::nullopt);
  EXPECT_EQ(Match("cn:a*b", CommonName("ab")), std::nullopt);
  EXPECT_EQ(Match("cn:a*a", CommonName("a")), std::nullopt);
  EXPECT_EQ(Match("cn:*", Dns("a")), std::nullopt);
  EXPECT_EQ(Match("cn:*", CommonName("a/b")), std::nullopt);
  EXPECT_EQ(Match("cn:anonymous", Identity::Anonymous()), std::nullopt);
  // A certificate whose names do not count matches nothing.
  for (const char* any : {"cn:*", "dns:*", "anonymous"}) {
    EXPECT_EQ(Match(any, Identity::Unnamed()), std::nullopt);
  }
}

TEST(IdentityPattern, WhatIsNoIdOfItsKindDoesNotMatch) {
  EXPECT_EQ(Match("spiffe://d/c/{cluster}", Spiffe("spiffe://d/c/West")), std::nullopt);
  EXPECT_EQ(Match("cn:{node}", CommonName("-a")), std::nullopt);
  EXPECT_EQ(Match("cn:{node}", CommonName("a b")), std::nullopt);
  EXPECT_EQ(Match("cn:{job}", CommonName("a b")), std::nullopt);
  EXPECT_EQ(Match("cn:{job}", CommonName(std::string(129, 'a'))), std::nullopt);
}

TEST(IdentityPattern, MatchesUsersByNumber) {
  EXPECT_EQ(Match("uid:1000", Identity::OfLocalUser(1000)), Captures());
  EXPECT_EQ(Match("uid:0", Identity::OfLocalUser(0)), Captures());
  EXPECT_EQ(Match("uid:*", Identity::OfLocalUser(7)), Captures());
  EXPECT_EQ(Match("uid:100", Identity::OfLocalUser(1000)), std::nullopt);
  EXPECT_EQ(Match("uid:*", Identity::OfLocalUser(65534)), std::nullopt);
  EXPECT_EQ(Match("uid:*", CommonName("uid:7")), std::nullopt);
  for (const char* bad : {"uid:", "uid:root", "uid:-1", "uid:01", "uid:+1", "uid: 1", "uid:1*",
                          "uid:{node}", "uid:65534", "uid:4294967296", "uid:1/2"}) {
    EXPECT_THAT(IdentityPattern::Create(bad, "identities"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("number of a user")))
        << bad;
  }
}

TEST(IdentityPattern, RefusesServiceAccountsThatCannotBe) {
  for (const char* bad : {"k8s:*", "k8s:planner", "k8s:{cluster}", "k8s:lab/planner/x",
                          "k8s:", "k8s:/planner", "k8s:lab/", "k8s:/"}) {
    EXPECT_THAT(IdentityPattern::Create(bad, "identities"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("k8s:NAMESPACE/NAME")))
        << bad;
  }
}

TEST(IdentityPattern, RefusesWhatWouldMatchInTwoWaysOrTooMuch) {
  for (const char* bad :
       {"", "*", "lab.example", "spiffe:/d", "SPIFFE://d/a", "cn", "unnamed", "cn:{node}{job}",
        "cn:{node}-*", "cn:**", "cn:{user}", "cn:{node", "cn:node}", "spiffe://*/a",
        "spiffe://{cluster}.example/a", "spiffe://d/{node}/{node}"}) {
    EXPECT_THAT(IdentityPattern::Create(bad, "identities"),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << bad;
  }
}

}  // namespace
}  // namespace parplan
