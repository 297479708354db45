#include "server/main/settings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/service/listen/listen_address.h"
#include "base/service/shell/completion/completion.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/empty_text.h"
#include "base/service/shell/state_folder.h"
#include "base/status_macros.h"
#include "base/system/machine_memory.h"
#include "base/system/posix_file.h"
#include "proto/wire/version.h"
#include "server/access/token_verifier.h"
#include "server/access/web_key_set.h"
#include "server/core/search_pool.h"
#include "server/main/admin_commands.h"
#include "server/main/config_file.h"
#include "server/store/store_address.h"

namespace parplan {
namespace {

constexpr int kUsageError = 2;
constexpr int kMaxWorkerCount = 256;
constexpr int kMaxDefaultWorkerCount = 8;
constexpr int kMaxQueueLength = 100000;
// That of an API server has a few keys, of some 500 bytes each.
constexpr size_t kMaxKeySetBytes = size_t{1} << 20;

constexpr char kServerFooter[] = R"(
Durations are written like 30s, 5m or 24h.

Without a command: serves until a signal ends it.

Example: a server for this machine, then one for a cluster
  parplan-server
  parplan-server --listen 0.0.0.0:9477 --data-dir /var/lib/parplan \
      --tls-certificate server.pem --tls-key server.key --tls-client-ca clients.pem

What callers of the second may do is in its configuration file: docs/security.md

One of several servers that share a database; its password comes from PGPASSFILE
  parplan-server --listen 0.0.0.0:9477 --data-dir /var/lib/parplan \
      --store postgres://parplan@db.example/parplan \
      --tls-certificate server.pem --tls-key server.key --tls-client-ca clients.pem

Signals
  SIGTERM, SIGINT  end when the calls in progress have their answers; a second
                   one ends at once
  SIGHUP           read the signing keys again, and log_level and authorization of
                   the configuration file unless a flag sets them; open the audit
                   file again; log TLS files that are invalid

Exit codes
  0        ended by a signal, every call answered; with --check-config: valid
  1        could not start: the log says why
  2        wrong flag or configuration file
  130/143  ended at once by a second SIGINT or SIGTERM)";

void AddFlags(CLI::App& app, Settings& settings, std::string& config_path) {
  // If a flag is given twice, the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--config", config_path, "Configuration file, proto JSON; flags take precedence")
      ->type_name("FILE");
  app.add_flag("--check-config", settings.check_only,
               "Check flags, configuration file and TLS files, and end");
  app.add_option("--listen", settings.listen, "HOST:PORT or unix:PATH; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--metrics-listen", settings.metrics_listen,
                 "HOST:PORT for Prometheus (plain HTTP), `off` for none")
      ->capture_default_str();
  app.add_option("--health-listen", settings.health_listen,
                 "HOST:PORT or unix:PATH of a second port that serves health alone, without TLS, "
                 "for probes without a certificate; `off` for none")
      ->capture_default_str();
  app.add_option("--data-dir", settings.data_dir, "Folder for the signing keys and the store")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_option("--store", settings.store,
                 "sqlite:FOLDER or postgres://USER@HOST/DATABASE [sqlite: in --data-dir]")
      ->type_name("ADDRESS");
  app.add_option("--tls-certificate", settings.tls.certificate, "The server's certificates, PEM")
      ->type_name("FILE");
  app.add_option("--tls-key", settings.tls.key, "The server's key, PEM")->type_name("FILE");
  app.add_option("--tls-client-ca", settings.tls.client_ca,
                 "Accept only callers with a certificate of these CAs, PEM")
      ->type_name("FILE");
  app.add_flag("--insecure,!--no-insecure", settings.insecure,
               "Allow other machines to reach a server without TLS");
  app.add_flag(
      "--insecure-metrics,!--no-insecure-metrics", settings.insecure_metrics,
      "Allow other machines to read metrics, which are plain HTTP; --insecure does so too");
  // The flag is of its own type: CLI11 would make an optional of it that is always set.
  app.add_flag_function(
      "--allow-all-callers,!--no-allow-all-callers",
      [&settings](int64_t count) { settings.allow_all_callers = count > 0; },
      "Let every caller do everything; the default without --tls-client-ca. With it, "
      "`authorization` in the configuration file says who may do what");
  app.add_option("--audit-file", settings.audit_file,
                 "Append a line for each change, signature and refusal to this file")
      ->type_name("FILE");
  app.add_flag("--audit-required,!--no-audit-required", settings.audit_required,
               "Refuse changes while the audit file cannot be written");
  app.add_option("--workers", settings.limits.worker_count,
                 "Threads that search [one for each processor, at most 8]");
  app.add_option("--search-memory", settings.limits.search_memory_bytes,
                 "Bytes of all running searches [half of the memory of the machine or control "
                 "group]");
  app.add_option("--queue-length", settings.limits.max_queue_length, "Searches that may wait")
      ->capture_default_str();
  AddDurationFlag(app, "--plan-ttl", settings.limits.default_time_to_live,
                  "How long a plan is valid if the caller does not say [24h]");
  AddDurationFlag(app, "--max-plan-ttl", settings.limits.max_time_to_live,
                  "How long a plan is valid at most [720h]");
  AddDurationFlag(app, "--max-search-time", settings.limits.max_search_duration,
                  "Longest search [5m]");
  AddDurationFlag(app, "--default-deadline", settings.default_deadline,
                  "Deadline of calls that have none [10m]");
  AddDurationFlag(app, "--execution-silence", settings.limits.longest_execution_silence,
                  "Mark an execution as failed after this time without a report [6h]");
  AddDurationFlag(app, "--execution-retention", settings.limits.execution_retention,
                  "Delete an execution this time after it ended [8760h]");
  AddDurationFlag(app, "--drain-time", settings.drain_time,
                  "How long calls may go on after SIGTERM [20s]");
  app.add_option("--profiles-per-node", settings.limits.profiles_per_node,
                 "Profiles kept of each node, device, precision and runtime; 0 keeps all")
      ->capture_default_str();
  app.add_option("--max-upload-bytes", settings.limits.max_upload_bytes,
                 "Largest upload; above 128 MiB the memory for uploads is twice as much")
      ->capture_default_str();
  app.add_option("--log-level", settings.log_level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.add_option("--log-format", settings.log_format, "json or text")->capture_default_str();
  app.add_option("--port-file", settings.port_file, "Write the port of --listen to this file")
      ->type_name("FILE");
  app.add_option("--metrics-port-file", settings.metrics_port_file,
                 "Write the port of --metrics-listen to this file")
      ->type_name("FILE");
  app.add_option("--health-port-file", settings.health_port_file,
                 "Write the port of --health-listen to this file")
      ->type_name("FILE");
}

absl::Status CheckRange(const char* field, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("is ", value, "; must be ", lowest, " to ", highest));
}

absl::Status CheckQuota(const std::string& kind, const QuotaSettings& quota) {
  // No value above these means anything: 4 EiB, and more records or searches than there can be.
  constexpr int64_t kMost = int64_t{1} << 62;
  const std::string field = absl::StrCat("quotas.", kind, ".");
  const auto check = [&field](const char* name, int64_t value, int64_t highest) {
    return CheckRange(absl::StrCat(field, name).c_str(), value, 0, highest);
  };
  PARPLAN_RETURN_IF_ERROR(check("stored_bytes", quota.stored_bytes, kMost));
  PARPLAN_RETURN_IF_ERROR(check("execution_bytes", quota.execution_bytes, kMost));
  PARPLAN_RETURN_IF_ERROR(check("plans", quota.plans, kMost));
  PARPLAN_RETURN_IF_ERROR(check("agents", quota.agents, INT32_MAX));
  PARPLAN_RETURN_IF_ERROR(check("running_searches", quota.running_searches.value_or(0), INT32_MAX));
  return check("queued_searches", quota.queued_searches, INT32_MAX);
}

QuotaLimits ToLimits(const QuotaSettings& quota, int default_running) {
  return {.stored_bytes = quota.stored_bytes,
          .execution_bytes = quota.execution_bytes,
          .plan_count = quota.plans,
          .agent_count = quota.agents,
          .running_search_count = quota.running_searches.value_or(default_running),
          .queued_search_count = quota.queued_searches};
}

absl::Status CheckDuration(const char* field, absl::Duration value, absl::Duration longest) {
  if (value > absl::ZeroDuration() && value <= longest) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("is ", absl::FormatDuration(value),
                                 "; must be above 0 and at most ", absl::FormatDuration(longest)));
}

