#include "proto/envelope/signers.h"

#include <algorithm>
#include <string>

#include "proto/envelope/pre_authentication_encoding.h"

namespace parplan {

std::vector<const TrustedKey*> FindSigners(const TrustBundle& trust,
                                           const v1::SignedPlan& envelope) {
  std::vector<const TrustedKey*> signers;
  if (static_cast<size_t>(envelope.signatures_size()) > kMaxSignatureCount) return signers;
  const std::string message =
      PreAuthenticationEncoding(envelope.payload_type(), envelope.payload());
  const auto add_if_signer = [&](const TrustedKey& key, const v1::Signature& signature) {
    if (key.is_revoked() || !key.public_key.Verify(message, signature.sig())) return false;
    if (std::find(signers.begin(), signers.end(), &key) == signers.end()) signers.push_back(&key);
    return true;
  };
  for (const v1::Signature& signature : envelope.signatures()) {
    const TrustedKey* const hinted = trust.Find(signature.key_id());
    if (hinted != nullptr && add_if_signer(*hinted, signature)) continue;
    for (const TrustedKey& key : trust.keys()) {
      if (&key != hinted && add_if_signer(key, signature)) break;
    }
  }
  return signers;
}

}  // namespace parplan
