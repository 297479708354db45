// The bytes that a DSSE signature covers (secure-systems-lab/dsse, protocol v1.0.2): "DSSEv1", the
// length and bytes of the payload type, the length and bytes of the payload, separated by one
// space. The lengths make the encoding unambiguous, so no payload can be read as another type and
// payload. `SignPayload` signs it, `FindSigners` verifies it, and the signatures of a trust bundle
// cover such bytes.

#ifndef PARPLAN_PROTO_ENVELOPE_PRE_AUTHENTICATION_ENCODING_H_
#define PARPLAN_PROTO_ENVELOPE_PRE_AUTHENTICATION_ENCODING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the encoding. Lengths are numbers of bytes, in decimal digits. Neither argument is
// normalised.
std::string PreAuthenticationEncoding(absl::string_view payload_type, absl::string_view payload);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PRE_AUTHENTICATION_ENCODING_H_
