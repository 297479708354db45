// A plan that passed every check of a `PlanVerifier` (verifier.h). There is no other way to get
// one, so code that takes a `VerifiedPlan`, such as exports, launches and the executor, need not
// check again.

#ifndef PARPLAN_PROTO_ENVELOPE_VERIFIED_PLAN_H_
#define PARPLAN_PROTO_ENVELOPE_VERIFIED_PLAN_H_

#include <string>
#include <utility>

#include "parplan/v1/plan.pb.h"

namespace parplan {

// An immutable value. It was valid when it was made; a holder that keeps it for long compares
// `payload().expire_time()` with its clock, or verifies again.
class VerifiedPlan {
 public:
  // Signed bytes, and the message that was parsed from them.
  const std::string& bytes() const { return bytes_; }
  const v1::PlanPayload& payload() const { return payload_; }

  // Id of a trusted key that signed the bytes and was allowed to at their issue time.
  const std::string& key_id() const { return key_id_; }

 private:
  friend class PlanVerifier;

  VerifiedPlan(std::string bytes, v1::PlanPayload payload, std::string key_id)
      : bytes_(std::move(bytes)), payload_(std::move(payload)), key_id_(std::move(key_id)) {}

  std::string bytes_;
  v1::PlanPayload payload_;
  std::string key_id_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_VERIFIED_PLAN_H_
