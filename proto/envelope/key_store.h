// The private keys of one server, in a folder:
//
//   <folder>/keys/                   mode 0700
//   <folder>/keys/<key id>.pem       mode 0600, PKCS#8
//   <folder>/keys/keys.json          mode 0600, windows and statuses
//   <folder>/trust-bundle.jwks.json  mode 0644, the public part, to hand out
//
// A rotation, with the default times. Day 0: `Generate` publishes a key that
// does not sign yet; hand out the new bundle. Some days later: `Rotate` lets it
// sign beside the older one, and every plan has two signatures, so verifiers
// with the old bundle and with the new one accept it. 7 days after that the
// older key retires by itself: its window ends. Its plans still hold, and 30
// days later the next rotation drops it from bundle and folder. `Rotate` without
// `Generate` makes the new key itself; hand out the bundle within the overlap.

#ifndef PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_
#define PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/envelope/key_store_state.h"
#include "proto/envelope/private_key.h"
#include "proto/envelope/trust_bundle.h"

namespace parplan {

// Times that `now` stands for come from the caller, in UTC; windows are whole
// seconds. Errors carry STORE_UNAVAILABLE: FAILED_PRECONDITION where a person
// must act (the message says how), UNAVAILABLE where the disk refused.
//
// Several processes may use one folder: whoever changes it locks it, reads it
// again and writes each file whole. A process sees changes of others after its
// own next change or `Reload`. One object is for one thread at a time.
class KeyStore {
 public:
  struct Options {
    // How long a new key may issue plans.
    absl::Duration validity = absl::Hours(24 * 90);
    // How long an older key signs on after a rotation.
    absl::Duration overlap = absl::Hours(24 * 7);
    // How long a retired key stays in the bundle: longer than any plan is valid.
    absl::Duration retention = absl::Hours(24 * 30);
  };

  // Most keys that sign at once.
  static constexpr size_t kMaxSigningKeyCount = 4;

  // Opens the store in `folder`; on first use makes the folder (its parent must
  // exist) and one active key. FAILED_PRECONDITION where others may read the
  // keys, a file is damaged, or keys.json is gone although a bundle was made.
  // Writes the bundle anew where it is not up to date.
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now) {
    return OpenOrCreate(std::move(folder), now, Options());
  }

  // As `OpenOrCreate`, but NOT_FOUND where there is no store.
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now) {
    return Open(std::move(folder), now, Options());
  }

  KeyStore(KeyStore&&) = default;
  KeyStore& operator=(KeyStore&&) = default;

  // Adds a key that waits for the next rotation and returns its id; where one
  // waits already, returns that one's. Its window starts now.
  absl::StatusOr<std::string> Generate(absl::Time now);

  // Lets the waiting key, or a new one, sign, and returns its id. Keys that sign
  // already go on for `overlap` or until their window ends, whichever is first.
  // Drops keys that retired more than `retention` ago. FAILED_PRECONDITION while
  // `kMaxSigningKeyCount` keys sign.
  absl::StatusOr<std::string> Rotate(absl::Time now);

  // Rotates when no key will sign `overlap` from now on; says whether it did.
  // A server calls it when it starts and once a day.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again.
  absl::Status Reload(absl::Time now);

  // All keys, oldest first, with their status at `now`.
  std::vector<KeyInfo> List(absl::Time now) const;

  // The keys to sign with, oldest first; valid until the store is changed,
  // reloaded or gone. FAILED_PRECONDITION where none may sign at `now`.
  absl::StatusOr<std::vector<const PrivateKey*>> SigningKeys(absl::Time now) const;

  // What verifiers need: every key, those that wait and those retired included.
  TrustBundle PublicBundle(absl::Time now) const;

  // Where the bundle lies.
  std::string bundle_path() const;

 private:
  struct Entry {
    KeyInfo info;
    std::shared_ptr<const PrivateKey> key;
  };
  using Entries = std::vector<Entry>;

  KeyStore(std::string folder, Options options);

  static absl::StatusOr<KeyStore> OpenImpl(std::string folder, absl::Time now, Options options,
                                           bool create);

  std::string KeysFolder() const;
  std::string StatePath() const;
  std::string PemPath(const std::string& key_id) const;

  // Removes what a writer that was stopped left behind. Under the lock.
  absl::Status RemoveStagedFiles() const;

  // Reads state and keys; NOT_FOUND where there is no state. Under the lock.
  absl::StatusOr<Entries> Load() const;

  // Makes `entries` what the folder says, then what this object says: new keys
  // first, then the state (from here on the change holds), then the bundle, then
  // removes keys no longer listed. Under the lock.
  absl::Status Store(Entries entries, absl::Time now);
  absl::Status StoreBundle(absl::Time now) const;

  // An entry with a new key whose window starts at `now`.
  Entry NewEntry(absl::Time now, KeyStatus status) const;

  // `Rotate` after the lock is taken and the folder is read.
  absl::StatusOr<std::string> RotateLocked(absl::Time now);

  std::string folder_;
  Options options_;
  Entries entries_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_
