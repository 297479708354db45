// Evidence about a plan: a signed statement of a run of the plan and its results. It is an in-toto
// statement (https://in-toto.io/Statement/v1) in a DSSE envelope, whose subject is the plan
// by the SHA-256 of its signed bytes; `parplan-torch check` writes it:
//
//   {"_type": "https://in-toto.io/Statement/v1",
//    "subject": [{"name": "clusters/atlas/plans/p1", "digest": {"sha256": "<64 digits>"}}],
//    "predicateType": "https://parplan.io/evidence/torch-check/v1",
//    "predicate": {"passed": true, "finish_time": "2026-03-01T12:00:00Z",
//                  "summary": "loss and 37 gradients equal ...", ...}}
//
// `planctl verify` checks it.

#ifndef PARPLAN_PROTO_ENVELOPE_EVIDENCE_H_
#define PARPLAN_PROTO_ENVELOPE_EVIDENCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// The DSSE payload type of in-toto statements.
inline constexpr char kStatementPayloadType[] = "application/vnd.in-toto+json";

// The predicate of `parplan-torch check`.
inline constexpr char kTorchCheckPredicate[] = "https://parplan.io/evidence/torch-check/v1";

// Evidence that passed every check of `VerifyEvidence`.
struct Evidence {
  // Id of the trusted key that signed it.
  std::string key_id;
  absl::Time finish_time;
  // One line of at most 1024 bytes: what was compared, and the worst difference.
  std::string summary;
  // The signed statement, JSON.
  std::string statement;
};

// Makes these checks in this order and returns the error of the first that fails.
//
// 1. A key of `trust` signed exactly these bytes and this type. PERMISSION_DENIED,
//    SIGNATURE_INVALID.
// 2. The type is that of in-toto statements, and the bytes, at most 16 MiB, are a statement as
//    above, with one subject, of a check that passed; other members are accepted.
//    INVALID_ARGUMENT, PAYLOAD_MALFORMED.
// 3. The subject is `plan`, by name and digest. PERMISSION_DENIED, AUDIENCE_MISMATCH.
// 4. `finish_time` is at most PlanVerifier::kIssueTimeTolerance after `now`, and a key of step 1
//    was in its window then. FAILED_PRECONDITION, PLAN_EXPIRED.
//
// How long ago the check finished does not matter, nor whether `trust` has expired
// (`TrustBundle::CheckLife`).
absl::StatusOr<Evidence> VerifyEvidence(const v1::SignedPlan& envelope, const TrustBundle& trust,
                                        const VerifiedPlan& plan, absl::Time now);

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_EVIDENCE_H_
