// The outcome of `PlanVerifier::Verify` as the API returns it. The server's `VerifyPlan` calls both
// functions, and `planctl verify` the first.

#ifndef PARPLAN_PROTO_ENVELOPE_VERDICT_H_
#define PARPLAN_PROTO_ENVELOPE_VERDICT_H_

#include <string>

#include "absl/status/status.h"
#include "parplan/v1/plan_service.pb.h"

namespace parplan {

// Returns `VALID` for OK, the verdict of the error's reason (SIGNATURE_INVALID is BAD_SIGNATURE,
// PAYLOAD_MALFORMED is MALFORMED, PLAN_EXPIRED is EXPIRED, AUDIENCE_MISMATCH is WRONG_AUDIENCE,
// TOPOLOGY_MISMATCH is WRONG_TOPOLOGY), and `VERDICT_UNSPECIFIED` for an error that is not the
// outcome of a check, for example one of the network; the caller returns such an error as it is.
v1::VerifyPlanResponse::Verdict VerdictOf(const absl::Status& status);

// Returns the id of the trusted key that signed a plan which then failed a later check; empty if no
// key did, for OK, and for errors of anything else.
std::string SigningKeyIdOf(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_VERDICT_H_
