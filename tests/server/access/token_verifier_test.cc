#include "server/access/token_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/access/web_key_set.h"
#include "tests/server/access/token_signer.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using Json = nlohmann::json;
using Signer = TokenSigner;

// RFC 7515, appendices A.2 and A.3.
constexpr char kRfcRsaKey[] =
    R"({"kty":"RSA","kid":"a2","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W)"
    R"(26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ4)"
    R"(7soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMT)"
    R"(BQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW)"
    R"(9gb54h4FRWyuXpoQ"})";
constexpr char kRfcEcKey[] =
    R"({"kty":"EC","crv":"P-256","kid":"a3","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",)"
    R"("y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";
constexpr char kRfcClaims[] =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlf"
    "Q";
constexpr char kRfcRsaSignature[] =
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
    "O8W2Fp5juj"
    "Gbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_"
    "nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe"
    "7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-"
    "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8"
    "np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
constexpr char kRfcEcSignature[] =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

std::string Decode(const std::string& text) {
  std::string bytes;
  EXPECT_TRUE(DecodeBase64Url(text, &bytes)) << text;
  return bytes;
}

absl::StatusOr<WebKeySet> SetOf(const std::string& keys) {
  return WebKeySet::Create(absl::StrCat("{\"keys\":[", keys, "]}"), "jwks");
}

class TokenVerifierTest : public testing::Test {
 protected:
  TokenVerifierTest()
      : claims({{"iss", "https://kubernetes.default.svc"},
                {"aud", {"parplan"}},
                {"sub", "system:serviceaccount:lab:trainer"},
                {"exp", 2000},
                {"nbf", 1000},
                {"iat", 1000}}) {}

  std::string Token(const Signer& signer, const Json& header) const {
    return MakeToken(signer, header, claims);
  }
  std::string Token(const Signer& signer) const {
    return Token(signer, {{"alg", signer.algorithm}, {"kid", "1"}});
  }

  absl::StatusOr<VerifiedToken> Verify(const std::string& token, int64_t now = 1500) const {
    return TokenVerifier({.issuer = "https://kubernetes.default.svc", .audience = "parplan"},
                         *SetOf(keys))
        .Verify(token, absl::FromUnixSeconds(now));
  }
  void ExpectRefused(const std::string& token, const std::string& why, int64_t now = 1500) const {
    EXPECT_THAT(Verify(token, now).status(),
                StatusIs(absl::StatusCode::kUnauthenticated, testing::HasSubstr(why)))
        << token;
  }

  const Signer signer = EcSigner("1");
  std::string keys = signer.json;
  Json claims;
};

TEST(WebKeySet, VerifiesTheExamplesOfRfc7515) {
  ASSERT_OK_AND_ASSIGN(const WebKeySet set, SetOf(absl::StrCat(kRfcRsaKey, ",", kRfcEcKey)));
  using Algorithm = WebKeySet::Algorithm;
  const std::string rsa_text = absl::StrCat("eyJhbGciOiJSUzI1NiJ9.", kRfcClaims);
  const std::string ec_text = absl::StrCat("eyJhbGciOiJFUzI1NiJ9.", kRfcClaims);
  const std::string rsa = Decode(kRfcRsaSignature);
  const std::string ec = Decode(kRfcEcSignature);
  EXPECT_TRUE(set.Verify("a2", Algorithm::kRs256, rsa_text, rsa));
  EXPECT_TRUE(set.Verify("", Algorithm::kRs256, rsa_text, rsa));
  EXPECT_TRUE(set.Verify("a3", Algorithm::kEs256, ec_text, ec));
  // Another text, another key, another algorithm than the key's, and another signature.
  EXPECT_FALSE(set.Verify("a2", Algorithm::kRs256, ec_text, rsa));
  EXPECT_FALSE(set.Verify("a3", Algorithm::kRs256, rsa_text, rsa));
  EXPECT_FALSE(set.Verify("a3", Algorithm::kRs256, ec_text, ec));
  EXPECT_FALSE(set.Verify("a2", Algorithm::kEs256, rsa_text, rsa));
  EXPECT_FALSE(set.Verify("a4", Algorithm::kEs256, ec_text, ec));
  for (const size_t position : {size_t{0}, size_t{31}, size_t{63}}) {
    std::string forged = ec;
    forged[position] = static_cast<char>(forged[position] ^ 1);
    EXPECT_FALSE(set.Verify("a3", Algorithm::kEs256, ec_text, forged));
  }
  for (const std::string& forged : {std::string(), ec.substr(1), ec + "x", std::string(64, '\0')}) {
    EXPECT_FALSE(set.Verify("a3", Algorithm::kEs256, ec_text, forged));
  }
}

