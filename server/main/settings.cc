#include "server/main/settings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "base/service/shell/completion/completion.h"
#include "base/service/shell/duration_flag.h"
#include "base/service/shell/empty_text.h"
#include "base/service/shell/state_folder.h"
#include "base/status_macros.h"
#include "base/system/machine_memory.h"
#include "proto/wire/version.h"
#include "server/core/search_pool.h"
#include "server/main/admin_commands.h"
#include "server/main/config_file.h"
#include "server/main/settings_rules.h"

namespace parplan {
namespace {

constexpr int kUsageError = 2;
constexpr int kMaxDefaultWorkerCount = 8;

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
  app.add_option("--tls-crl-folder", settings.tls.crl_folder,
                 "Refuse certificates that the lists of these CAs revoke, PEM, named by "
                 "`openssl rehash`")
      ->type_name("FOLDER");
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
