#include "proto/envelope/trust_bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
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
