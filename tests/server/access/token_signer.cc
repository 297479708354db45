#include "tests/server/access/token_signer.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/system/openssl_handles.h"

namespace parplan {

using Json = nlohmann::json;

std::string Encode(const std::string& bytes) {
  return absl::StrReplaceAll(absl::WebSafeBase64Escape(bytes), {{"=", ""}});
}

namespace {

std::string NumberOf(const std::shared_ptr<EVP_PKEY>& key, const char* name, int size) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key.get(), name, &number), 1);
  std::string bytes(static_cast<size_t>(size == 0 ? BN_num_bytes(number) : size), '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()),
               static_cast<int>(bytes.size()));
  BN_free(number);
  return Encode(bytes);
}

}  // namespace

TokenSigner RsaSigner(const std::string& id, unsigned int bits) {
  TokenSigner signer{std::shared_ptr<EVP_PKEY>(EVP_RSA_gen(bits), &EVP_PKEY_free), "RS256", ""};
  const Json json = {{"kty", "RSA"},
                     {"kid", id},
                     {"n", NumberOf(signer.key, OSSL_PKEY_PARAM_RSA_N, 0)},
                     {"e", NumberOf(signer.key, OSSL_PKEY_PARAM_RSA_E, 0)}};
  signer.json = json.dump();
  return signer;
}

TokenSigner EcSigner(const std::string& id) {
  TokenSigner signer{std::shared_ptr<EVP_PKEY>(EVP_EC_gen("P-256"), &EVP_PKEY_free), "ES256", ""};
  const Json json = {{"kty", "EC"},
                     {"crv", "P-256"},
                     {"kid", id},
                     {"alg", "ES256"},
                     {"use", "sig"},
                     {"x", NumberOf(signer.key, OSSL_PKEY_PARAM_EC_PUB_X, 32)},
                     {"y", NumberOf(signer.key, OSSL_PKEY_PARAM_EC_PUB_Y, 32)}};
  signer.json = json.dump();
  return signer;
}

std::string Sign(const TokenSigner& signer, const std::string& text) {
  const DigestContextHandle context(EVP_MD_CTX_new());
  EXPECT_EQ(EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, signer.key.get()), 1);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  EXPECT_EQ(EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()), 1);
  std::string signature(size, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(signature.data());
  EXPECT_EQ(EVP_DigestSign(context.get(), out, &size, bytes, text.size()), 1);
  signature.resize(size);
  if (signer.algorithm != "ES256") return signature;
  const unsigned char* der = out;
  ECDSA_SIG* const halves = d2i_ECDSA_SIG(nullptr, &der, static_cast<int64_t>(size));
  std::string raw(64, '\0');
  auto* const raw_bytes = reinterpret_cast<unsigned char*>(raw.data());
  BN_bn2binpad(ECDSA_SIG_get0_r(halves), raw_bytes, 32);
  BN_bn2binpad(ECDSA_SIG_get0_s(halves), raw_bytes + 32, 32);
  ECDSA_SIG_free(halves);
  return raw;
}

std::string MakeToken(const TokenSigner& signer, const Json& header, const Json& claims) {
  const std::string text = absl::StrCat(Encode(header.dump()), ".", Encode(claims.dump()));
  return absl::StrCat(text, ".", Encode(Sign(signer, text)));
}

}  // namespace parplan
