#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include <string>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "proto/envelope/key_id.h"
#include "proto/envelope/private_key.h"
#include "proto/envelope/public_key.h"
#include "proto/envelope/signer.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Vector {
  const char* seed;
  const char* public_key;
  const char* message;
  const char* signature;
};

// RFC 8032 §7.1, tests 1 to 3.
constexpr Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b"
     "4"
     "6bd25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11"
     "d"
     "8c387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc"
     "6"
     "594a7c15e9716ed28dc027beceea1ec40a"},
};

TEST(Keys, SignAndVerifyAsRfc8032Says) {
  for (const Vector& vector : kVectors) {
    const PrivateKey key = KeyFromSeed(vector.seed);
    const std::string message = absl::HexStringToBytes(vector.message);
    EXPECT_EQ(absl::BytesToHexString(key.public_key().raw()), vector.public_key);
    EXPECT_EQ(absl::BytesToHexString(key.Sign(message)), vector.signature);
    EXPECT_TRUE(key.public_key().Verify(message, absl::HexStringToBytes(vector.signature)));
  }
}

TEST(Keys, RefuseOtherMessagesAndSignatures) {
  const PrivateKey key = FirstKey();
  const std::string signature = key.Sign("a plan");
  const PublicKey& public_key = key.public_key();
  EXPECT_TRUE(public_key.Verify("a plan", signature));
  EXPECT_FALSE(public_key.Verify("a plan.", signature));
  EXPECT_FALSE(public_key.Verify("", signature));
  EXPECT_FALSE(public_key.Verify("a plan", ""));
  EXPECT_FALSE(public_key.Verify("a plan", signature.substr(0, 63)));
  EXPECT_FALSE(public_key.Verify("a plan", signature + "x"));
  EXPECT_FALSE(public_key.Verify("a plan", std::string(64, '\0')));
  EXPECT_FALSE(public_key.Verify("a plan", std::string(64, '\xff')));
  EXPECT_FALSE(SecondKey().public_key().Verify("a plan", signature));
}

TEST(Keys, VerifyingWithBytesThatAreNoPointIsFalseNotACrash) {
  ASSERT_OK_AND_ASSIGN(const PublicKey key, PublicKey::FromRaw32(std::string(32, '\xee')));
  EXPECT_FALSE(key.Verify("a plan", FirstKey().Sign("a plan")));
}

// `openssl pkey -pubin -outform DER | sha256sum` of the first key of RFC 8032.
TEST(KeyId, IsWhatTheOpensslCommandPrints) {
  EXPECT_EQ(FirstKey().public_key().key_id(),
            "06e3fd8fda29bb60ab59557de61edb0aecdb231134be30e75b455f8e1b792fa9");
  EXPECT_TRUE(HasKeyIdForm(FirstKey().public_key().key_id()));
  EXPECT_FALSE(HasKeyIdForm(std::string(64, 'A')));
  EXPECT_FALSE(HasKeyIdForm(std::string(63, 'a')));
  EXPECT_FALSE(HasKeyIdForm("../../etc"));
}

TEST(PublicKey, IsReadBackFromItsPemAndBytes) {
  const PublicKey key = FirstKey().public_key();
  EXPECT_THAT(PublicKey::FromPem(key.ToPem()), IsOkAndHolds(key));
  EXPECT_THAT(PublicKey::FromRaw32(key.raw()), IsOkAndHolds(key));
}

TEST(PublicKey, RefusesOtherTexts) {
  for (const std::string& text :
       {std::string(), std::string("no PEM"), FirstKey().ToPem(),
        std::string("-----BEGIN PUBLIC KEY-----\nMCowBQ\n-----END PUBLIC KEY-----\n")}) {
    EXPECT_THAT(PublicKey::FromPem(text), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(PublicKey::FromRaw32("short"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("32 bytes")));
}

// An X25519 key: right length, wrong purpose (RFC 8410).
TEST(PublicKey, RefusesAKeyOfAnotherKind) {
  const std::string der = absl::HexStringToBytes("302a300506032b656e032100") + std::string(32, 'x');
  EXPECT_THAT(PublicKey::FromPem("-----BEGIN PUBLIC KEY-----\n" + absl::Base64Escape(der) +
                                 "\n-----END PUBLIC KEY-----\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another kind")));
}

TEST(PrivateKey, MovesAndNeverCopies) {
  static_assert(!std::is_copy_constructible_v<PrivateKey>);
  static_assert(!std::is_copy_assignable_v<PrivateKey>);
  static_assert(std::is_nothrow_move_constructible_v<PrivateKey> ||
                std::is_move_constructible_v<PrivateKey>);
}

TEST(PrivateKey, IsReadBackFromItsPem) {
  const PrivateKey key = PrivateKey::Generate();
  ASSERT_OK_AND_ASSIGN(const PrivateKey again, PrivateKey::FromPem(key.ToPem()));
  EXPECT_EQ(again.public_key(), key.public_key());
  EXPECT_EQ(again.Sign("x"), key.Sign("x"));
}

TEST(PrivateKey, IsNewEachTime) {
  EXPECT_NE(PrivateKey::Generate().public_key().key_id(),
            PrivateKey::Generate().public_key().key_id());
}

TEST(PrivateKey, RefusesOtherTextsWithoutQuotingThem) {
  for (const std::string& text :
       {std::string(), std::string("secret words"), FirstKey().public_key().ToPem()}) {
    EXPECT_THAT(PrivateKey::FromPem(text),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("secret words"))));
  }
}

TEST(Keys, FailuresLeaveNothingInTheErrorQueueOfTheThread) {
  EXPECT_FALSE(FirstKey().public_key().Verify("x", std::string(64, '\xff')));
  EXPECT_FALSE(PublicKey::FromPem("no PEM").ok());
  EXPECT_FALSE(PrivateKey::FromPem("no PEM").ok());
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(SignPayload, KeepsTheBytesAndSignsWithEveryKeyInOrder) {
  const PrivateKey first = FirstKey();
  const PrivateKey second = SecondKey();
  ASSERT_OK_AND_ASSIGN(const v1::SignedPlan plan, SignPayload("bytes", {&second, &first}));
  EXPECT_EQ(plan.payload(), "bytes");
  EXPECT_EQ(plan.payload_type(), "application/vnd.parplan.plan.v1+protobuf");
  ASSERT_EQ(plan.signatures_size(), 2);
  EXPECT_EQ(plan.signatures(0).key_id(), second.public_key().key_id());
  EXPECT_EQ(plan.signatures(1).key_id(), first.public_key().key_id());
  EXPECT_TRUE(first.public_key().Verify(
      "DSSEv1 40 application/vnd.parplan.plan.v1+protobuf 5 bytes", plan.signatures(1).sig()));
}

TEST(SignPayload, NeedsAKeyAndEachOnce) {
  const PrivateKey key = FirstKey();
  EXPECT_EQ(ReasonOf(SignPayload("bytes", {})), Reason::kSignatureInvalid);
  EXPECT_THAT(SignPayload("bytes", {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("parplan-server keys")));
  EXPECT_THAT(SignPayload("bytes", {&key, &key}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace parplan
