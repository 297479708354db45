// The trusted keys that signed an envelope. `PlanVerifier` and `VerifyEvidence` call it first.

#ifndef PARPLAN_PROTO_ENVELOPE_SIGNERS_H_
#define PARPLAN_PROTO_ENVELOPE_SIGNERS_H_

#include <cstddef>
#include <vector>

#include "parplan/v1/plan.pb.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan {

// Largest number of signatures that are looked at.
inline constexpr size_t kMaxSignatureCount = 16;

// Returns the keys of `trust`, revoked ones apart, that made one of the signatures over exactly
// these bytes and this type, each once, in the order of the signatures; none if there are more than
// `kMaxSignatureCount`. `Signature.key_id` only selects the key to try first. Neither the windows
// of the keys nor the life of `trust` is looked at. The pointers are valid as long as `trust`.
std::vector<const TrustedKey*> FindSigners(const TrustBundle& trust,
                                           const v1::SignedPlan& envelope);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_SIGNERS_H_
