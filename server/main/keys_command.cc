// `parplan-server keys generate|list|rotate|revoke|bundle`: the signing keys of a server, in its
// data folder.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/shell/command_program.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "proto/envelope/key_store.h"
#include "proto/envelope/trust_bundle.h"
#include "server/main/admin_commands.h"

namespace parplan {
namespace {

using shell::Note;
using shell::Print;
using shell::Session;

// A bundle of a thousand keys has 200 kB.
constexpr size_t kMaxBundleBytes = size_t{64} << 20;

struct KeysFlags {
  std::string data_folder;
  std::string key_id;
  std::vector<std::string> bundle_paths;
};

std::string Day(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

absl::Status Show(const Session& session, const KeyStore& store, const std::string& changed) {
  const std::vector<KeyInfo> keys = store.List(absl::Now());
  if (session.json) {
    nlohmann::ordered_json object;
    if (!changed.empty()) object["key_id"] = changed;
    object["trust_bundle"] = store.bundle_path();
    object["keys"] = nlohmann::ordered_json::array();
    for (const KeyInfo& key : keys) {
      object["keys"].push_back({{"key_id", key.key_id},
                                {"status", std::string(KeyStatusName(key.status))},
                                {"not_before", Day(key.not_before)},
                                {"not_after", Day(key.not_after)}});
      if (key.revoke_time.has_value()) {
        object["keys"].back()["revoke_time"] = Day(*key.revoke_time);
      }
    }
    return Print(session, object.dump(2) + "\n");
  }
  std::string text;
  for (const KeyInfo& key : keys) {
    const std::string revoked =
        key.revoke_time.has_value() ? absl::StrCat(", revoked ", Day(*key.revoke_time)) : "";
    absl::StrAppendFormat(&text, "%s  %-8s %s to %s%s%s\n", key.key_id, KeyStatusName(key.status),
                          Day(key.not_before), Day(key.not_after), revoked,
                          key.key_id == changed && revoked.empty() ? "  (new)" : "");
  }
  absl::StrAppend(&text, "trust bundle ", store.bundle_path(), "\n");
  return Print(session, text);
}

// Returns NOT_FOUND if neither a server nor `generate` has made keys yet.
absl::StatusOr<KeyStore> OpenExisting(const std::string& data_folder) {
  std::error_code error;
  if (!std::filesystem::exists(data_folder + "/keys", error)) {
    return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                     absl::StrCat("no keys in ", data_folder,
                                  "; name the data folder of a server, or make keys with "
                                  "`parplan-server keys generate`"));
  }
  return KeyStore::Open(data_folder, absl::Now());
}

absl::Status Generate(const Session& session, const KeysFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(KeyStore store, KeyStore::OpenOrCreate(flags.data_folder, absl::Now()));
  PARPLAN_ASSIGN_OR_RETURN(const std::string key_id, store.Generate(absl::Now()));
  return Show(session, store, key_id);
}

absl::Status List(const Session& session, const KeysFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const KeyStore store, OpenExisting(flags.data_folder));
  return Show(session, store, "");
}

absl::Status Rotate(const Session& session, const KeysFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(KeyStore store, OpenExisting(flags.data_folder));
  PARPLAN_ASSIGN_OR_RETURN(const std::string key_id, store.Rotate(absl::Now()));
  Note(session, "hand out the trust bundle, then restart the server or send it SIGHUP");
  return Show(session, store, key_id);
}

absl::Status Revoke(const Session& session, const KeysFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(KeyStore store, OpenExisting(flags.data_folder));
  PARPLAN_ASSIGN_OR_RETURN(const std::string key_id, store.Revoke(flags.key_id, absl::Now()));
  Note(session,
       "hand out the trust bundle at once: until verifiers have it they accept plans of this key. "
       "Servers with this folder stop signing with it within a second, and make plans anew that no "
       "other key signed");
  return Show(session, store, key_id);
}

absl::StatusOr<TrustBundle> ReadBundle(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(
      path, {.max_bytes = kMaxBundleBytes, .takes_any_kind = true, .takes_standard_input = true});
  if (!text.ok()) return FieldError(Reason::kSpecInvalid, path, text.status().message());
  return TrustBundle::FromJson(*text);
}

// Returns the version of a bundle that is made of others: the highest number of them, or the second
// it is made in if that is more, and the earliest end. REQUIRES: there is one.
BundleVersion MergedVersion(const std::vector<BundleVersion>& versions) {
  BundleVersion merged;
  merged.issue_time = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  merged.sequence = std::max<int64_t>(1, absl::ToUnixSeconds(merged.issue_time));
  merged.expire_time = versions.front().expire_time;
  for (const BundleVersion& version : versions) {
    merged.sequence = std::max(merged.sequence, version.sequence + 1);
    merged.expire_time = std::min(merged.expire_time, version.expire_time);
  }
  return merged;
}

// Prints the public keys of several servers as one bundle, signed with the keys of the data folder.
absl::Status Bundle(const Session& session, const KeysFlags& flags) {
  std::vector<std::string> paths = flags.bundle_paths;
  if (!flags.data_folder.empty()) paths.push_back(flags.data_folder + "/trust-bundle.jwks.json");
  if (paths.empty()) {
    return FieldError(Reason::kSpecInvalid, "--data-dir", "give it, or --bundle");
  }
  // Before the bundles are read: a change of the keys meanwhile is noticed.
  std::optional<KeyStore> store;
  if (!flags.data_folder.empty() && paths.size() > 1) {
    PARPLAN_ASSIGN_OR_RETURN(store, KeyStore::Open(flags.data_folder, absl::Now()));
  }
  if (paths.size() == 1) {
    // Unchanged, since the server signed it.
    PARPLAN_ASSIGN_OR_RETURN(const TrustBundle bundle, ReadBundle(paths.front()));
    return Print(session, bundle.ToJson());
  }
  std::vector<TrustedKey> keys;
  std::vector<BundleVersion> versions;
  for (const std::string& path : paths) {
    PARPLAN_ASSIGN_OR_RETURN(const TrustBundle bundle, ReadBundle(path));
    if (bundle.version().has_value()) versions.push_back(*bundle.version());
    for (const TrustedKey& key : bundle.keys()) {
      // Two bundles of one server, from two days: the later file knows when the window ends. A
      // revoked key stays so.
      const auto known = std::find_if(keys.begin(), keys.end(), [&key](const TrustedKey& other) {
        return other.public_key == key.public_key;
      });
      if (known == keys.end()) {
        keys.push_back(key);
      } else if (!known->is_revoked()) {
        *known = key;
      }
    }
  }
  if (!store.has_value() || versions.size() < paths.size()) {
    Note(session,
         "the bundle has no version, so verifiers do not notice an older one: give the folder of "
         "one "
         "of the servers with --data-dir, and bundles that have a version");
    PARPLAN_ASSIGN_OR_RETURN(const TrustBundle merged, TrustBundle::Create(std::move(keys)));
    return Print(session, merged.ToJson());
  }
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle merged,
                           TrustBundle::Create(std::move(keys), MergedVersion(versions)));
  if (store->HasChanged()) {
    return MakeError(absl::StatusCode::kUnavailable, Reason::kStoreUnavailable,
                     absl::StrCat("the keys of ", flags.data_folder,
                                  " changed while the bundle was made; make it again"));
  }
  return Print(session, store->SignBundle(merged).ToJson());
}

}  // namespace

