// The decision whether a signed plan may be used here and now. Every program that runs, exports or
// shows a plan as verified has one.

#ifndef PARPLAN_PROTO_ENVELOPE_VERIFIER_H_
#define PARPLAN_PROTO_ENVELOPE_VERIFIER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/signers.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// The caller's own identity. Empty fields are not checked. A plan without a job, or without named
// nodes, is for its whole cluster and passes any job or node. A plan without a topology digest
// passes no digest that is given.
struct ExpectedAudience {
  // Id of the cluster, as in `PlanPayload.cluster`.
  std::string cluster;
  std::string job_id;
  // Name of a node, which must be among the plan's nodes.
  std::string node_name;
  // Digest of the actual topology, as in `PlanPayload.topology_digest`.
  std::string topology_digest;
};

// An immutable verifier with a set of trusted keys. Safe to use from any thread.
class PlanVerifier {
 public:
  // Time by which the server's clock may run ahead of the verifier's: far above what NTP leaves,
  // far below the validity of a plan. Not measured.
  static constexpr absl::Duration kIssueTimeTolerance = absl::Seconds(60);

  // Longest time between issue and expiry of a plan: a year, which is the most that a server can be
  // set to (`max_plan_ttl`). It bounds what a leaked key is worth after its window.
  static constexpr absl::Duration kLongestPlanLife = absl::Hours(24 * 366);

  // Largest number of signatures of an envelope, which bounds the work on a hostile one: more fail
  // step 1. A rotation needs `KeyStore::kMaxSigningKeyCount` of them.
  static constexpr size_t kMaxSignatureCount = parplan::kMaxSignatureCount;

  // Largest payload that is parsed, in bytes; a larger one fails step 3.
  static constexpr size_t kMaxPayloadBytes = size_t{16} << 20;

  // Trusts the keys of `trust_bundle`; with an empty one every plan fails step 1.
  explicit PlanVerifier(TrustBundle trust_bundle);

  // Makes these checks in this order and returns the error of the first that fails. Nothing of the
  // payload is parsed before its signature is verified.
  //
  // 0. Trust. The bundle has not expired. PERMISSION_DENIED, SIGNATURE_INVALID.
  // 1. Bytes. A trusted key that is not revoked made one of the signatures over exactly these bytes
  //    and this type. `Signature.key_id` only selects the key to try first.
  //    PERMISSION_DENIED, SIGNATURE_INVALID.
  // 2. Type, then 3. parse. The type is that of a plan, and the bytes are a `PlanPayload` with
  //    name, devices, stages, micro-batches and both times, the expiry after the issue. Unknown
  //    fields are accepted. Whether the stages make a plan is not checked (`PlanFromPayload`).
  //    INVALID_ARGUMENT, PAYLOAD_MALFORMED.
  // 4. Time. issue_time <= now + kIssueTimeTolerance, now < expire_time, the plan lives no longer
  //    than kLongestPlanLife, and a key of step 1 was in its window at issue_time.
  //    FAILED_PRECONDITION, PLAN_EXPIRED.
  // 5. Audience. PERMISSION_DENIED, AUDIENCE_MISMATCH.
  // 6. Topology. FAILED_PRECONDITION, TOPOLOGY_MISMATCH.
  //
  // From step 2 on the metadata of the error has `keyId`, the id of a key that signed.
  absl::StatusOr<VerifiedPlan> Verify(const v1::SignedPlan& signed_plan,
                                      const ExpectedAudience& expected, absl::Time now) const;

 private:
  TrustBundle trust_bundle_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_VERIFIER_H_
