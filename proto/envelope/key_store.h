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
//   PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan plan, SignPayload(payload, keys));  // signer.h
//   const TrustBundle bundle = store.PublicBundle(now);        // for verifiers here
//
// A rotation, with the default times. Day 0: `Generate` publishes a key that does not sign yet;
// hand out the new bundle. Some days later: `Rotate` makes it sign beside the older one, and every
// plan has two signatures, so that verifiers with the old bundle and with the new one accept it. 7
// days after that the window of the older key ends, and it retires by itself. Its plans stay valid.
// `Rotate` without `Generate` creates the new key itself; hand out the bundle within the overlap.
//
// The bundle's file has a number that grows with each change, a time after which verifiers refuse
// it, and signatures by all keys, so that whoever accepted one bundle recognizes a later one of the
// same store. It is written again, with a higher number, once a third of that time is over.
//
// Clocks may be wrong for a while. Windows of new keys begin an hour early; a key made under a
// clock far ahead neither stops the others nor counts as one that signs; and the clock alone
// removes nothing: the folder keeps at least the last 16 keys. The server signs by one store
// (`KeyRing`), and `parplan-server keys` manages it.

#ifndef PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_
#define PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
// whole. Opening, `Reload` and every method that may change something wait for the lock without a
// limit, and for the disk. A process sees changes of others after its own next change or `Reload`.
// One object is used by one thread at a time.
class KeyStore {
 public:
  // REQUIRES: 0 < overlap < validity, neither `retention` nor `back_date` is below 0, and
  // `bundle_life` is at least 3 seconds; opening aborts otherwise.
  struct Options {
    // Time for which a new key may issue plans, from the moment it is made: a key that waits for
    // its rotation has less of it left then.
    absl::Duration validity = absl::Hours(24 * 90);
    // Time for which an older key signs after a rotation.
    absl::Duration overlap = absl::Hours(24 * 7);
    // Time for which a retired key stays in the bundle at least, however many there are; longer
    // than any plan is valid.
    absl::Duration retention = absl::Hours(24 * 30);
    // Time by which the window of a new key begins before the key is made: above the error of a
    // clock that NTP sets right soon after a start. Not measured.
    absl::Duration back_date = absl::Hours(1);
    // Time for which verifiers accept a bundle's file: as long as it is of use, since after a
    // validity and an overlap none of its keys signs any more.
    absl::Duration bundle_life = absl::Hours(24 * 97);
  };

  // Largest number of keys that sign at once: every plan has a signature of each.
  static constexpr size_t kMaxSigningKeyCount = 4;

  // Number of keys up to which a rotation removes none: over three years of rotations by the server
  // itself, and a verifier tries no more keys than a bundle may have signatures.
  static constexpr size_t kKeptKeyCount = 16;

  // Opens the store in `folder`. On first use it creates the folder (its parent must exist) and one
  // active key. Writes the bundle again if it is not up to date; if there is one and the disk does
  // not let it, `RotateIfDue` tries again. FAILED_PRECONDITION if other users may read the keys, a
  // file is damaged, or keys.json is missing although there is a bundle.
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> OpenOrCreate(std::string folder, absl::Time now) {
    return OpenOrCreate(std::move(folder), now, Options());
  }

