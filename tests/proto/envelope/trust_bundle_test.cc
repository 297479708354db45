#include "proto/envelope/trust_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/envelope/rfc3339.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The public key of RFC 8037 appendix A.2, which is the first key of RFC 8032.
constexpr char kBundle[] = R"({
  "keys": [
    {
      "kty": "OKP",
      "crv": "Ed25519",
      "use": "sig",
      "alg": "EdDSA",
      "kid": "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9",
      "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
      "parplan_not_before": "2026-01-30T12:00:00Z",
      "parplan_not_after": "2026-04-30T12:00:00Z",
      "parplan_status": "active"
    }
  ]
}
)";

// `kBundle` with one text in place of another.
std::string With(absl::string_view before, absl::string_view after) {
  std::string text = absl::StrReplaceAll(kBundle, {{before, after}});
  EXPECT_NE(text, kBundle) << before;
  return text;
}

TEST(TrustBundle, ReadsAndWritesTheKeyOfTheRfc) {
  const PrivateKey key = FirstKey();
  ASSERT_OK_AND_ASSIGN(const TrustBundle bundle, TrustBundle::FromJson(kBundle));
  ASSERT_EQ(bundle.keys().size(), 1u);
  EXPECT_EQ(bundle.keys()[0].public_key, key.public_key());
  EXPECT_EQ(bundle.keys()[0].not_before, IssueTime() - absl::Hours(24 * 30));
  EXPECT_EQ(bundle.keys()[0].not_after, IssueTime() + absl::Hours(24 * 60));
  EXPECT_EQ(bundle.ToJson(), kBundle);
}

TEST(TrustBundle, RoundTripsThroughJson) {
  const PrivateKey first = FirstKey();
  const PrivateKey second = SecondKey();
  ASSERT_OK_AND_ASSIGN(
      const TrustBundle bundle,
      TrustBundle::Create(
          {{first.public_key(), IssueTime(), IssueTime() + absl::Hours(1), TrustStatus::kRetired},
           {second.public_key(), IssueTime() - absl::Milliseconds(1500),
            IssueTime() + absl::Hours(2), TrustStatus::kActive}}));
  ASSERT_OK_AND_ASSIGN(const TrustBundle from_json, TrustBundle::FromJson(bundle.ToJson()));
  EXPECT_EQ(from_json.keys(), bundle.keys());
}

TEST(TrustBundle, MessagesHaveTheKeysAndTheirWindows) {
  const PrivateKey key = FirstKey();
  ASSERT_OK_AND_ASSIGN(
      const TrustBundle bundle,
      TrustBundle::Create({{key.public_key(), IssueTime() - absl::Milliseconds(1500),
                            IssueTime() + absl::Hours(2), TrustStatus::kActive}}));
  const auto messages = bundle.ToProto();
  ASSERT_EQ(messages.size(), 1);
  EXPECT_EQ(messages[0].key_id(), key.public_key().key_id());
  EXPECT_EQ(messages[0].public_key(), key.public_key().raw());
  const int64_t issue = absl::ToUnixSeconds(IssueTime());
  EXPECT_EQ(messages[0].not_before().seconds(), issue - 2);
  EXPECT_EQ(messages[0].not_before().nanos(), 500'000'000);
  EXPECT_EQ(messages[0].not_after().seconds(), issue + 7200);
}

TEST(TrustBundle, TheOrderOfTheKeysMakesNoDifference) {
  const PrivateKey first = FirstKey();
  const PrivateKey second = SecondKey();
  EXPECT_EQ(Trusting({&first, &second}).ToJson(), Trusting({&second, &first}).ToJson());
}

TEST(TrustBundle, FindsByKeyIdAlone) {
  const PrivateKey key = FirstKey();
  const TrustBundle bundle = Trusting({&key});
  ASSERT_NE(bundle.Find(key.public_key().key_id()), nullptr);
  EXPECT_EQ(bundle.Find(SecondKey().public_key().key_id()), nullptr);
  EXPECT_EQ(bundle.Find(""), nullptr);
  EXPECT_EQ(TrustBundle().Find(key.public_key().key_id()), nullptr);
}

