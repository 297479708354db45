#include "server/access/identity.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace parplan {
namespace {

const std::vector<NameSource>& DnsThenCommonName() {
  static const auto& sources =
      *new std::vector<NameSource>{NameSource::kDns, NameSource::kCommonName};
  return sources;
}

std::string Of(const CertificateNames& names,
               const std::vector<NameSource>& sources = DnsThenCommonName()) {
  return Identity::OfCertificate(names, sources).text();
}

TEST(Identity, ASpiffeIdComesBeforeOtherNames) {
  EXPECT_EQ(Of({.uris = {"https://x.example", "spiffe://lab.example/node/a"},
                .dns_names = {"a.lab.example"},
                .common_names = {"a"}}),
            "spiffe://lab.example/node/a");
}

TEST(Identity, WithoutOneTheSourcesDecideInTheirOrder) {
  const CertificateNames names = {.dns_names = {"A.Lab.Example", "b.lab.example"},
                                  .common_names = {"a job"}};
  EXPECT_EQ(Of(names), "dns:a.lab.example");
  EXPECT_EQ(Of(names, {NameSource::kCommonName, NameSource::kDns}), "cn:a job");
  EXPECT_EQ(Of(names, {NameSource::kDns}), "dns:a.lab.example");
  EXPECT_EQ(Of(names, {}), "unnamed");
  EXPECT_EQ(Of({.common_names = {"a"}}), "cn:a");
  EXPECT_EQ(Of({.common_names = {"a"}}, {NameSource::kDns}), "unnamed");
  EXPECT_EQ(Of({}), "unnamed");
}

TEST(Identity, AServiceAccountIsItsNamespaceAndName) {
  const auto text = [](const std::string& subject) {
    const std::optional<Identity> identity = Identity::OfServiceAccount(subject);
    return identity.has_value() ? identity->text() : "none";
  };
  EXPECT_EQ(text("system:serviceaccount:lab:trainer"), "k8s:lab/trainer");
  EXPECT_EQ(text("system:serviceaccount:lab-2:a.b-c"), "k8s:lab-2/a.b-c");
  for (const std::string& subject :
       {std::string(), std::string("lab:trainer"), std::string("system:serviceaccount:lab"),
        std::string("system:serviceaccount:a.b:c"), std::string("system:serviceaccount:a:b:c"),
        std::string("system:serviceaccount:a:b/c"), std::string("system:serviceaccount:a:*"),
        std::string("system:serviceaccount:A:b"),
        "system:serviceaccount:" + std::string(64, 'a') + ":b",
        "system:serviceaccount:a:" + std::string(254, 'b')}) {
    EXPECT_EQ(text(subject), "none") << subject;
  }
}

TEST(Identity, ABadSpiffeIdIsNotReplacedByAnotherName) {
  for (const std::vector<std::string>& uris :
       std::vector<std::vector<std::string>>{{"spiffe://a/x", "spiffe://a/y"},
                                             {"spiffe://a/x", "SPIFFE://a/x"},
                                             {"Spiffe://a/x"},
                                             {"spiffe:a"},
                                             {"spiffe://a/../b"}}) {
    EXPECT_EQ(Of({.uris = uris, .dns_names = {"a"}, .common_names = {"a"}}), "unnamed");
  }
}

TEST(Identity, NamesThatStandForManyOrLookLikeOthersAreNone) {
  for (const std::string name : {"*.lab.example", "a b", "a/b", "a\n", "", "\xc3\xa4.example"}) {
    EXPECT_EQ(Of({.dns_names = {name}, .common_names = {"a"}}), "unnamed") << name;
  }
  EXPECT_EQ(Of({.dns_names = {std::string(254, 'a')}}), "unnamed");
  for (const std::string name : {"*", "a\nb", "", "\xd0\xb0"}) {
    EXPECT_EQ(Of({.common_names = {name}}), "unnamed") << name;
  }
  EXPECT_EQ(Of({.common_names = {std::string("a\0b", 3)}}), "unnamed");
}

// The prefix keeps kinds of names apart, whatever a CA writes into them.
TEST(Identity, NoNameOfACertificateIsTheIdentityOfAnotherKind) {
  EXPECT_EQ(Of({.common_names = {"anonymous"}}), "cn:anonymous");
  EXPECT_EQ(Of({.common_names = {"dns:a"}}), "cn:dns:a");
  EXPECT_EQ(Of({.common_names = {"spiffe://lab.example/node/a"}}),
            "cn:spiffe://lab.example/node/a");
  EXPECT_EQ(Identity::Anonymous().text(), "anonymous");
}

TEST(IsSpiffeId, FollowsTheRulesOfSpiffe) {
  for (const char* good : {"spiffe://lab.example", "spiffe://lab.example/a", "spiffe://a_b-c.d/X/9",
                           "spiffe://d/a.b-c_d/..."}) {
    EXPECT_TRUE(IsSpiffeId(good)) << good;
  }
  for (const char* bad :
       {"spiffe:/d/a", "spiffe://", "spiffe:///a", "spiffe://D/a", "spiffe://d/", "spiffe://d//a",
        "spiffe://d/a/", "spiffe://d/.", "spiffe://d/a/..", "spiffe://d:80/a", "spiffe://u@d/a",
        "spiffe://d/a?b", "spiffe://d/a#b", "spiffe://d/a%20b", "spiffe://d/\xc3\xa4"}) {
    EXPECT_FALSE(IsSpiffeId(bad)) << bad;
  }
  EXPECT_TRUE(IsSpiffeId("spiffe://d/" + std::string(2037, 'a')));
  EXPECT_FALSE(IsSpiffeId("spiffe://d/" + std::string(2038, 'a')));
}

}  // namespace
}  // namespace parplan
