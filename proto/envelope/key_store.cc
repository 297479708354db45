#include "proto/envelope/key_store.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/rfc3339.h"

namespace parplan {
namespace {

// Digits by which a key may be named: fewer could be mistyped into another key's.
constexpr size_t kShortestKeyPrefix = 8;

// Rounds to whole seconds, as windows are written.
absl::Time FloorToSecond(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
}

absl::Status MustAct(absl::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable, message);
}

// Returns what differs between versions of a file; zeros if there is none.
std::pair<uint64_t, int64_t> VersionOf(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {0, 0};
  return {facts.st_ino, int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec};
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& path, const std::string& key_id) {
  PARPLAN_ASSIGN_OR_RETURN(std::string pem, ReadSecretFile(path));
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
  OPENSSL_cleanse(pem.data(), pem.size());
  if (!key.ok()) return MustAct(absl::StrCat(path, ": ", key.status().message()));
  if (key->public_key().key_id() != key_id) {
    return MustAct(absl::StrCat(path, " holds the key ", key->public_key().key_id(),
                                ", not the one it is named after; restore it from a backup"));
  }
  return key;
}

}  // namespace

KeyStore::KeyStore(std::string folder, Options options)
    : folder_(std::move(folder)), options_(options) {
  PARPLAN_CHECK(options_.overlap > absl::ZeroDuration() && options_.validity > options_.overlap &&
                options_.retention >= absl::ZeroDuration() &&
                options_.back_date >= absl::ZeroDuration() &&
                options_.bundle_life >= absl::Seconds(3));
}

std::string KeyStore::KeysFolder() const { return folder_ + "/keys"; }
std::string KeyStore::StatePath() const { return KeysFolder() + "/keys.json"; }
std::string KeyStore::PemPath(const std::string& key_id) const {
  return absl::StrCat(KeysFolder(), "/", key_id, ".pem");
}
std::string KeyStore::bundle_path() const { return folder_ + "/trust-bundle.jwks.json"; }

absl::StatusOr<KeyStore> KeyStore::OpenOrCreate(std::string folder, absl::Time now,
                                                Options options) {
  return OpenImpl(std::move(folder), now, options, /*create=*/true);
}

absl::StatusOr<KeyStore> KeyStore::Open(std::string folder, absl::Time now, Options options) {
  return OpenImpl(std::move(folder), now, options, /*create=*/false);
}

absl::StatusOr<KeyStore> KeyStore::OpenImpl(std::string folder, absl::Time now, Options options,
                                            bool create) {
  KeyStore store(std::move(folder), options);
  if (create) {
    PARPLAN_RETURN_IF_ERROR(MakeDirectory(store.folder_, 0755));
    PARPLAN_RETURN_IF_ERROR(MakeDirectory(store.KeysFolder(), 0700));
  }
  PARPLAN_RETURN_IF_ERROR(CheckSecretDirectory(store.KeysFolder()));
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(store.KeysFolder() + "/lock"));
  PARPLAN_RETURN_IF_ERROR(store.RemoveStagedFiles());
  absl::StatusOr<Entries> entries = store.Load();
  if (entries.ok()) {
    store.entries_ = *std::move(entries);
    const absl::Status stored = store.StoreBundle(now);
    // On a full disk the bundle of before does until it expires; `RotateIfDue` tries again and
    // returns the error.
    if (!stored.ok() && !(create && store.HasBundle())) return stored;
    return store;
  }
  if (!create || !absl::IsNotFound(entries.status())) return entries.status();
  std::error_code unused;
  if (std::filesystem::exists(store.bundle_path(), unused)) {
    return MustAct(absl::StrCat(store.StatePath(), " is gone, although ", store.bundle_path(),
                                " was made from it; restore it from a backup, or remove the bundle "
                                "to start over with a new key"));
  }
  Entries first;
  first.push_back(store.NewEntry(now, KeyStatus::kActive));
  PARPLAN_RETURN_IF_ERROR(store.Store(std::move(first), now));
  return store;
}

bool KeyStore::HasBundle() const {
  const absl::StatusOr<std::string> present = ReadWholeFile(bundle_path());
  return present.ok() && TrustBundle::FromJson(*present).ok();
}

absl::Status KeyStore::RemoveStagedFiles() const {
  std::error_code error;
  std::filesystem::directory_iterator files(KeysFolder(), error);
  if (!error) {
    for (; files != std::filesystem::directory_iterator(); files.increment(error)) {
      if (error) break;
      if (!absl::EndsWith(files->path().string(), kStagedSuffix)) continue;
      std::filesystem::remove(files->path(), error);
      if (error) break;
    }
  }
  if (!error) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
      absl::StrCat("cannot tidy ", KeysFolder(), ": ", error.message(), "; check its owner"));
}

