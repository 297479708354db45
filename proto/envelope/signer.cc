#include "proto/envelope/signer.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "proto/envelope/payload_type.h"
#include "proto/envelope/pre_authentication_encoding.h"
#include "proto/envelope/verifier.h"

namespace parplan {

absl::StatusOr<v1::SignedPlan> SignPayload(std::string payload_bytes,
                                           const std::vector<const PrivateKey*>& keys) {
  if (keys.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kSignatureInvalid,
                     "no key may sign now; make one with `parplan-server keys rotate`",
                     {{"keyIds", ""}});
  }
  if (keys.size() > PlanVerifier::kMaxSignatureCount) {
    return FieldError(Reason::kSpecInvalid, "keys",
                      absl::StrCat("at most ", PlanVerifier::kMaxSignatureCount,
                                   " keys sign one plan; retire the oldest"));
  }
  v1::SignedPlan signed_plan;
  signed_plan.set_payload_type(kPlanPayloadType);
  signed_plan.set_payload(std::move(payload_bytes));
  const std::string message =
      PreAuthenticationEncoding(signed_plan.payload_type(), signed_plan.payload());
  std::set<std::string> used;
  for (const PrivateKey* key : keys) {
    const std::string& key_id = key->public_key().key_id();
    if (!used.insert(key_id).second) {
      return FieldError(Reason::kSpecInvalid, "keys",
                        absl::StrCat("the key ", key_id, " comes twice; give it once"));
    }
    v1::Signature* const signature = signed_plan.add_signatures();
    signature->set_sig(key->Sign(message));
    signature->set_key_id(key_id);
  }
  return signed_plan;
}

}  // namespace parplan
