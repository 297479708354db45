// Signs a plan. Only the server and planctl link this.

#ifndef PARPLAN_PROTO_ENVELOPE_SIGNER_H_
#define PARPLAN_PROTO_ENVELOPE_SIGNER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/private_key.h"

namespace parplan {

// Signs the DSSE pre-authentication encoding of `payload_bytes`, a serialized
// `PlanPayload`, with every key, and puts the bytes into the envelope as they
// are. The caller keeps them so: encoding the message again may give others.
//
// Signatures stand in the order of the keys. During a rotation there are two;
// a verifier needs to trust one of them. FAILED_PRECONDITION (SIGNATURE_INVALID)
// where there is no key; INVALID_ARGUMENT where a key comes twice or there are
// more than `PlanVerifier::kMaxSignatureCount`.
absl::StatusOr<v1::SignedPlan> SignPayload(std::string payload_bytes,
                                           const std::vector<const PrivateKey*>& keys);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_SIGNER_H_