// Checks the retention of executions. One that fell silent may report again: it must still be there
// a day later, a time in which a job, a node or a network that was away comes back. Not measured.
absl::Status CheckRetention(absl::Duration retention, absl::Duration silence) {
  if (retention == absl::ZeroDuration()) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(
      CheckDuration("execution_retention", retention, absl::Hours(24 * 366 * 100)));
  const absl::Duration shortest = silence + absl::Hours(24);
  if (retention >= shortest) return absl::OkStatus();
  return FieldError(
      Reason::kSpecInvalid, "execution_retention",
      absl::StrCat("is ", absl::FormatDuration(retention), "; must be at least ",
                   absl::FormatDuration(shortest), ", a day more than execution_silence (",
                   absl::FormatDuration(silence),
                   "), so that executions that fell silent can report again; or 0 in the "
                   "configuration file, which keeps all"));
}

absl::Status CheckChoice(const char* field, const std::string& value,
                         std::initializer_list<const char*> choices) {
  std::string all;
  for (const char* const choice : choices) {
    if (value == choice) return absl::OkStatus();
    absl::StrAppend(&all, all.empty() ? "" : ", ", choice);
  }
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("is `", value, "`; must be one of ", all));
}

absl::Status CheckSettings(const Settings& settings) {
  PARPLAN_RETURN_IF_ERROR(CheckListenAddress(settings.listen));
  if (settings.data_dir.empty()) {
    return FieldError(Reason::kSpecInvalid, "data_dir",
                      "is empty; name a folder with --data-dir (without XDG_STATE_HOME and HOME "
                      "it has no default)");
  }
  if (settings.metrics_listen.empty()) {
    return FieldError(Reason::kSpecInvalid, "metrics_listen",
                      "is empty; write HOST:PORT, or `off` for none");
  }
  // Prometheus reads no sockets.
  if (settings.metrics_listen != "off" && (absl::StartsWith(settings.metrics_listen, "unix:") ||
                                           !CheckListenAddress(settings.metrics_listen).ok())) {
    return FieldError(Reason::kSpecInvalid, "metrics_listen",
                      absl::StrCat("`", settings.metrics_listen,
                                   "` is no address for metrics; give --metrics-listen HOST:PORT "
                                   "such as 127.0.0.1:9478, or `off` for none"));
  }
  if (settings.health_listen != "off") {
    PARPLAN_RETURN_IF_ERROR(CheckListenAddress(settings.health_listen, "health_listen"));
  }
  if (!settings.store.empty()) {
    PARPLAN_RETURN_IF_ERROR(ParseStoreAddress(settings.store, "store").status());
  }
  PARPLAN_RETURN_IF_ERROR(AccessRulesOf(settings).status());
  if (settings.audit_required && settings.audit_file.empty()) {
    return FieldError(Reason::kSpecInvalid, "audit_required",
                      "needs an audit file; name one with --audit-file");
  }
  const Limits& limits = settings.limits;
  const absl::Duration year = absl::Hours(24 * 366);
  PARPLAN_RETURN_IF_ERROR(CheckRange("workers", limits.worker_count, 1, kMaxWorkerCount));
  PARPLAN_RETURN_IF_ERROR(CheckRange("search_memory", limits.search_memory_bytes,
                                     SearchPool::kMinSearchBytes, int64_t{1} << 50));
  PARPLAN_RETURN_IF_ERROR(CheckRange("queue_length", limits.max_queue_length, 1, kMaxQueueLength));
  PARPLAN_RETURN_IF_ERROR(CheckRange("profiles_per_node", limits.profiles_per_node, 0, INT32_MAX));
  PARPLAN_RETURN_IF_ERROR(
      CheckRange("max_upload_bytes", limits.max_upload_bytes, 1024, int64_t{1} << 30));
  PARPLAN_RETURN_IF_ERROR(CheckQuota("identity", settings.identity_quota));
  PARPLAN_RETURN_IF_ERROR(CheckQuota("cluster", settings.cluster_quota));
  PARPLAN_RETURN_IF_ERROR(CheckDuration("max_plan_ttl", limits.max_time_to_live, year));
  PARPLAN_RETURN_IF_ERROR(
      CheckDuration("plan_ttl", limits.default_time_to_live, limits.max_time_to_live));
  PARPLAN_RETURN_IF_ERROR(
      CheckDuration("max_search_time", limits.max_search_duration, absl::Hours(24)));
  PARPLAN_RETURN_IF_ERROR(
      CheckDuration("default_deadline", settings.default_deadline, absl::Hours(48)));
  PARPLAN_RETURN_IF_ERROR(
      CheckDuration("execution_silence", limits.longest_execution_silence, year));
  PARPLAN_RETURN_IF_ERROR(
      CheckRetention(limits.execution_retention, limits.longest_execution_silence));
  PARPLAN_RETURN_IF_ERROR(CheckDuration("drain_time", settings.drain_time, absl::Hours(1)));
  PARPLAN_RETURN_IF_ERROR(CheckChoice("log_level", settings.log_level,
                                      {"trace", "debug", "info", "warning", "error", "off"}));
  return CheckChoice("log_format", settings.log_format, {"json", "text"});
}

