#include "server/access/web_key_set.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "server/access/json_member.h"

namespace parplan {
namespace {

using Algorithm = WebKeySet::Algorithm;
using PublicKey = std::shared_ptr<EVP_PKEY>;

// NIST SP 800-131A allows none below.
constexpr int kMinRsaBits = 2048;
// Bytes of a coordinate of P-256, and of each half of a signature.
constexpr size_t kCoordinateBytes = 32;

using Number = std::unique_ptr<BIGNUM, decltype(&BN_free)>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, decltype(&OSSL_PARAM_BLD_free)>;
using Parameters = std::unique_ptr<OSSL_PARAM, decltype(&OSSL_PARAM_free)>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Number NumberOf(absl::string_view bytes) {
  return Number(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr), &BN_free);
}

// Makes a key of a type from its parameters; null if they are none of such a key.
PublicKey MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder), &OSSL_PARAM_free);
  const KeyContextHandle context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (parameters == nullptr || context == nullptr || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  PublicKey owned(key, &EVP_PKEY_free);
  const KeyContextHandle check(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr));
  return check != nullptr && EVP_PKEY_public_check(check.get()) == 1 ? owned : nullptr;
}

PublicKey RsaKey(const JsonValue& key) {
  std::string modulus;
  std::string exponent;
  if (!DecodeBase64Url(TextMember(key, "n"), &modulus) ||
      !DecodeBase64Url(TextMember(key, "e"), &exponent)) {
    return nullptr;
  }
  const Number n = NumberOf(modulus);
  const Number e = NumberOf(exponent);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (n == nullptr || e == nullptr || builder == nullptr || BN_num_bits(n.get()) < kMinRsaBits ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1) {
    return nullptr;
  }
  return MakeKey("RSA", builder.get());
}

PublicKey EcKey(const JsonValue& key) {
  std::string x;
  std::string y;
  if (!DecodeBase64Url(TextMember(key, "x"), &x) || !DecodeBase64Url(TextMember(key, "y"), &y) ||
      x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) {
    return nullptr;
  }
  // The uncompressed form of a point.
  const std::string point = absl::StrCat("\x04", x, y);
  const ParameterBuilder builder(OSSL_PARAM_BLD_new(), &OSSL_PARAM_BLD_free);
  if (builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return MakeKey("EC", builder.get());
}

// Returns the two halves of a signature of ES256 as OpenSSL reads them; empty if there are not two.
std::string DerOfHalves(absl::string_view halves) {
  if (halves.size() != 2 * kCoordinateBytes) return "";
  const std::unique_ptr<ECDSA_SIG, decltype(&ECDSA_SIG_free)> signature(ECDSA_SIG_new(),
                                                                        &ECDSA_SIG_free);
  Number r = NumberOf(halves.substr(0, kCoordinateBytes));
  Number s = NumberOf(halves.substr(kCoordinateBytes));
  if (signature == nullptr || r == nullptr || s == nullptr ||
      ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) {
    return "";
  }
  // The signature owns them now.
  (void)r.release();
  (void)s.release();
  const int size = i2d_ECDSA_SIG(signature.get(), nullptr);
  if (size <= 0) return "";
  std::string der(static_cast<size_t>(size), '\0');
  auto* end = reinterpret_cast<unsigned char*>(der.data());
  return i2d_ECDSA_SIG(signature.get(), &end) == size ? der : "";
}

}  // namespace

bool DecodeBase64Url(absl::string_view text, std::string* bytes) {
  // The decoder of absl takes padding, blanks and line breaks as well.
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  });
  return is_plain && text.size() % 4 != 1 && absl::WebSafeBase64Unescape(text, bytes);
}

absl::StatusOr<WebKeySet> WebKeySet::Create(absl::string_view text, absl::string_view field) {
  const OpensslErrorScope scope;
  const absl::StatusOr<JsonValue> set =
      ReadJsonText(text, field, {.refuses_repeated_members = true});
  const JsonValue* const keys = set.ok() ? set->Find("keys") : nullptr;
  if (keys == nullptr || keys->type != JsonValue::Type::kArray) {
    return FieldError(Reason::kSpecInvalid, field,
                      "is no JSON Web Key Set; write the answer of the API server to "
                      "/openid/v1/jwks to it");
  }
  WebKeySet result;
  std::set<std::string> ids;
  for (size_t i = 0; i < keys->items.size(); ++i) {
    const JsonValue& key = keys->items[i];
    const std::string path = absl::StrCat(field, ": keys[", i, "]");
    if (key.type != JsonValue::Type::kObject)
      return FieldError(Reason::kSpecInvalid, path, "is no object");
    const std::string type = TextMember(key, "kty");
    const std::string use = TextMember(key, "use");
    const std::string algorithm = TextMember(key, "alg");
    const bool is_rsa = type == "RSA" && (algorithm.empty() || algorithm == "RS256");
    const bool is_ec = type == "EC" && TextMember(key, "crv") == "P-256" &&
                       (algorithm.empty() || algorithm == "ES256");
    if ((!is_rsa && !is_ec) || (!use.empty() && use != "sig")) continue;
    Key read;
    read.id = TextMember(key, "kid");
    read.algorithm = is_rsa ? Algorithm::kRs256 : Algorithm::kEs256;
    read.key = is_rsa ? RsaKey(key) : EcKey(key);
    if (read.key == nullptr) {
      return FieldError(Reason::kSpecInvalid, path,
                        "is no RSA key of at least 2048 bits and no point of P-256");
    }
    if (!ids.insert(read.id).second) {
      return FieldError(Reason::kSpecInvalid, path, absl::StrCat("has the `kid` of another key"));
    }
    result.keys_.push_back(std::move(read));
  }
  if (result.keys_.empty()) {
    return FieldError(Reason::kSpecInvalid, field, "has no key for RS256 or ES256");
  }
  return result;
}

bool WebKeySet::Verify(absl::string_view key_id, Algorithm algorithm, absl::string_view text,
                       absl::string_view signature) const {
  const OpensslErrorScope scope;
  const Key* chosen = nullptr;
  for (const Key& key : keys_) {
    if (key.algorithm != algorithm || (!key_id.empty() && key.id != key_id)) continue;
    if (chosen != nullptr) return false;
    chosen = &key;
  }
  if (chosen == nullptr) return false;
  const std::string bytes =
      algorithm == Algorithm::kEs256 ? DerOfHalves(signature) : std::string(signature);
  const DigestContextHandle context(EVP_MD_CTX_new());
  return !bytes.empty() && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, chosen->key.get()) ==
             1 &&
         EVP_DigestVerify(context.get(), Bytes(bytes), bytes.size(), Bytes(text), text.size()) == 1;
}

}  // namespace parplan
