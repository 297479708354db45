// The id of a public key: the SHA-256 of its SubjectPublicKeyInfo (DER), in lower-case hexadecimal.
// Equal to
//
//   openssl pkey -pubin -in public.pem -outform DER | sha256sum
//
// `PublicKey` has its id from here.

#ifndef PARPLAN_PROTO_ENVELOPE_KEY_ID_H_
#define PARPLAN_PROTO_ENVELOPE_KEY_ID_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the SubjectPublicKeyInfo of an Ed25519 key (RFC 8410 §4), 44 bytes of DER.
// REQUIRES: `raw_public_key` has 32 bytes; aborts otherwise.
std::string Ed25519SubjectPublicKeyInfo(absl::string_view raw_public_key);

// Returns the SHA-256 of `bytes` in lower-case hexadecimal, 64 digits.
std::string HexDigest(absl::string_view bytes);

// Returns the key id of a SubjectPublicKeyInfo: 64 digits.
std::string KeyIdOf(absl::string_view subject_public_key_info);

// Returns whether `text` has the form of a key id: 64 lower-case hexadecimal digits.
bool HasKeyIdForm(absl::string_view text);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_ID_H_
