// `parplan-server keys generate|list|rotate|bundle`: the signing keys of a server, in its data
// folder.

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
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
  std::vector<std::string> bundle_paths;
};

std::string Day(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string StatusName(KeyStatus status) {
  switch (status) {
    case KeyStatus::kNext:
      return "next";
    case KeyStatus::kActive:
      return "active";
    case KeyStatus::kRetired:
      return "retired";
  }
  return "";
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
                                {"status", StatusName(key.status)},
                                {"not_before", Day(key.not_before)},
                                {"not_after", Day(key.not_after)}});
    }
    return Print(session, object.dump(2) + "\n");
  }
  std::string text;
  for (const KeyInfo& key : keys) {
    absl::StrAppendFormat(&text, "%s  %-8s %s to %s%s\n", key.key_id, StatusName(key.status),
                          Day(key.not_before), Day(key.not_after),
                          key.key_id == changed ? "  (new)" : "");
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

absl::StatusOr<TrustBundle> ReadBundle(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(
      path, {.max_bytes = kMaxBundleBytes, .takes_any_kind = true, .takes_standard_input = true});
  if (!text.ok()) return FieldError(Reason::kSpecInvalid, path, text.status().message());
  return TrustBundle::FromJson(*text);
}

// Prints the public keys of several servers as one bundle. Only reads files: the folders may be
// mounted read-only.
absl::Status Bundle(const Session& session, const KeysFlags& flags) {
  std::vector<std::string> paths = flags.bundle_paths;
  if (!flags.data_folder.empty()) paths.push_back(flags.data_folder + "/trust-bundle.jwks.json");
  if (paths.empty()) {
    return FieldError(Reason::kSpecInvalid, "--data-dir", "give it, or --bundle");
  }
  std::vector<TrustedKey> keys;
  for (const std::string& path : paths) {
    PARPLAN_ASSIGN_OR_RETURN(const TrustBundle bundle, ReadBundle(path));
    for (const TrustedKey& key : bundle.keys()) {
      // Two bundles of one server, from two days: the later file knows when the window ends.
      const auto known = std::find_if(keys.begin(), keys.end(), [&key](const TrustedKey& other) {
        return other.public_key == key.public_key;
      });
      if (known == keys.end()) {
        keys.push_back(key);
      } else {
        *known = key;
      }
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const TrustBundle merged, TrustBundle::Create(std::move(keys)));
  return Print(session, merged.ToJson());
}

}  // namespace

void AddKeysCommand(shell::Command app, const Session& session, shell::Action& action) {
  auto flags = std::make_shared<KeysFlags>();
  shell::Command keys =
      app.AddCommand("keys", "Shows, makes and rotates the signing keys of a server");
  keys.Footer(
      "To rotate: `generate` publishes a key that does not sign yet; hand out the bundle; some "
      "days "
      "later `rotate` lets it sign beside the older one, which retires after 7 days.\nExample:\n"
      "  parplan-server keys list --data-dir /var/lib/parplan");
  keys.RequireCommand();
  const auto add = [&](const char* name, const char* help, auto run) {
    shell::Command command = keys.AddCommand(name, help);
    command.Footer(std::string("Example:\n  parplan-server keys ") + name +
                   " --data-dir /var/lib/parplan");
    command.AddOption("--data-dir", flags->data_folder, "Data folder of the server").Required();
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
  };
  add("generate", "Make a key that signs from the next rotation on", Generate);
  add("list", "Show the keys", List);
  add("rotate", "Let the key of `generate`, or a new one, sign", Rotate);
  add("bundle", "Print the public keys of one or several servers as one bundle", Bundle);
  shell::Command bundle = keys.GetCommand("bundle");
  bundle.GetOption("--data-dir").Required(false);
  bundle
      .AddOption("--bundle", flags->bundle_paths,
                 "Bundles of other servers to include; if two have a key, the later one counts")
      .TypeName("FILE");
}

}  // namespace parplan