absl::StatusOr<KeyStore::Entries> KeyStore::Load() {
  const std::pair<uint64_t, int64_t> version = VersionOf(StatePath());
  PARPLAN_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(StatePath()));
  PARPLAN_ASSIGN_OR_RETURN(KeyStoreState state, KeyStoreStateFromJson(json));
  Entries entries;
  for (KeyInfo& info : state.keys) {
    absl::StatusOr<PrivateKey> key = ReadKey(PemPath(info.key_id), info.key_id);
    if (absl::IsNotFound(key.status())) {
      return MustAct(absl::StrCat(PemPath(info.key_id), " is gone; restore it from a backup"));
    }
    if (!key.ok()) return key.status();
    entries.push_back(Entry{std::move(info), std::make_shared<PrivateKey>(*std::move(key))});
  }
  bundle_sequence_ = state.bundle_sequence;
  seen_ = version;
  return entries;
}

bool KeyStore::HasChanged() const {
  const std::pair<uint64_t, int64_t> version = VersionOf(StatePath());
  return version.first != 0 && version != seen_;
}

absl::Status KeyStore::StoreState(const Entries& entries) {
  KeyStoreState state;
  state.bundle_sequence = bundle_sequence_;
  for (const Entry& entry : entries) state.keys.push_back(entry.info);
  PARPLAN_RETURN_IF_ERROR(WriteDurably(StatePath(), KeyStoreStateToJson(state), 0600));
  seen_ = VersionOf(StatePath());
  return absl::OkStatus();
}

absl::Status KeyStore::Store(Entries entries, absl::Time now) {
  const auto has = [](const Entries& list, const std::string& key_id) {
    return std::any_of(list.begin(), list.end(),
                       [&](const Entry& entry) { return entry.info.key_id == key_id; });
  };
  if (entries.size() > TrustBundle::kMaxKeyCount) {
    return MustAct(absl::StrCat("the bundle has ", TrustBundle::kMaxKeyCount,
                                " keys already, as many as verifiers read; wait until retired ones "
                                "are dropped"));
  }
  for (const Entry& entry : entries) {
    if (has(entries_, entry.info.key_id)) continue;
    std::string pem = entry.key->ToPem();
    const absl::Status written = WriteDurably(PemPath(entry.info.key_id), pem, 0600);
    OPENSSL_cleanse(pem.data(), pem.size());
    PARPLAN_RETURN_IF_ERROR(written);
  }
  PARPLAN_RETURN_IF_ERROR(StoreState(entries));
  std::swap(entries_, entries);
  PARPLAN_RETURN_IF_ERROR(StoreBundle(now));
  for (const Entry& before : entries) {
    if (has(entries_, before.info.key_id)) continue;
    std::error_code unused;  // A file left over is listed nowhere and never read.
    const std::string path = PemPath(before.info.key_id);
    std::filesystem::rename(path, path + ".dropped", unused);
  }
  return absl::OkStatus();
}

TrustBundle KeyStore::SignBundle(const TrustBundle& bundle) const {
  const std::string message = bundle.SignedBytes();
  const size_t first = entries_.size() - std::min(entries_.size(), TrustBundle::kMaxSignatureCount);
  std::vector<BundleSignature> signatures;
  for (size_t i = first; i < entries_.size(); ++i) {
    signatures.push_back({entries_[i].info.key_id, entries_[i].key->Sign(message)});
  }
  return bundle.WithSignatures(std::move(signatures));
}

absl::Status KeyStore::StoreBundle(absl::Time now) {
  const std::vector<TrustedKey> keys = PublicBundle(now).keys();
  const absl::StatusOr<std::string> present = ReadWholeFile(bundle_path());
  const absl::StatusOr<TrustBundle> known =
      present.ok() ? TrustBundle::FromJson(*present) : present.status();
  if (known.ok() && known->version().has_value()) {
    const BundleVersion& version = *known->version();
    const absl::Time renewal = version.issue_time + options_.bundle_life / 3;
    // A bundle issued ahead of the clock would outlive its time.
    if (version.sequence == bundle_sequence_ && version.issue_time <= now && now < renewal) {
      const absl::StatusOr<TrustBundle> wanted = TrustBundle::Create(keys, version);
      if (wanted.ok() && SignBundle(*wanted).ToJson() == *present) return absl::OkStatus();
    }
    bundle_sequence_ = std::max(bundle_sequence_, version.sequence);
  }
  // The seconds of the clock keep the number growing after a folder was restored from a backup.
  BundleVersion version;
  version.sequence = std::max(bundle_sequence_ + 1, absl::ToUnixSeconds(now));
  version.issue_time = FloorToSecond(now);
  version.expire_time = version.issue_time + options_.bundle_life;
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle bundle, TrustBundle::Create(keys, version));
  bundle_sequence_ = version.sequence;
  // First, so that no number is given twice.
  PARPLAN_RETURN_IF_ERROR(StoreState(entries_));
  return WriteDurably(bundle_path(), SignBundle(bundle).ToJson(), 0644);
}

