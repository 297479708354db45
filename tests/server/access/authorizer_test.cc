#include "server/access/authorizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/access/web_key_set.h"
#include "tests/server/access/token_signer.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

AccessRules RulesFor(const std::string& identity) {
  absl::StatusOr<Policy> policy = Policy::Create(
      std::vector<Grant>{{.identities = {identity}, .role = "reader", .clusters = {"*"}}}, "");
  EXPECT_OK(policy.status());
  return {.policy = *std::move(policy)};
}

TEST(Authorizer, FindsCallersByTheirNames) {
  Authorizer authorizer(RulesFor("cn:a"));
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"a"}})->roles(), SizeIs(1));
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"b"}})->roles(), IsEmpty());
  EXPECT_THAT(authorizer.AnonymousCaller()->roles(), IsEmpty());
  EXPECT_EQ(authorizer.CallerOf({.common_names = {"a"}}),
            authorizer.CallerOf({.common_names = {"a"}}));
}

TEST(Authorizer, KnowsUsersOnlyIfItsRulesSaySo) {
  AccessRules rules = RulesFor("uid:1000");
  Authorizer authorizer(rules);
  EXPECT_EQ(authorizer.CallerOfLocalUser(1000)->identity(), Identity::Anonymous());
  EXPECT_THAT(authorizer.CallerOfLocalUser(1000)->roles(), IsEmpty());
  rules.knows_local_users = true;
  authorizer.Replace(rules);
  const auto user = authorizer.CallerOfLocalUser(1000);
  EXPECT_EQ(user->identity().text(), "uid:1000");
  EXPECT_THAT(user->roles(), SizeIs(1));
  EXPECT_THAT(authorizer.CallerOfLocalUser(1001)->roles(), IsEmpty());
  // The system's number for users whom it cannot name.
  EXPECT_EQ(authorizer.CallerOfLocalUser(65534)->identity(), Identity::Unnamed());
  const Credential credential = {.kind = Credential::Kind::kLocalUser, .user = 1000};
  EXPECT_OK(authorizer.Recheck(credential, *user, absl::UnixEpoch()));
  rules.knows_local_users = false;
  authorizer.Replace(rules);
  EXPECT_THAT(authorizer.Recheck(credential, *user, absl::UnixEpoch()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("uid:1000")));
}

TEST(Authorizer, ATokenThatProvesNothingIsRefusedWhateverItAsks) {
  Authorizer authorizer(RulesFor("cn:a"));
  EXPECT_FALSE(authorizer.ReadsTokens());
  AccessRules rules = RulesFor("anonymous");
  absl::StatusOr<WebKeySet> keys = WebKeySet::Create(
      R"({"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
      R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})",
      "jwks");
  ASSERT_OK(keys.status());
  rules.tokens = std::make_shared<const TokenVerifier>(
      TokenVerifier::Rules{.issuer = "issuer", .audience = "parplan"}, *std::move(keys));
  authorizer.Replace(rules);
  EXPECT_TRUE(authorizer.ReadsTokens());
  const auto caller = authorizer.CallerOfToken("a.b.c", absl::UnixEpoch());
  EXPECT_EQ(caller->identity(), Identity::Unnamed());
  EXPECT_THAT(caller->roles(), IsEmpty());
  EXPECT_TRUE(caller->is_restricted());
  for (const char* method : {"GetCapabilities", "GetPlan"}) {
    EXPECT_THAT(caller->Check(method, {}), StatusIs(absl::StatusCode::kUnauthenticated));
  }
  // A refused token is worse than none: a caller without one may call this method.
  EXPECT_OK(authorizer.AnonymousCaller()->Check("GetCapabilities", {}));
}

// The keys change between the look for the caller and that for its credential.
TEST(Authorizer, AStreamWhoseTokenPassesNoMoreHearsWhyAndNotThatItExpired) {
  const TokenSigner signer = EcSigner("1");
  const auto rules_with = [](const TokenSigner& key) {
    AccessRules rules = RulesFor("k8s:lab/a");
    absl::StatusOr<WebKeySet> keys =
        WebKeySet::Create(absl::StrCat("{\"keys\":[", key.json, "]}"), "jwks");
    EXPECT_OK(keys.status());
    rules.tokens = std::make_shared<const TokenVerifier>(
        TokenVerifier::Rules{.issuer = "issuer", .audience = "parplan"}, *std::move(keys));
    return rules;
  };
  const absl::Time now = absl::FromUnixSeconds(1500);
  const std::string token = MakeToken(signer, {{"alg", "ES256"}, {"kid", "1"}},
                                      {{"iss", "issuer"},
                                       {"aud", "parplan"},
                                       {"sub", "system:serviceaccount:lab:a"},
                                       {"exp", 2000}});
  Authorizer authorizer(rules_with(signer));
  const auto caller = authorizer.CallerOfToken(token, now);
  ASSERT_OK(caller->refusal());
  authorizer.Replace(rules_with(EcSigner("1")));
  const Credential credential = authorizer.CredentialOfToken(token, now);
  EXPECT_LE(credential.end, now) << "it is judged at the next look";
  const absl::Status ended = authorizer.Recheck(credential, *caller, now);
  EXPECT_THAT(ended, StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no key of the set")));
  EXPECT_THAT(ended.message(), Not(HasSubstr("expired")));
  // The keys come back: the token holds as long as it says.
  authorizer.Replace(rules_with(signer));
  EXPECT_OK(authorizer.Recheck(credential, *caller, now));
  EXPECT_THAT(authorizer.Recheck(credential, *caller, absl::FromUnixSeconds(3000)),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("expired")));
}

TEST(Authorizer, NewRulesHoldForCallersThatWereSeenBefore) {
  Authorizer authorizer(RulesFor("cn:a"));
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"a"}})->roles(), SizeIs(1));
  authorizer.Replace(RulesFor("cn:b"));
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"a"}})->roles(), IsEmpty());
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"b"}})->roles(), SizeIs(1));
}

TEST(Authorizer, MoreCallersThanItKeepsAreStillToldApart) {
  Authorizer authorizer(RulesFor("cn:7"));
  for (size_t i = 0; i < 2 * Authorizer::kMaxKnownCallers; ++i) {
    EXPECT_THAT(authorizer.CallerOf({.common_names = {absl::StrCat(i)}})->roles(),
                SizeIs(i == 7 ? 1 : 0));
  }
  EXPECT_THAT(authorizer.CallerOf({.common_names = {"7"}})->roles(), SizeIs(1));
}

TEST(Authorizer, ServesSeveralThreadsWhileRulesChange) {
  Authorizer authorizer(RulesFor("cn:a"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&authorizer, t] {
      for (int i = 0; i < 200; ++i) {
        if (t == 0) authorizer.Replace(RulesFor("cn:a"));
        EXPECT_THAT(authorizer.CallerOf({.common_names = {"a"}})->roles(), SizeIs(1));
        EXPECT_THAT(authorizer.CallerOf({.common_names = {absl::StrCat(i)}})->roles(), IsEmpty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace parplan
