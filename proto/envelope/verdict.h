// The outcome of `PlanVerifier::Verify` as the API tells it.

#ifndef PARPLAN_PROTO_ENVELOPE_VERDICT_H_
#define PARPLAN_PROTO_ENVELOPE_VERDICT_H_

#include <string>

#include "absl/status/status.h"
#include "parplan/v1/plan_service.pb.h"

namespace parplan {

// `VALID` for OK. `VERDICT_UNSPECIFIED` for an error that is no outcome of a
// check, for example one of the network; pass such an error on as it is.
v1::VerifyPlanResponse::Verdict VerdictOf(const absl::Status& status);

// The trusted key that signed a plan which then failed a later check; empty
// where no key did.
std::string SigningKeyIdOf(const absl::Status& status);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_VERDICT_H_
