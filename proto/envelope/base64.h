// Base64 (RFC 4648), decoded strictly. Abseil's decoder skips white space and accepts several texts
// for the same bytes; a signed document must have one form. Used by envelopes and trust bundles.

#ifndef PARPLAN_PROTO_ENVELOPE_BASE64_H_
#define PARPLAN_PROTO_ENVELOPE_BASE64_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Decodes either alphabet (`+/` or `-_`, not both in one text), with correct padding or none.
// Returns nothing for any other character, white space, wrong padding, and unused bits that are not
// zero.
std::optional<std::string> DecodeBase64(absl::string_view text);

// Encodes with the standard alphabet and padding, as in a DSSE envelope.
std::string EncodeBase64(absl::string_view bytes);

// Encodes with the URL-safe alphabet without padding, as in a JWK.
std::string EncodeBase64Url(absl::string_view bytes);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_BASE64_H_
