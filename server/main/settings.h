// Settings of parplan-server, read from a configuration file and from flags, which take precedence.
// main.cc reads them; `parplan-server access` reads the file alone (config_file.h).
// settings_rules.h has the rules of their values.

#ifndef PARPLAN_SERVER_MAIN_SETTINGS_H_
#define PARPLAN_SERVER_MAIN_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/authorizer.h"
#include "server/access/policy.h"
#include "server/core/limits.h"
#include "server/rpc/server_credentials.h"

namespace parplan {

// The quota of an identity or a cluster, with the names of the configuration file; 0 for no limit.
struct QuotaSettings {
  // Bytes of profiles, plans and specs; bytes of executions with their windows; plans; connected
  // agents.
  int64_t stored_bytes = 0;
  int64_t execution_bytes = 0;
  int64_t plans = 0;
  int agents = 0;
  // Absent: the default, which for an identity depends on the number of workers (`LimitsOf`); for a
  // cluster it is no limit.
  std::optional<int> running_searches;
  // Searches that may wait.
  int queued_searches = 0;
};

// `ServiceAccounts` of the configuration: a file with a `WebKeySet`, and the values that tokens
// must have (`TokenVerifier::Rules`).
struct ServiceAccountSettings {
  std::string key_set_file;
  std::string issuer;
  std::string audience;
};

// Plain data. proto/parplan/config/v1/server_config.proto documents the fields that the file may
// have.
struct Settings {
  // Addresses of the API (HOST:PORT or unix:PATH), of the metrics (HOST:PORT, plain HTTP) and of
  // the health protocol without TLS. For the last two `off` means none; `ReadSettings` makes it
  // empty.
  std::string listen = "127.0.0.1:9477";
  std::string metrics_listen = "127.0.0.1:9478";
  std::string health_listen = "off";
  // Folder of the signing keys, and of the store if `store` is empty. `ReadSettings` begins with
  // `DefaultStateFolder("parplan")`, and refuses an empty one.
  std::string data_dir;
  // An address for `ParseStoreAddress`; empty for `sqlite:{data_dir}`.
  std::string store;
  // Empty for a server without TLS.
  TlsFiles tls;
  // `insecure`: other machines may reach `listen` without TLS, and `metrics_listen`;
  // `insecure_metrics`: only the latter.
  bool insecure = false;
  bool insecure_metrics = false;
  // Absent: as `AllowsAllCallers` says.
  std::optional<bool> allow_all_callers;
  // `dns` and `cn`, the preferred first: names of certificates that count. Empty for both.
  std::vector<std::string> certificate_names;
  // Absent if tokens are not read.
  std::optional<ServiceAccountSettings> service_accounts;
  // Whether the users of the Unix socket are identities.
  bool unix_users = false;
  // Absent if the file has no `authorization`.
  std::optional<std::vector<Grant>> grants;
  // Path of the audit log; empty for none.
  std::string audit_file;
  // Whether changes are refused while the audit log cannot be written.
  bool audit_required = false;
  // `LimitsOf` adds the quotas.
  Limits limits;
  // 2 and 8 GiB, and 512 MiB and 1 GiB for executions, so that neither an identity nor a cluster
  // fills a volume of 10 GiB, as the manifests have it. 100,000 plans are those of a day with more
  // than one job a second; 1,024 agents share a certificate at most.
  QuotaSettings identity_quota = {.stored_bytes = int64_t{2} << 30,
                                  .execution_bytes = int64_t{512} << 20,
                                  .plans = 100000,
                                  .agents = 1024};
  QuotaSettings cluster_quota = {.stored_bytes = int64_t{8} << 30,
                                 .execution_bytes = int64_t{1} << 30};
  // Deadline of calls that have none, and time that calls in progress get when the server ends.
  absl::Duration default_deadline = absl::Minutes(10);
  absl::Duration drain_time = absl::Seconds(20);
  // Time that clients have to notice that the server ends. Not measured; clients that watch the
  // health protocol need one round trip.
  absl::Duration drain_pause = absl::Milliseconds(300);
  // `trace`, `debug`, `info`, `warning`, `error` or `off`; `json` or `text`.
  std::string log_level = "info";
  std::string log_format = "json";
  // Whether to check the settings and end.
  bool check_only = false;
  // Files that get the ports the server listens on; empty for none.
  std::string port_file;
  std::string metrics_port_file;
  std::string health_port_file;
};

// Reads the configuration file, if `--config` names one, then the flags, and checks the ranges of
// all values and the file of keys of service accounts; the files of TLS are not looked at. Returns
// the exit code instead, 0 after `--help` and `--version` and 2 for invalid settings; the text for
// it is printed. May be called again, to read changed files.
std::variant<Settings, int> ReadSettings(int argc, const char* const* argv);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SETTINGS_H_
