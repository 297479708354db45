// The signature of a plan. Only programs that sign plans link this. `KeyRing`
// (server/core/key_ring.h) signs with it.

#ifndef PARPLAN_PROTO_ENVELOPE_SIGNER_H_
#define PARPLAN_PROTO_ENVELOPE_SIGNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/private_key.h"

namespace parplan {

// Signs the DSSE pre-authentication encoding of `payload_bytes`, a serialized `PlanPayload`, with
// every key, and puts the bytes unchanged into the envelope. The caller must keep these bytes:
// serializing the message again may give others.
//
// Neither the payload nor the windows of the keys are looked at. Signatures are in the order of the
// keys. During a rotation there are two; a verifier needs to trust one of them.
// FAILED_PRECONDITION (SIGNATURE_INVALID) if there is no key; INVALID_ARGUMENT
// (SPEC_INVALID) if a key is given twice or there are more than `PlanVerifier::kMaxSignatureCount`
// (16). Keys are not null and used only during the call.
absl::StatusOr<v1::SignedPlan> SignPayload(std::string payload_bytes,
                                           const std::vector<const PrivateKey*>& keys);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_SIGNER_H_
