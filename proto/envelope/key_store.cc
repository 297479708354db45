#include "proto/envelope/key_store.h"

#include <openssl/crypto.h>

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

// Rounds to whole seconds, as windows are written.
absl::Time FloorToSecond(absl::Time time) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(time));
}

absl::Status MustAct(absl::string_view message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable, message);
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
                options_.retention >= absl::ZeroDuration());
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
    PARPLAN_RETURN_IF_ERROR(store.StoreBundle(now));
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

absl::StatusOr<KeyStore::Entries> KeyStore::Load() const {
  PARPLAN_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(StatePath()));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<KeyInfo> infos, KeyInfosFromJson(json));
  Entries entries;
  for (KeyInfo& info : infos) {
    absl::StatusOr<PrivateKey> key = ReadKey(PemPath(info.key_id), info.key_id);
    if (absl::IsNotFound(key.status())) {
      return MustAct(absl::StrCat(PemPath(info.key_id), " is gone; restore it from a backup"));
    }
    if (!key.ok()) return key.status();
    entries.push_back(Entry{std::move(info), std::make_shared<PrivateKey>(*std::move(key))});
  }
  return entries;
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
  std::vector<KeyInfo> infos;
  for (const Entry& entry : entries) {
    infos.push_back(entry.info);
    if (has(entries_, entry.info.key_id)) continue;
    std::string pem = entry.key->ToPem();
    const absl::Status written = WriteDurably(PemPath(entry.info.key_id), pem, 0600);
    OPENSSL_cleanse(pem.data(), pem.size());
    PARPLAN_RETURN_IF_ERROR(written);
  }
  PARPLAN_RETURN_IF_ERROR(WriteDurably(StatePath(), KeyInfosToJson(infos), 0600));
  std::swap(entries_, entries);
  PARPLAN_RETURN_IF_ERROR(StoreBundle(now));
  for (const Entry& before : entries) {
    if (has(entries_, before.info.key_id)) continue;
    std::error_code unused;  // A file left over is listed nowhere and never read.
    std::filesystem::remove(PemPath(before.info.key_id), unused);
  }
  return absl::OkStatus();
}

absl::Status KeyStore::StoreBundle(absl::Time now) const {
  const std::string json = PublicBundle(now).ToJson();
  const absl::StatusOr<std::string> present = ReadWholeFile(bundle_path());
  if (present.ok() && *present == json) return absl::OkStatus();
  return WriteDurably(bundle_path(), json, 0644);
}

KeyStore::Entry KeyStore::NewEntry(absl::Time now, KeyStatus status) const {
  auto key = std::make_shared<PrivateKey>(PrivateKey::Generate());
  const absl::Time start = FloorToSecond(now);
  return Entry{KeyInfo{key->public_key().key_id(), start, start, start + options_.validity, status},
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
    if (entry.info.StatusAt(now + options_.overlap) == KeyStatus::kActive) {
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
  for (Entry entry : entries_) {
    if (entry.info.not_after + options_.retention <= now) continue;
    entry.info.status = entry.info.StatusAt(now);
    if (entry.info.status == KeyStatus::kActive) {
      ++signing_count;
      // If the clock was set back, `last` may be before the window.
      const absl::Time end = std::max(last, entry.info.not_before + absl::Seconds(1));
      entry.info.not_after = std::min(entry.info.not_after, end);
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
  auto next = std::find_if(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.info.status == KeyStatus::kNext;
  });
  if (next == entries.end()) {
    entries.push_back(NewEntry(now, KeyStatus::kActive));
    next = entries.end() - 1;
  }
  next->info.status = KeyStatus::kActive;
  std::string key_id = next->info.key_id;
  PARPLAN_RETURN_IF_ERROR(Store(std::move(entries), now));
  return key_id;
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
    if (entry.info.not_before <= now && entry.info.StatusAt(now) == KeyStatus::kActive) {
      keys.push_back(entry.key.get());
    }
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
    const TrustStatus status =
        info.StatusAt(now) == KeyStatus::kRetired ? TrustStatus::kRetired : TrustStatus::kActive;
    keys.push_back(TrustedKey{entry.key->public_key(), info.not_before, info.not_after, status});
  }
  // `Load` and `Store` keep windows right, keys apart, and their number small.
  absl::StatusOr<TrustBundle> bundle = TrustBundle::Create(std::move(keys));
  PARPLAN_CHECK(bundle.ok());
  return *std::move(bundle);
}

}  // namespace parplan