// Checks that some caller could come with a token. A server with `tls_client_ca` takes no
// connection without a certificate, whose caller is the certificate, and a token that anybody on
// the way could have read is refused.
absl::Status CheckTokenTransport(const Settings& settings) {
  const char* const field = "authorization.service_accounts";
  if (!settings.tls.client_ca.empty()) {
    return FieldError(Reason::kSpecInvalid, field,
                      "no caller can use a token on a server with tls_client_ca, which needs "
                      "certificates; leave one of them out, or run a second server for tokens");
  }
  if (settings.tls.certificate.empty() && !absl::StartsWith(settings.listen, "unix:")) {
    return FieldError(
        Reason::kSpecInvalid, field,
        "tokens are refused over TCP without TLS; set tls_certificate and tls_key, or "
        "listen on unix:PATH");
  }
  return absl::OkStatus();
}

// Returns a verifier with the keys that the file has now.
absl::StatusOr<std::shared_ptr<const TokenVerifier>> TokensOf(
    const ServiceAccountSettings& accounts) {
  const std::string field = "authorization.service_accounts.";
  for (const auto& [name, value] :
       {std::pair("key_set_file", &accounts.key_set_file), std::pair("issuer", &accounts.issuer),
        std::pair("audience", &accounts.audience)}) {
    if (value->empty()) return FieldError(Reason::kSpecInvalid, field + name, "is required");
  }
  // A pipe would have nothing left for the next reading.
  const absl::StatusOr<std::string> text =
      ReadFile(accounts.key_set_file, {.max_bytes = kMaxKeySetBytes});
  if (!text.ok()) {
    return FieldError(Reason::kSpecInvalid, field + "key_set_file", text.status().message());
  }
  PARPLAN_ASSIGN_OR_RETURN(WebKeySet keys, WebKeySet::Create(*text, field + "key_set_file"));
  return std::make_shared<const TokenVerifier>(
      TokenVerifier::Rules{.issuer = accounts.issuer, .audience = accounts.audience},
      std::move(keys));
}

