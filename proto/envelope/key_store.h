// The store of the private keys of one server, in a folder:
//
//   <folder>/keys/                   mode 0700
//   <folder>/keys/<key id>.pem       mode 0600, PKCS#8
//   <folder>/keys/keys.json          mode 0600, windows and statuses
//   <folder>/trust-bundle.jwks.json  mode 0644, the public part, to hand out
//
//   PARPLAN_ASSIGN_OR_RETURN(KeyStore store, KeyStore::OpenOrCreate("/var/lib/parplan", now));
//   PARPLAN_RETURN_IF_ERROR(store.RotateIfDue(now).status());  // at start and once a day
//   PARPLAN_ASSIGN_OR_RETURN(const std::vector<const PrivateKey*> keys, store.SigningKeys(now));
//   const v1::SignedPlan plan = SignPayload(payload, keys);    // signer.h
//   const TrustBundle bundle = store.PublicBundle(now);        // for verifiers
//
// A rotation, with the default times. Day 0: `Generate` publishes a key that does not sign yet;
// hand out the new bundle. Some days later: `Rotate` makes it sign beside the older one, and every
// plan has two signatures, so that verifiers with the old bundle and with the new one accept it. 7
// days after that the window of the older key ends, and it retires by itself. Its plans stay valid,
// and 30 days later the next rotation removes it from bundle and folder. `Rotate` without
// `Generate` creates the new key itself; hand out the bundle within the overlap. The server signs
// by one (`KeyRing`), and `parplan-server keys` manages it.

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

// The keys and their windows. The caller passes the time as `now`, in UTC; windows are whole
// seconds. Errors carry STORE_UNAVAILABLE: FAILED_PRECONDITION if a person must act (the message
// says how), NOT_FOUND if the folder, its parent or keys.json is gone, UNAVAILABLE if the disk
// refused. After UNAVAILABLE a change may have been made all the same; the next one or `Reload`
// reads what holds.
//
// Several processes may use one folder: each change locks it, reads it again and writes each file
// whole. A process sees changes of others after its own next change or `Reload`. One object is used
// by one thread at a time.
class KeyStore {
 public:
  // REQUIRES: 0 < overlap < validity, and 0 <= retention.
  struct Options {
    // Time for which a new key may issue plans.
    absl::Duration validity = absl::Hours(24 * 90);
    // Time for which an older key signs after a rotation.
    absl::Duration overlap = absl::Hours(24 * 7);
    // Time for which a retired key stays in the bundle; longer than any plan is valid.
    absl::Duration retention = absl::Hours(24 * 30);
  };

  // Largest number of keys that sign at once: every plan has a signature of each.
  static constexpr size_t kMaxSigningKeyCount = 4;

  // Opens the store in `folder`. On first use it creates the folder (its parent must exist) and one
  // active key. Writes the bundle again if it is not up to date. FAILED_PRECONDITION if other users
  // may read the keys, a file is damaged, or keys.json is missing although there is a bundle.
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now) {
    return OpenOrCreate(std::move(folder), now, Options());
  }

  // Opens an existing store; NOT_FOUND if there is none.
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now) {
    return Open(std::move(folder), now, Options());
  }

  KeyStore(KeyStore&&) = default;
  KeyStore& operator=(KeyStore&&) = default;

  // Adds a key that waits for the next rotation, and returns its id; or returns the id of the key
  // that already waits. Its window starts now. FAILED_PRECONDITION while the bundle has
  // `TrustBundle::kMaxKeyCount` (64) keys.
  absl::StatusOr<std::string> Generate(absl::Time now);

  // Makes the waiting key, or a new one, sign, and returns its id. Keys that sign already do so for
  // `overlap` or until their window ends, whichever is first. Removes keys that retired more than
  // `retention` ago. FAILED_PRECONDITION while `kMaxSigningKeyCount` keys sign, or if a new key
  // would be the 65th of the bundle.
  absl::StatusOr<std::string> Rotate(absl::Time now);

  // Rotates if no key would sign `overlap` after `now`, and returns whether it did. A server calls
  // it when it starts and once a day.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again, and writes the bundle if it is not up to date. If keys cannot be read,
  // they are those from before; an error of the bundle leaves those that were read.
  absl::Status Reload(absl::Time now);

  // Lists all keys, oldest first, with their status at `now`.
  std::vector<KeyInfo> List(absl::Time now) const;

  // Returns the keys to sign with, oldest first. The pointers are valid until the store is changed,
  // reloaded or destroyed. FAILED_PRECONDITION if no key may sign at `now`.
  absl::StatusOr<std::vector<const PrivateKey*>> SigningKeys(absl::Time now) const;

  // Returns the public part of all keys, waiting and retired ones included, for verifiers.
  TrustBundle PublicBundle(absl::Time now) const;

  // Returns the path of the bundle's file.
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

  // Removes files that a killed writer left. Called under the lock.
  absl::Status RemoveStagedFiles() const;

  // Reads state and keys; NOT_FOUND if there is no state. Called under the lock.
  absl::StatusOr<Entries> Load() const;

  // Writes `entries` to the folder, then to this object: new keys first, then the state (from here
  // on the change is durable), then the bundle; then removes keys that are not listed any more.
  // Called under the lock.
  absl::Status Store(Entries entries, absl::Time now);
  absl::Status StoreBundle(absl::Time now) const;

  // Returns an entry with a new key whose window starts at `now`.
  Entry NewEntry(absl::Time now, KeyStatus status) const;

  // Rotates after the lock was taken and the folder read.
  absl::StatusOr<std::string> RotateLocked(absl::Time now);

  std::string folder_;
  Options options_;
  Entries entries_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_
