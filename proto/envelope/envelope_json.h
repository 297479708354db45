// The DSSE envelope as JSON, for people and for tools without protobuf:
//
//   {"payload": "<base64>", "payloadType": "application/...",
//    "signatures": [{"keyid": "<key id>", "sig": "<base64>"}]}
//
// planctl, the sidecar, `parplan-exec`, the C interface of the executor and the tools for Slurm
// read or write plan files by it.

#ifndef PARPLAN_PROTO_ENVELOPE_ENVELOPE_JSON_H_
#define PARPLAN_PROTO_ENVELOPE_ENVELOPE_JSON_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan.pb.h"

namespace parplan {

// Longest text that `EnvelopeFromJson` reads, in bytes.
inline constexpr size_t kMaxEnvelopeJsonBytes = size_t{16} << 20;

// Returns indented JSON with a line feed at the end. The payload is written byte for byte, and a
// `keyid` only if there is one. Bytes of the type or of a `keyid` that are not UTF-8 are replaced.
std::string EnvelopeToJson(const v1::SignedPlan& signed_plan);

// Parses the JSON of `EnvelopeToJson` and of other DSSE tools: either base64 alphabet, with padding
// or without; `keyid` may be absent. Verifies nothing. INVALID_ARGUMENT (PAYLOAD_MALFORMED) naming
// the field for text that is not JSON or above `kMaxEnvelopeJsonBytes`, a missing, repeated or
// unknown member, a text that is not base64, and an envelope without a signature. Neither the type
// nor the number of signatures is limited here.
absl::StatusOr<v1::SignedPlan> EnvelopeFromJson(absl::string_view json);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_ENVELOPE_JSON_H_