void AddKeysCommand(shell::Command app, const Session& session, shell::Action& action) {
  auto flags = std::make_shared<KeysFlags>();
  shell::Command keys =
      app.AddCommand("keys", "Shows, makes, rotates and revokes the signing keys of a server");
  keys.Footer(
      "To rotate: `generate` publishes a key that does not sign yet; hand out the bundle; some "
      "days "
      "later `rotate` lets it sign beside the older one, which retires after 7 days.\nExample:\n"
      "  parplan-server keys list --data-dir /var/lib/parplan");
  keys.RequireCommand();
  const auto add = [&](const char* name, const char* help, auto run) {
    shell::Command command = keys.AddCommand(name, help);
    const std::string key = name == std::string("revoke") ? " 3f0a91c2" : "";
    command.Footer(std::string("Example:\n  parplan-server keys ") + name + key +
                   " --data-dir /var/lib/parplan");
    command.AddOption("--data-dir", flags->data_folder, "Data folder of the server").Required();
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
  };
  add("generate", "Make a key that signs from the next rotation on", Generate);
  add("list", "Show the keys", List);
  add("rotate", "Let the key of `generate`, or a new one, sign", Rotate);
  add("revoke", "Take a key back, at once and for good: it leaked, or may have", Revoke);
  keys.GetCommand("revoke")
      .AddOption("key", flags->key_id, "Id of the key, or its first 8 or more digits")
      .Required();
  add("bundle", "Print the public keys of one or several servers as one bundle", Bundle);
  shell::Command bundle = keys.GetCommand("bundle");
  bundle.GetOption("--data-dir").Required(false);
  bundle
      .AddOption("--bundle", flags->bundle_paths,
                 "Bundles of other servers to include; if two have a key, the later one counts")
      .TypeName("FILE");
}

}  // namespace parplan