// Returns the configuration file that the arguments name; everything else is read later.
std::string FindConfigPath(int argc, const char* const* argv) {
  CLI::App app;
  std::string path;
  app.set_help_flag();
  app.allow_extras();
  app.add_option("--config", path)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError&) {
    return "";  // The second pass reports the mistake.
  }
  return path;
}

}  // namespace

bool AllowsAllCallers(const Settings& settings) {
  return settings.allow_all_callers.value_or(!settings.grants.has_value() &&
                                             settings.tls.client_ca.empty());
}

Limits LimitsOf(const Settings& settings) {
  Limits limits = settings.limits;
  limits.identity_quota =
      ToLimits(settings.identity_quota, std::max(SearchPool::RunningCount(limits) - 1, 1));
  limits.cluster_quota = ToLimits(settings.cluster_quota, 0);
  return limits;
}

absl::StatusOr<AccessRules> AccessRulesOf(const Settings& settings) {
  AccessRules rules;
  if (!settings.certificate_names.empty()) rules.name_sources.clear();
  for (const std::string& name : settings.certificate_names) {
    PARPLAN_RETURN_IF_ERROR(CheckChoice("authorization.certificate_names", name, {"dns", "cn"}));
    rules.name_sources.push_back(name == "dns" ? NameSource::kDns : NameSource::kCommonName);
  }
  if (AllowsAllCallers(settings)) {
    if (settings.grants.has_value()) {
      return FieldError(Reason::kSpecInvalid, "allow_all_callers",
                        "contradicts `authorization`, which grants roles; leave one of them out");
    }
    return rules;
  }
  if (settings.service_accounts.has_value()) {
    PARPLAN_RETURN_IF_ERROR(CheckTokenTransport(settings));
    PARPLAN_ASSIGN_OR_RETURN(rules.tokens, TokensOf(*settings.service_accounts));
  }
  PARPLAN_ASSIGN_OR_RETURN(
      rules.policy,
      Policy::Create(settings.grants.value_or(std::vector<Grant>()), "authorization.grants"));
  return rules;
}