TEST(WebKeySet, BrokenAndWeakKeysAreRefusedAndOthersLeftOut) {
  for (const std::string text : {"", "[]", "{}", "{\"keys\":1}", "{\"keys\":[]}", "not json"}) {
    EXPECT_THAT(WebKeySet::Create(text, "jwks"), StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
  EXPECT_THAT(WebKeySet::Create(absl::StrCat(R"({"keys":[)", kRfcEcKey, R"(],"keys":[]})"), "jwks"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const std::string ec = kRfcEcKey;
  const std::string off_curve = absl::StrReplaceAll(ec, {{"I5a0", "I5a4"}});
  const std::string short_half = absl::StrReplaceAll(ec, {{"x_FEzRu9", ""}});
  for (const std::string& keys :
       {off_curve, short_half, absl::StrCat(ec, ",", ec), RsaSigner("1", 1024).json,
        std::string("1"), std::string(R"({"kty":"RSA","n":"","e":"AQAB"})")}) {
    EXPECT_THAT(SetOf(keys), StatusIs(absl::StatusCode::kInvalidArgument)) << keys;
  }
  const std::string encryption = absl::StrReplaceAll(ec, {{R"("kid":"a3")", R"("use":"enc")"}});
  const std::string secret = R"({"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMko"})";
  const std::string other = R"({"kty":"RSA","alg":"RS512","n":"AQ","e":"AQAB"})";
  EXPECT_EQ(SetOf(absl::StrCat(encryption, ",", secret, ",", other, ",", ec))->size(), 1u);
  EXPECT_FALSE(SetOf(secret).ok());
}

TEST_F(TokenVerifierTest, ATokenOfAServiceAccountIsItsIdentity) {
  ASSERT_OK_AND_ASSIGN(const VerifiedToken verified, Verify(Token(signer)));
  EXPECT_EQ(verified.identity.text(), "k8s:lab/trainer");
  EXPECT_EQ(verified.expiry, absl::FromUnixSeconds(2000));
  claims["aud"] = "parplan";
  EXPECT_OK(Verify(Token(signer)));
  claims["aud"] = {"other", "parplan"};
  EXPECT_OK(Verify(Token(signer)));
  claims.erase("nbf");
  EXPECT_OK(Verify(Token(signer), 0));
  // Without the id of its key, as long as there is one key of the algorithm.
  EXPECT_OK(Verify(Token(signer, {{"alg", "ES256"}})));
  const Signer rsa = RsaSigner("2");
  keys = absl::StrCat(keys, ",", rsa.json);
  EXPECT_OK(Verify(Token(rsa, {{"alg", "RS256"}, {"kid", "2"}})));
  EXPECT_OK(Verify(Token(signer, {{"alg", "ES256"}})));
  keys = absl::StrCat(keys, ",", EcSigner("3").json);
  ExpectRefused(Token(signer, {{"alg", "ES256"}}), "no key");
}

TEST_F(TokenVerifierTest, TimesCountWithALeeway) {
  const int64_t leeway = absl::ToInt64Seconds(TokenVerifier::kLeeway);
  const std::string token = Token(signer);
  EXPECT_OK(Verify(token, 2000 + leeway - 1));
  ExpectRefused(token, "expired", 2000 + leeway);
  EXPECT_OK(Verify(token, 1000 - leeway));
  ExpectRefused(token, "not valid yet", 1000 - leeway - 1);
  for (const Json& end : {Json("2000"), Json(-1), Json(1e300), Json(nullptr), Json::array()}) {
    claims["exp"] = end;
    ExpectRefused(Token(signer), "expired");
  }
  claims.erase("exp");
  ExpectRefused(Token(signer), "expired");
  claims["exp"] = 2000;
  claims["nbf"] = "1000";
  ExpectRefused(Token(signer), "not valid yet");
}

TEST_F(TokenVerifierTest, TokensForOthersAreRefused) {
  const Json good = claims;
  for (const Json& audience : {Json("other"), Json::array(), Json({"other"}), Json(1), Json()}) {
    claims["aud"] = audience;
    ExpectRefused(Token(signer), "audience");
  }
  claims = good;
  for (const Json& issuer : {Json("https://other"), Json(""), Json(1)}) {
    claims["iss"] = issuer;
    ExpectRefused(Token(signer), "issuer");
  }
  claims = good;
  for (const char* subject :
       {"", "trainer", "system:node:lab:trainer", "system:serviceaccount:lab",
        "system:serviceaccount:lab:", "system:serviceaccount::trainer",
        "system:serviceaccount:lab:trainer:x", "system:serviceaccount:lab:a/b",
        "system:serviceaccount:*:trainer", "system:serviceaccount:Lab:trainer"}) {
    claims["sub"] = subject;
    ExpectRefused(Token(signer), "subject");
  }
}

TEST_F(TokenVerifierTest, ForgedTokensAreRefused) {
  const std::string token = Token(signer);
  // Another key under the same id.
  ExpectRefused(Token(EcSigner("1")), "no key");
  // Other claims under the same signature.
  const std::string header = token.substr(0, token.find('.'));
  const std::string signature = token.substr(token.rfind('.') + 1);
  claims["sub"] = "system:serviceaccount:lab:operator";
  ExpectRefused(absl::StrCat(header, ".", Encode(claims.dump()), ".", signature), "no key");
  // No signature at all.
  const std::string rest = token.substr(0, token.rfind('.') + 1);
  ExpectRefused(rest, "no key");
  for (const char* algorithm : {"none", "None", "NONE", "", "HS256", "RS512", "PS256", "es256"}) {
    const std::string unsigned_token =
        absl::StrCat(Encode(Json({{"alg", algorithm}}).dump()), ".", Encode(claims.dump()), ".");
    ExpectRefused(unsigned_token, "algorithm");
    ExpectRefused(unsigned_token + signature, "algorithm");
  }
  // The public key as the secret of an HMAC, and as a key of another algorithm.
  const std::string text =
      absl::StrCat(Encode(R"({"alg":"HS256","kid":"1"})"), ".", Encode(claims.dump()));
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int mac_size = 0;
  HMAC(EVP_sha256(), keys.data(), static_cast<int>(keys.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &mac_size);
  ExpectRefused(absl::StrCat(text, ".", Encode(std::string(mac, mac + mac_size))), "algorithm");
  ExpectRefused(Token(signer, {{"alg", "RS256"}, {"kid", "1"}}), "no key");
  ExpectRefused(Token(signer, {{"alg", "ES256"}, {"kid", "1"}, {"crit", {"exp"}}}), "extensions");
}

TEST_F(TokenVerifierTest, WhatIsNoTokenIsRefused) {
  const std::string token = Token(signer);
  for (const std::string& text :
       {std::string(), std::string("."), std::string(".."), std::string("..."), token + ".",
        token + "=", " " + token, token + "\n", "x" + token,
        absl::StrReplaceAll(token, {{".", ","}})}) {
    EXPECT_THAT(Verify(text).status(), StatusIs(absl::StatusCode::kUnauthenticated)) << text;
  }
  ExpectRefused(std::string(TokenVerifier::kMaxTokenBytes + 1, 'a'), "too long");
  ExpectRefused(std::string(size_t{1} << 20, '.'), "too long");
  claims["padding"] = std::string(TokenVerifier::kMaxTokenBytes, 'a');
  ExpectRefused(Token(signer), "too long");
  // Of two members of a name, readers would take one or the other.
  const auto signed_token = [this](const std::string& header, const std::string& content) {
    const std::string signed_text = absl::StrCat(Encode(header), ".", Encode(content));
    return absl::StrCat(signed_text, ".", Encode(Sign(signer, signed_text)));
  };
  claims.erase("padding");
  const std::string content = claims.dump();
  EXPECT_OK(Verify(signed_token(R"({"alg":"ES256"})", content)));
  ExpectRefused(signed_token(R"({"alg":"ES256","alg":"ES256"})", content), "no signed");
  ExpectRefused(signed_token(R"({"alg":"ES256"})",
                             absl::StrReplaceAll(content, {{R"("exp":)", R"("exp":9999,"exp":)"}})),
                "no object");
  // Deep nesting ends in an error as well.
  const std::string deep = Encode(std::string(3000, '['));
  ExpectRefused(absl::StrCat(deep, ".", deep, ".", "AA"), "no signed");
}

}  // namespace
}  // namespace parplan