KeyStore::Entry KeyStore::NewEntry(absl::Time now, KeyStatus status) const {
  auto key = std::make_shared<PrivateKey>(PrivateKey::Generate());
  const absl::Time start = FloorToSecond(now);
  return Entry{KeyInfo{key->public_key().key_id(), start, start - options_.back_date,
                       start + options_.validity, status},
               key};
}

absl::Status KeyStore::Reload(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(KeysFolder() + "/lock"));
  PARPLAN_ASSIGN_OR_RETURN(entries_, Load());
  return StoreBundle(now);
}

absl::StatusOr<std::string> KeyStore::Generate(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(KeysFolder() + "/lock"));
  PARPLAN_ASSIGN_OR_RETURN(entries_, Load());
  for (const Entry& entry : entries_) {
    if (entry.info.StatusAt(now) == KeyStatus::kNext) return entry.info.key_id;
  }
  Entries entries = entries_;
  entries.push_back(NewEntry(now, KeyStatus::kNext));
  std::string key_id = entries.back().info.key_id;
  PARPLAN_RETURN_IF_ERROR(Store(std::move(entries), now));
  return key_id;
}

absl::StatusOr<std::string> KeyStore::Rotate(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(KeysFolder() + "/lock"));
  PARPLAN_ASSIGN_OR_RETURN(entries_, Load());
  return RotateLocked(now);
}

absl::StatusOr<bool> KeyStore::RotateIfDue(absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(KeysFolder() + "/lock"));
  PARPLAN_ASSIGN_OR_RETURN(entries_, Load());
  for (const Entry& entry : entries_) {
    if (entry.info.SignsAt(now) && entry.info.SignsAt(now + options_.overlap)) {
      PARPLAN_RETURN_IF_ERROR(StoreBundle(now));
      return false;
    }
  }
  PARPLAN_RETURN_IF_ERROR(RotateLocked(now).status());
  return true;
}

absl::StatusOr<std::string> KeyStore::RotateLocked(absl::Time now) {
  const absl::Time last = FloorToSecond(now) + options_.overlap;
  Entries entries;
  size_t signing_count = 0;
  absl::Time first_end = absl::InfiniteFuture();
  // Keys are in the order in which they were made.
  size_t excess = entries_.size() - std::min(entries_.size(), kKeptKeyCount);
  for (Entry entry : entries_) {
    if (excess > 0 && entry.info.not_after + options_.retention <= now) {
      --excess;
      continue;
    }
    // A key that was made under a clock far ahead keeps its window until that comes.
    if (entry.info.not_before > now) {
      entries.push_back(std::move(entry));
      continue;
    }
    // Retirement is not written down: the clock may be wrong now.
    if (entry.info.StatusAt(now) == KeyStatus::kActive) {
      ++signing_count;
      entry.info.not_after = std::min(entry.info.not_after, last);
      first_end = std::min(first_end, entry.info.not_after);
    }
    entries.push_back(std::move(entry));
  }
  if (signing_count >= kMaxSigningKeyCount) {
    return MustAct(absl::StrCat(signing_count,
                                " keys sign already, as many as may; rotate again "
                                "after ",
                                FormatRfc3339(first_end), ", when the oldest retires"));
  }
  std::string key_id = Activate(entries, now);
  PARPLAN_RETURN_IF_ERROR(Store(std::move(entries), now));
  return key_id;
}

std::string KeyStore::Activate(Entries& entries, absl::Time now) const {
  auto next = std::find_if(entries.begin(), entries.end(), [now](const Entry& entry) {
    return entry.info.StatusAt(now) == KeyStatus::kNext && entry.info.not_before <= now;
  });
  if (next == entries.end()) {
    entries.push_back(NewEntry(now, KeyStatus::kActive));
    next = entries.end() - 1;
  }
  next->info.status = KeyStatus::kActive;
  return next->info.key_id;
}