  // Opens an existing store; NOT_FOUND if there is none. Errors are those of `OpenOrCreate`, and
  // that of a bundle that cannot be written again.
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now, Options options);
  static absl::StatusOr<KeyStore> Open(std::string folder, absl::Time now) {
    return Open(std::move(folder), now, Options());
  }

  KeyStore(KeyStore&&) = default;
  KeyStore& operator=(KeyStore&&) = default;

  // Adds a key that waits for the next rotation, and returns its id; or returns the id of the key
  // that already waits. Its window starts `back_date` before `now` and ends `validity` after it; a
  // key that waits beyond its end is retired and never signs. FAILED_PRECONDITION while the bundle
  // has `TrustBundle::kMaxKeyCount` (64) keys.
  absl::StatusOr<std::string> Generate(absl::Time now);

  // Makes the waiting key, or a new one, sign, and returns its id. Keys that sign already do so for
  // `overlap` or until their window ends, whichever is first. Of more than `kKeptKeyCount` keys it
  // takes the oldest that retired more than `retention` ago out of the bundle; the file of such a
  // key gets the suffix `.dropped`. FAILED_PRECONDITION while `kMaxSigningKeyCount` keys sign, or
  // if a new key would be the 65th of the bundle.
  absl::StatusOr<std::string> Rotate(absl::Time now);

  // Makes the key sign nothing from now on, and verifiers with the bundle written now trust nothing
  // that it ever signed. `key_id` may be the first 8 or more digits of an id. If no other key
  // signs, the waiting key or a new one does from now on; if it would be the 65th of the bundle,
  // the oldest revoked key is taken out, else the oldest that has retired (the file of it gets the
  // suffix `.dropped`). Returns the whole id; the same again for a key that is revoked already.
  // NOT_FOUND (RESOURCE_NOT_FOUND) if there is no such key, and for fewer than 8 digits;
  // INVALID_ARGUMENT (SPEC_INVALID) if several ids begin so.
  absl::StatusOr<std::string> Revoke(absl::string_view key_id, absl::Time now);

  // Rotates unless some key signs both now and `overlap` after `now`, and returns whether it did.
  // Writes the bundle again if it is not up to date. A server calls it when it starts and once a
  // day.
  absl::StatusOr<bool> RotateIfDue(absl::Time now);

  // Reads the folder again, and writes the bundle if it is not up to date. If keys cannot be read,
  // they are those from before; an error of the bundle leaves those that were read.
  absl::Status Reload(absl::Time now);

  // Returns whether another program changed the keys since this object read or wrote them; false if
  // keys.json is gone. Costs one call of the system.
  bool HasChanged() const;

  // Lists all keys, oldest first, with their status at `now`.
  std::vector<KeyInfo> List(absl::Time now) const;

  // Returns the keys to sign with, oldest first. The pointers are valid until the store is changed,
  // reloaded or destroyed. FAILED_PRECONDITION if no key may sign at `now`.
  absl::StatusOr<std::vector<const PrivateKey*>> SigningKeys(absl::Time now) const;

  // Returns the public part of all keys, waiting, retired and revoked ones included, for verifiers
  // of this process: it has no version. That of the file has one. A waiting key counts as active.
  TrustBundle PublicBundle(absl::Time now) const;

  // Signs `bundle` with the keys of this store: all of them if they are at most
  // `TrustBundle::kMaxSignatureCount`, else the last so many. REQUIRES: it has a version; aborts
  // otherwise.
  TrustBundle SignBundle(const TrustBundle& bundle) const;

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

  // Returns whether there is a bundle that verifiers can read.
  bool HasBundle() const;

  // Removes files that a killed writer left. Called under the lock.
  absl::Status RemoveStagedFiles() const;

  // Reads state and keys; NOT_FOUND if there is no state. Called under the lock.
  absl::StatusOr<Entries> Load();

  // Writes `entries` to the folder, then to this object: new keys first, then the state (from here
  // on the change is durable), then the bundle; then removes keys that are not listed any more.
  // Called under the lock.
  absl::Status Store(Entries entries, absl::Time now);
  absl::Status StoreState(const Entries& entries);
  absl::Status StoreBundle(absl::Time now);

  // Returns an entry with a new key whose window starts at `now`.
  Entry NewEntry(absl::Time now, KeyStatus status) const;

  // Makes the waiting key, or a new one, sign, and returns its id.
  std::string Activate(Entries& entries, absl::Time now) const;
  // Takes a key other than `kept_id` out of `entries` if they are as many as a bundle may have: one
  // that neither signs nor waits, the oldest of those that are revoked, else of those that retired.
  static void MakeRoom(Entries& entries, const std::string& kept_id, absl::Time now);

  // Rotates after the lock was taken and the folder read.
  absl::StatusOr<std::string> RotateLocked(absl::Time now);

  std::string folder_;
  Options options_;
  Entries entries_;
  int64_t bundle_sequence_ = 0;
  // Inode and time of the last change of keys.json, which differ between its versions.
  std::pair<uint64_t, int64_t> seen_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_KEY_STORE_H_
