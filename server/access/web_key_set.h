// Public keys in the form of a JSON Web Key Set (RFC 7517), as a Kubernetes API server publishes
// them for its service-account tokens. `TokenVerifier` holds one.

#ifndef PARPLAN_SERVER_ACCESS_WEB_KEY_SET_H_
#define PARPLAN_SERVER_ACCESS_WEB_KEY_SET_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/system/openssl_handles.h"

namespace parplan {

// Immutable, so that any thread may use it.
class WebKeySet {
 public:
  // The algorithm that a key verifies, by its type: the header of a token does not choose it.
  enum class Algorithm { kRs256, kEs256 };

  // Reads the text of a set. Keys of other types, curves, algorithms and uses are left out; one
  // that names no `alg` or no `use` is kept. INVALID_ARGUMENT (SPEC_INVALID) naming `field` for a
  // text that is no set or has a member twice in an object, a key for signatures that is broken, an
  // RSA key of fewer than 2048 bits, two of the kept keys with one id (`kid`) or two without any,
  // and a set without any key to verify with.
  static absl::StatusOr<WebKeySet> Create(absl::string_view text, absl::string_view field);

  // Returns whether `signature` is that of `text` by the key of this id and algorithm. It consists
  // of the bytes of a JSON Web Signature (RFC 7518), after `DecodeBase64Url`. An empty id stands
  // for the only key of the algorithm; with several, the result is false.
  bool Verify(absl::string_view key_id, Algorithm algorithm, absl::string_view text,
              absl::string_view signature) const;

  // Returns the number of keys, at least 1.
  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::string id;
    Algorithm algorithm = Algorithm::kRs256;
    std::shared_ptr<EVP_PKEY> key;
  };

  std::vector<Key> keys_;
};

// Decodes base64url without padding (RFC 7515, section 2) into `bytes`, whose contents it replaces.
// Returns whether the text is that; if not, `bytes` must not be used. An empty text has no bytes
// and is fine.
bool DecodeBase64Url(absl::string_view text, std::string* bytes);

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_WEB_KEY_SET_H_