TEST(TrustBundle, OptionalMembersMayBeAbsent) {
  const std::string text =
      absl::StrReplaceAll(kBundle, {{"\"use\": \"sig\",", ""},
                                    {"\"alg\": \"EdDSA\",", ""},
                                    {",\n      \"parplan_status\": \"active\"", ""}});
  ASSERT_OK_AND_ASSIGN(const TrustBundle bundle, TrustBundle::FromJson(text));
  EXPECT_EQ(bundle.ToJson(), kBundle);
}

TEST(TrustBundle, NamesTheFieldThatIsWrong) {
  struct Case {
    std::string text;
    const char* message;
  };
  const std::vector<Case> cases = {
      {With("\"kty\": \"OKP\"", "\"kty\": \"RSA\""), "keys[0].kty"},
      {With("\"kty\": \"OKP\",", ""), "keys[0].kty"},
      {With("\"crv\": \"Ed25519\"", "\"crv\": \"X25519\""), "keys[0].crv"},
      {With("\"crv\": \"Ed25519\"", "\"crv\": 1"), "keys[0].crv"},
      {With("\"use\": \"sig\"", "\"use\": \"enc\""), "keys[0].use"},
      {With("\"alg\": \"EdDSA\"", "\"alg\": \"none\""), "keys[0].alg"},
      {With("\"kid\": \"", "\"kid\": \"0"), "keys[0].kid"},
      {With("\"x\": \"11qY", "\"x\": \"21qY"), "keys[0].kid"},
      {With("PcHURo\"", "PcHU\""), "keys[0].x"},
      {With("\"x\": \"", "\"x\": \" "), "keys[0].x"},
      {With("2026-04-30T12:00:00Z", "2026-01-30T12:00:00Z"), "keys[0].parplan_not_after"},
      {With("2026-04-30T12:00:00Z", "infinite-future"), "keys[0].parplan_not_after"},
      {With("2026-01-30T12:00:00Z", "yesterday"), "keys[0].parplan_not_before"},
      {With("\"active\"", "\"next\""), "keys[0].parplan_status"},
      {With("\"use\"", "\"purpose\""), "keys[0].purpose"},
      {With("\"use\": \"sig\"", "\"d\": \"AAAA\""), "private key"},
      {With("\"use\": \"sig\"", "\"kty\": \"OKP\""), "`kty` twice"},
      {With("\"keys\"", "\"key\""), "key"},
      {"{\"keys\": []}", "keys"},
      {"{}", "keys"},
      {"[]", "trust bundle"},
      {"", "trust bundle"},
      {"{\"keys\": [", "trust bundle"},
      {std::string(1000000, '['), "deeper"},
      {std::string((1 << 20) + 1, ' '), "bytes"},
  };
  for (const Case& c : cases) {
    const absl::StatusOr<TrustBundle> bundle = TrustBundle::FromJson(c.text);
    EXPECT_THAT(bundle, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
    EXPECT_EQ(ReasonOf(bundle), Reason::kSpecInvalid);
  }
}

// The bundles that tests/clients/python/parplan/envelope/trust_bundle_test.py reads too.
class TrustBundleVectors : public testing::Test {
 protected:
  TrustBundleVectors() { std::ifstream(PARPLAN_TRUST_BUNDLE_VECTORS) >> vectors_; }

  TrustBundle Named(const std::string& name) const {
    absl::StatusOr<TrustBundle> bundle = TrustBundle::FromJson(vectors_["bundles"][name].dump());
    EXPECT_OK(bundle) << name;
    return bundle.value_or(TrustBundle());
  }

  nlohmann::json vectors_;
};

TEST_F(TrustBundleVectors, GoodOnesAreReadAndWrittenAgain) {
  ASSERT_GE(vectors_["bundles"].size(), 10u);
  for (const auto& [name, document] : vectors_["bundles"].items()) {
    const TrustBundle bundle = Named(name);
    EXPECT_EQ(bundle.version().has_value(), document.contains("parplan_sequence")) << name;
    EXPECT_EQ(nlohmann::json::parse(bundle.ToJson()), document) << name;
  }
}

TEST_F(TrustBundleVectors, OthersAreRefusedWithTheFieldThatIsWrong) {
  ASSERT_GE(vectors_["refused"].size(), 25u);
  for (const auto& [name, document] : vectors_["refused"].items()) {
    const absl::StatusOr<TrustBundle> bundle = TrustBundle::FromJson(document.dump());
    EXPECT_THAT(bundle, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parplan_")))
        << name;
    EXPECT_EQ(ReasonOf(bundle), Reason::kSpecInvalid) << name;
  }
}

TEST_F(TrustBundleVectors, AVerifierGoesForwardAndNeverBack) {
  std::set<std::pair<std::string, std::string>> may_follow;
  for (const auto& pair : vectors_["may_follow"]) may_follow.emplace(pair[0], pair[1]);
  for (const auto& [accepted, unused] : vectors_["bundles"].items()) {
    for (const auto& [next, unused_too] : vectors_["bundles"].items()) {
      const absl::Status followed = Named(accepted).CheckSuccessor(Named(next));
      EXPECT_EQ(followed.ok(), may_follow.count({accepted, next}) == 1)
          << accepted << ", then " << next << ": " << followed;
      if (followed.ok()) continue;
      EXPECT_EQ(followed.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_EQ(ReasonOf(followed), Reason::kSignatureInvalid);
    }
  }
}

TEST_F(TrustBundleVectors, AnExpiredOneVerifiesNothing) {
  for (const char* const group : {"expired", "alive"}) {
    for (const auto& pair : vectors_[group]) {
      const TrustBundle bundle = Named(pair[0]);
      const absl::Time now = ParseRfc3339(pair[1].get<std::string>()).value();
      EXPECT_EQ(bundle.CheckLife(now).ok(), std::string(group) == "alive") << pair;
      if (bundle.CheckLife(now).ok()) continue;
      const PrivateKey key = FirstKey();
      const absl::StatusOr<VerifiedPlan> refused =
          PlanVerifier(bundle).Verify(Sign(MakePayload(), {&key}), ItsAudience(), now);
      EXPECT_THAT(refused, StatusIs(absl::StatusCode::kPermissionDenied,
                                    HasSubstr("the trust bundle expired at")));
      EXPECT_EQ(ReasonOf(refused), Reason::kSignatureInvalid);
    }
  }
}

TEST_F(TrustBundleVectors, ARevokedKeyIsNoneOfTheSigners) {
  const PrivateKey first = FirstKey();
  const PrivateKey second = SecondKey();
  const PlanVerifier verifier(Named("first revoked"));
  EXPECT_EQ(ReasonOf(verifier.Verify(Sign(MakePayload(), {&first}), ItsAudience(), IssueTime())),
            Reason::kSignatureInvalid);
  EXPECT_OK(verifier.Verify(Sign(MakePayload(), {&first, &second}), ItsAudience(), IssueTime()));
  EXPECT_EQ(Named("first revoked").ToProto().size(), 1);
}

TEST(TrustBundle, RefusesAKeyThatComesTwice) {
  const PrivateKey key = FirstKey();
  const TrustedKey trusted = Trusting({&key}).keys()[0];
  EXPECT_THAT(TrustBundle::Create({trusted, trusted}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("keys[1].kid")));
}

TEST(TrustBundle, HasAtMost64Keys) {
  std::vector<PrivateKey> keys;
  std::vector<const PrivateKey*> pointers;
  for (size_t i = 0; i < TrustBundle::kMaxKeyCount; ++i) keys.push_back(PrivateKey::Generate());
  for (const PrivateKey& key : keys) pointers.push_back(&key);
  std::vector<TrustedKey> trusted = Trusting(pointers).keys();
  EXPECT_OK(TrustBundle::Create(trusted));
  trusted.push_back(TrustedKey{FirstKey().public_key(), IssueTime(), IssueTime() + absl::Hours(1)});
  EXPECT_THAT(TrustBundle::Create(trusted), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
