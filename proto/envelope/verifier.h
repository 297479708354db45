// Decides whether a signed plan may be acted on, here and now.

#ifndef PARPLAN_PROTO_ENVELOPE_VERIFIER_H_
#define PARPLAN_PROTO_ENVELOPE_VERIFIER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parplan/v1/plan.pb.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verified_plan.h"

namespace parplan {

// Who is asking. An empty field is not checked. A plan made for no job, or for
// no named nodes, is for all of its cluster.
struct ExpectedAudience {
  // Id of the cluster, as in `PlanPayload.cluster`.
  std::string cluster;
  std::string job_id;
  // Must be among the plan's nodes.
  std::string node_name;
  // Digest of the topology found here, as in `PlanPayload.topology_digest`.
  std::string topology_digest;
};

// A value; safe to use from several threads at once.
class PlanVerifier {
 public:
  // How far the clock of the server may run ahead of ours.
  static constexpr absl::Duration kIssueTimeTolerance = absl::Seconds(60);

  // Most signatures of one envelope, so that nobody is kept busy for long.
  static constexpr size_t kMaxSignatureCount = 16;

  // Longest payload that is parsed, in bytes.
  static constexpr size_t kMaxPayloadBytes = size_t{16} << 20;

  explicit PlanVerifier(TrustBundle trust_bundle);

  // The checks, in this order; the first that fails gives the error. Nothing of
  // the payload is read before its bytes are known to be signed.
  //
  // 1. Bytes. Some trusted key made some signature over exactly these bytes and
  //    this type. `Signature.key_id` only says which key to try first.
  //    PERMISSION_DENIED, SIGNATURE_INVALID.
  // 2. Type, then 3. parse. The type is a plan's, the bytes are a `PlanPayload`
  //    with name, devices, stages, micro-batches and both times. Fields this
  //    release does not know are accepted. INVALID_ARGUMENT, PAYLOAD_MALFORMED.
  // 4. Time. issue_time <= now + kIssueTimeTolerance, now < expire_time, and a
  //    key of step 1 was in its window at issue_time. FAILED_PRECONDITION,
  //    PLAN_EXPIRED.
  // 5. Audience. PERMISSION_DENIED, AUDIENCE_MISMATCH.
  // 6. Topology. FAILED_PRECONDITION, TOPOLOGY_MISMATCH.
  //
  // From step 2 on the error's metadata has `keyId`, a key that signed.
  absl::StatusOr<VerifiedPlan> Verify(const v1::SignedPlan& signed_plan,
                                      const ExpectedAudience& expected, absl::Time now) const;

 private:
  // The trusted keys that made one of the signatures, in the order of these.
  std::vector<const TrustedKey*> FindSigners(const v1::SignedPlan& signed_plan) const;

  TrustBundle trust_bundle_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_VERIFIER_H_
