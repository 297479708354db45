// Base64 (RFC 4648), read strictly. Abseil's reader skips white space and takes
// several texts for the same bytes; a signed document should have one reading.

#ifndef PARPLAN_PROTO_ENVELOPE_BASE64_H_
#define PARPLAN_PROTO_ENVELOPE_BASE64_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Reads either alphabet (`+/` or `-_`, not both in one text), with right padding
// or none. Nothing for any other character, for white space, for padding that
// is not right, and for unused bits that are not zero.
std::optional<std::string> DecodeBase64(absl::string_view text);

// The standard alphabet with padding, as in a DSSE envelope.
std::string EncodeBase64(absl::string_view bytes);

// The URL-safe alphabet without padding, as in a JWK.
std::string EncodeBase64Url(absl::string_view bytes);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_BASE64_H_