void KeyStore::MakeRoom(Entries& entries, const std::string& kept_id, absl::Time now) {
  if (entries.size() < TrustBundle::kMaxKeyCount) return;
  // `Activate` takes a key that waits and makes none.
  const bool has_next = std::any_of(entries.begin(), entries.end(), [now](const Entry& entry) {
    return entry.info.StatusAt(now) == KeyStatus::kNext && entry.info.not_before <= now;
  });
  if (has_next) return;
  const auto is_idle = [&](const Entry& entry) {
    return entry.info.key_id != kept_id && !entry.info.SignsAt(now) &&
           entry.info.StatusAt(now) != KeyStatus::kNext;
  };
  // Keys are in the order in which they were made. Verifiers refuse one that they do not know as
  // one that is revoked, but need those that have retired for the plans they signed.
  auto dropped = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return is_idle(entry) && entry.info.status == KeyStatus::kRevoked;
  });
  if (dropped == entries.end()) dropped = std::find_if(entries.begin(), entries.end(), is_idle);
  // Else all others wait for their time, and `Store` refuses.
  if (dropped != entries.end()) entries.erase(dropped);
}

absl::StatusOr<std::string> KeyStore::Revoke(absl::string_view key_id, absl::Time now) {
  PARPLAN_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Acquire(KeysFolder() + "/lock"));
  PARPLAN_ASSIGN_OR_RETURN(entries_, Load());
  Entries entries = entries_;
  Entry* found = nullptr;
  for (Entry& entry : entries) {
    if (key_id.size() < kShortestKeyPrefix || !absl::StartsWith(entry.info.key_id, key_id)) {
      continue;
    }
    if (found != nullptr) {
      return FieldError(
          Reason::kSpecInvalid, "key_id",
          absl::StrCat("`", key_id, "` is how several ids begin; give all 64 digits"));
    }
    found = &entry;
  }
  if (found == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                     absl::StrCat("no key in ", KeysFolder(), " has an id that begins with `",
                                  key_id, "` (", kShortestKeyPrefix,
                                  " digits or more); `parplan-server keys list` shows them"));
  }
  std::string revoked = found->info.key_id;
  if (found->info.status == KeyStatus::kRevoked) {
    PARPLAN_RETURN_IF_ERROR(StoreBundle(now));
    return revoked;
  }
  found->info.status = KeyStatus::kRevoked;
  found->info.revoke_time = FloorToSecond(now);
  if (std::none_of(entries.begin(), entries.end(),
                   [now](const Entry& entry) { return entry.info.SignsAt(now); })) {
    MakeRoom(entries, revoked, now);
    Activate(entries, now);
  }
  PARPLAN_RETURN_IF_ERROR(Store(std::move(entries), now));
  return revoked;
}

std::vector<KeyInfo> KeyStore::List(absl::Time now) const {
  std::vector<KeyInfo> infos;
  for (const Entry& entry : entries_) {
    infos.push_back(entry.info);
    infos.back().status = entry.info.StatusAt(now);
  }
  return infos;
}

absl::StatusOr<std::vector<const PrivateKey*>> KeyStore::SigningKeys(absl::Time now) const {
  std::vector<const PrivateKey*> keys;
  for (const Entry& entry : entries_) {
    if (entry.info.SignsAt(now)) keys.push_back(entry.key.get());
  }
  if (keys.empty()) {
    return MustAct(
        absl::StrCat("no key may sign at ", FormatRfc3339(now),
                     "; check the clock, or make a key with `parplan-server keys rotate`"));
  }
  return keys;
}

TrustBundle KeyStore::PublicBundle(absl::Time now) const {
  std::vector<TrustedKey> keys;
  for (const Entry& entry : entries_) {
    const KeyInfo& info = entry.info;
    const KeyStatus status = info.StatusAt(now);
    keys.push_back(TrustedKey{entry.key->public_key(), info.not_before, info.not_after,
                              status == KeyStatus::kRevoked   ? TrustStatus::kRevoked
                              : status == KeyStatus::kRetired ? TrustStatus::kRetired
                                                              : TrustStatus::kActive,
                              info.revoke_time});
  }
  // `Load` and `Store` keep windows right, keys apart, and their number small.
  absl::StatusOr<TrustBundle> bundle = TrustBundle::Create(std::move(keys));
  PARPLAN_CHECK(bundle.ok());
  return *std::move(bundle);
}

}  // namespace parplan