std::variant<Settings, int> ReadSettings(int argc, const char* const* argv) {
  Settings settings;
  settings.data_dir = DefaultStateFolder("parplan");
  settings.limits.worker_count =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxDefaultWorkerCount);
  settings.limits.search_memory_bytes =
      std::max(UsableMemoryBytes() / 2, SearchPool::kMinSearchBytes);
  absl::Status status;
  std::string config_path = FindConfigPath(argc, argv);
  if (!config_path.empty()) status = ReadConfigFile(config_path, settings);

  CLI::App app(
      "Plans how to train models on many GPUs: takes measurements in, gives signed "
      "plans out.",
      "parplan-server");
  app.set_version_flag("--version", std::string("parplan-server ") + kVersion);
  shell::AddCompletionOption(app);
  app.footer(kServerFooter);
  AddFlags(app, settings, config_path);
  // Only the help uses these commands: `RunAdminCommand` runs them.
  shell::Session unused_session;
  shell::Action unused_action;
  AddKeysCommand(app, unused_session, unused_action);
  AddStoreCommand(app, unused_session, unused_action);
  AddAccessCommand(app, unused_session, unused_action);
  AddAuditCommand(app, unused_session, unused_action);
  try {
    app.parse(argc, argv);
    shell::RefuseEmptyTexts(app);
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : kUsageError;
  }
  if (!app.get_subcommands().empty()) {
    std::cerr << "parplan-server: `" << app.get_subcommands().front()->get_name()
              << "` must be the first argument; the flags of a server do not go with it\n";
    return kUsageError;
  }
  if (status.ok()) status = CheckSettings(settings);
  for (std::string* const address : {&settings.metrics_listen, &settings.health_listen}) {
    if (*address == "off") address->clear();
  }
  if (!status.ok()) {
    std::cerr << "parplan-server: " << std::string(status.message()) << "\n";
    return kUsageError;
  }
  // One uploader has at most half of that memory.
  settings.limits.max_upload_memory_bytes =
      std::max(settings.limits.max_upload_memory_bytes, 2 * settings.limits.max_upload_bytes);
  return settings;
}

}  // namespace parplan
