#include "server/access/token_verifier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "server/access/json_member.h"

namespace parplan {
namespace {

// Texts of tokens are secrets. RFC 7519 leaves open which of two members of a name counts.
constexpr JsonLimits kTokenLimits = {.max_bytes = TokenVerifier::kMaxTokenBytes,
                                     .refuses_repeated_members = true,
                                     .quotes_text = false};

// Seconds since 1970 of the year 9999. Times beyond it are no times of tokens.
constexpr double kMaxSeconds = 253402300799.0;

absl::Status Refused(absl::string_view why) {
  return MakeError(absl::StatusCode::kUnauthenticated, Reason::kRoleRequired,
                   absl::StrCat("the token in the metadata `authorization` is refused: ", why));
}

// Reads an object in base64url.
std::optional<JsonValue> ReadObject(absl::string_view text) {
  std::string bytes;
  if (!DecodeBase64Url(text, &bytes)) return std::nullopt;
  absl::StatusOr<JsonValue> object = ReadJsonText(bytes, "token", kTokenLimits);
  if (!object.ok() || object->type != JsonValue::Type::kObject) return std::nullopt;
  return *std::move(object);
}

std::optional<absl::Time> TimeOf(const JsonValue& object, absl::string_view name) {
  const JsonValue* const found = object.Find(name);
  if (found == nullptr ||
      (found->type != JsonValue::Type::kInteger && found->type != JsonValue::Type::kNumber)) {
    return std::nullopt;
  }
  const double seconds = found->number;
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

bool HasAudience(const JsonValue& claims, const std::string& audience) {
  const JsonValue* const found = claims.Find("aud");
  if (found == nullptr) return false;
  const auto is_audience = [&audience](const JsonValue& entry) {
    return entry.type == JsonValue::Type::kString && entry.text == audience;
  };
  return is_audience(*found) ||
         (found->type == JsonValue::Type::kArray &&
          std::any_of(found->items.begin(), found->items.end(), is_audience));
}

std::optional<WebKeySet::Algorithm> AlgorithmOf(const JsonValue& header) {
  const std::string name = TextMember(header, "alg");
  if (name == "RS256") return WebKeySet::Algorithm::kRs256;
  if (name == "ES256") return WebKeySet::Algorithm::kEs256;
  return std::nullopt;
}

}  // namespace

absl::StatusOr<VerifiedToken> TokenVerifier::Verify(absl::string_view token, absl::Time now) const {
  if (token.size() > kMaxTokenBytes) return Refused("it is too long");
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("it is no signed JSON Web Token");
  // Nothing but the header is read before the signature is verified.
  const std::optional<JsonValue> header = ReadObject(parts[0]);
  std::string signature;
  if (!header.has_value() || !DecodeBase64Url(parts[2], &signature)) {
    return Refused("it is no signed JSON Web Token");
  }
  const std::optional<WebKeySet::Algorithm> algorithm = AlgorithmOf(*header);
  if (!algorithm.has_value()) return Refused("its algorithm is neither RS256 nor ES256");
  if (header->Find("crit") != nullptr)
    return Refused("it has extensions that the server does not know");
  const absl::string_view signed_text = token.substr(0, parts[0].size() + 1 + parts[1].size());
  if (!keys_.Verify(TextMember(*header, "kid"), *algorithm, signed_text, signature)) {
    return Refused("no key of the set signed it");
  }
  const std::optional<JsonValue> claims = ReadObject(parts[1]);
  if (!claims.has_value()) return Refused("its claims are no object");
  if (TextMember(*claims, "iss") != rules_.issuer) return Refused("its issuer is another");
  if (!HasAudience(*claims, rules_.audience)) {
    return Refused(absl::StrCat("it is not for the audience `", rules_.audience, "`"));
  }
  const std::optional<absl::Time> end = TimeOf(*claims, "exp");
  if (!end.has_value() || now >= *end + kLeeway) return Refused("it has expired");
  if (claims->Find("nbf") != nullptr) {
    const std::optional<absl::Time> begin = TimeOf(*claims, "nbf");
    if (!begin.has_value() || now < *begin - kLeeway) return Refused("it is not valid yet");
  }
  std::optional<Identity> identity = Identity::OfServiceAccount(TextMember(*claims, "sub"));
  if (!identity.has_value()) return Refused("its subject is no service account");
  return VerifiedToken{*std::move(identity), *end};
}

}  // namespace parplan
