// parplan-server: reads its settings, puts the parts together, and waits for a signal to take them
// apart; or runs one of the commands of admin_commands.h.

#include <prometheus/registry.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/listen/connection_gate.h"
#include "base/service/listen/listen_address.h"
#include "base/service/metrics/build_metrics.h"
#include "base/service/metrics/certificate_metrics.h"
#include "base/service/metrics/exposer.h"
#include "base/service/metrics/process_metrics.h"
#include "base/service/shell/port_file.h"
#include "base/status_macros.h"
#include "base/system/machine_memory.h"
#include "base/system/memory_account.h"
#include "base/system/steady_clock.h"
#include "planner/find_plan.h"
#include "proto/envelope/key_store.h"
#include "proto/wire/version.h"
#include "server/access/authorizer.h"
#include "server/audit/audit_file.h"
#include "server/core/key_ring.h"
#include "server/core/search_pool.h"
#include "server/core/server_core.h"
#include "server/main/admin_commands.h"
#include "server/main/grpc_log.h"
#include "server/main/server_log.h"
#include "server/main/service_manager.h"
#include "server/main/settings.h"
#include "server/main/settings_rules.h"
#include "server/main/signals.h"
#include "server/main/state_watch.h"
#include "server/main/tls_check.h"
#include "server/main/upkeep.h"
#include "server/metrics/prometheus_observer.h"
#include "server/rpc/hearing_watch.h"
#include "server/rpc/method_names.h"
#include "server/rpc/rpc_server.h"
#include "server/store/store_address.h"

namespace parplan {
namespace {

// Returns the physical memory of the process above which idle connections are to end: more than it
// takes with searches, uploads and requests at their limits, so that those alone end none.
int64_t ResidentLimit(const Limits& limits) {
  // Uploads, requests and messages in progress may have 256 MB each (docs/operations.md).
  constexpr int64_t kOthers = int64_t{768} << 20;
  const int64_t usable = UsableMemoryBytes();
  const int64_t of_searches = std::min(usable, limits.search_memory_bytes) +
                              limits.worker_count * MemoryAccount::kMostAbove;
  return std::max(usable / 4 * 3, std::min(usable / 10 * 9, of_searches + kOthers));
}

constexpr int kCannotStart = 1;

// Creates the folders above the data directory; the store creates the last one.
absl::Status MakeParents(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(
      std::filesystem::absolute(directory).lexically_normal().parent_path(), error);
  if (!error) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                   absl::StrCat("cannot make the folder above ", directory, ": ", error.message(),
                                "; give another one with --data-dir"));
}

// Returns the data directory without a `/` at its end.
std::string DataFolder(const Settings& settings) {
  std::string directory = settings.data_dir;
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  return directory;
}

absl::StatusOr<StoreAddress> AddressOf(const Settings& settings) {
  if (!settings.store.empty()) return ParseStoreAddress(settings.store, "store");
  StoreAddress address;
  address.directory = DataFolder(settings);
  return address;
}

absl::StatusOr<std::unique_ptr<ServerCore>> OpenCore(const Settings& settings,
                                                     const StoreAddress& address,
                                                     Observer& observer, AuditSink& audit) {
  const std::string directory = DataFolder(settings);
  PARPLAN_RETURN_IF_ERROR(MakeParents(directory));
  if (address.kind == StoreAddress::Kind::kSqlite) {
    PARPLAN_RETURN_IF_ERROR(MakeParents(address.directory));
  }
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(address));
  const absl::Time now = absl::Now();
  KeyStore::Options key_options;
  key_options.retention = std::max(key_options.retention, settings.limits.max_time_to_live);
  PARPLAN_ASSIGN_OR_RETURN(KeyStore keys, KeyStore::OpenOrCreate(directory, now, key_options));
  return std::make_unique<ServerCore>(
      std::move(store), std::make_unique<KeyRing>(std::move(keys), now), LimitsOf(settings),
      Clock::Real(), observer, &FindPlan, OpenTurns(address), audit);
}

// Returns the address with the port that was bound.
std::string BoundAddress(const std::string& address, int port) {
  if (address.rfind("unix:", 0) == 0) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

int Refuse(const ServerLog& log, const absl::Status& status) {
  log.Error("cannot start", {{"message", std::string(status.message())}});
  return kCannotStart;
}

// A service manager that does not listen any more does not stop the server.
void Announce(const std::string& state, const ServerLog& log) {
  const absl::Status notified = NotifyServiceManager(state);
  if (!notified.ok()) log.Warn("service manager", {{"message", std::string(notified.message())}});
}

// Reads the command line and the configuration file again. Returns nothing if they are invalid now,
// which it reports to standard error.
using SettingsReader = std::function<std::optional<Settings>()>;

// The parts that a signal or the end of the server concerns.
struct Served {
  std::unique_ptr<AuditFile> audit;  // Null without an audit file; outlives the core.
  std::shared_ptr<Authorizer> authorizer;
  std::unique_ptr<ServerCore> core;
};

// `started` are the settings that the server started with. Its TLS files are in use until it ends,
// so whether callers have certificates does not change either.
void ReadAgain(const Settings& started, const SettingsReader& read, ServerLog& log,
               Served& served) {
  std::optional<Settings> settings = read();
  if (settings.has_value()) {
    log.SetLevel(settings->log_level);
    if (settings->tls != started.tls) {
      log.Error("tls settings not read again",
                {{"message",
                  "tls_certificate, tls_key, tls_client_ca or tls_crl_folder changed; the server "
                  "goes on with the "
                  "files, and the need for certificates, that it started with: restart it"}});
      settings->tls = started.tls;
    }
    // The settings passed, but the key set may have changed since, or not go with the TLS files.
    absl::StatusOr<AccessRules> rules = AccessRulesOf(*settings);
    if (rules.ok()) {
      served.authorizer->Replace(*std::move(rules));
    } else {
      log.Error("authorization not read again",
                {{"message", std::string(rules.status().message())}});
    }
  } else {
    log.Warn("configuration not read again",
             {{"message", "it is invalid; log_level and authorization are kept"}});
  }
  if (served.audit != nullptr) {
    const absl::Status opened = served.audit->Reopen();
    if (!opened.ok()) {
      log.Error("audit file not opened again", {{"message", std::string(opened.message())}});
    }
  }
  const absl::Status status = served.core->keys().Reload(absl::Now());
  if (status.ok()) {
    log.Info("keys read again", {{"message", ""}});
  } else {
    log.Warn("keys not read again", {{"message", std::string(status.message())}});
  }
}

// Logs the last line of the audit log, so that lines missing at its end show.
void LogAuditHead(const ServerLog& log, const Served& served) {
  if (served.audit == nullptr) return;
  served.audit->Flush();
  const AuditHead head = served.audit->head();
  log.Info("audit", {{"last_sequence", head.sequence}, {"head", head.digest}});
}

// Serves until a signal ends it. Returns 0 after a drain.
int WaitAndDrain(const Settings& settings, const Signals& signals, const SettingsReader& read,
                 ServerLog& log, Served& served, RpcServer& server) {
  int signal = 0;
  StateWatch state(log, *served.core, server);
  std::unique_ptr<HearingWatch> hearing = WatchHearing(log, server);
  Upkeep upkeep({.maintain =
                     [&log, &served] {
                       const absl::Status status = served.core->Maintain();
                       if (!status.ok()) {
                         log.Warn("maintenance", {{"message", std::string(status.message())}});
                       }
                       // Logged once for calls that follow each other.
                       if (served.core->has_more_to_maintain()) return true;
                       LogAuditHead(log, served);
                       return false;
                     },
                 .look = [&state] { state.Look(); },
                 .maintain_interval = served.core->maintenance_interval(),
                 .look_interval = StateWatch::kLookInterval});
  while (signal != SIGINT && signal != SIGTERM) {
    signal = signals.Next(absl::Hours(1));
    if (signal == SIGHUP) {
      // Without memory for a moment the server goes on with what it has.
      try {
        ReadAgain(settings, read, log, served);
      } catch (const std::exception& error) {
        log.Error("configuration not read again", {{"message", error.what()}});
      }
      upkeep.MaintainNow();
    }
  }
  signals.EndAtOnceOnNext();
  upkeep.Stop();
  hearing.reset();
  log.Info("draining", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
  Announce("STOPPING=1", log);
  const absl::Duration start = SteadyNow();
  server.Drain(settings.drain_pause, settings.drain_time);
  LogAuditHead(log, served);
  log.Info("ended", {{"duration_seconds", absl::ToDoubleSeconds(SteadyNow() - start)}});
  return 0;
}

// Returns the options that can be checked before anything is opened.
RpcServerOptions RpcOptionsOf(const Settings& settings) {
  RpcServerOptions options;
  options.listen_address = settings.listen;
  options.health_listen_address = settings.health_listen;
  options.tls = settings.tls;
  options.allow_insecure = settings.insecure;
  options.default_deadline = settings.default_deadline;
  return options;
}

absl::Status Check(const Settings& settings) {
  PARPLAN_RETURN_IF_ERROR(CheckOptions(RpcOptionsOf(settings)));
  PARPLAN_RETURN_IF_ERROR(CheckTlsFiles(settings.tls, absl::Now()));
  if (settings.metrics_listen.empty() || settings.insecure || settings.insecure_metrics ||
      IsLocalAddress(settings.metrics_listen)) {
    return absl::OkStatus();
  }
  return FieldError(Reason::kSpecInvalid, "--metrics-listen",
                    "metrics are plain HTTP; listen on 127.0.0.1, or let other "
                    "machines read them with --insecure-metrics");
}

int Serve(const Settings& settings, const Signals& signals, const SettingsReader& read,
          ServerLog& log) {
  PrometheusObserver observer(PlannerNames(), MethodNames());
  observer.SetLimits(settings.limits.max_queue_length, SearchPool::RunningCount(settings.limits));
  AddBuildInfo(*observer.registry(), "parplan-server", kVersion);
  const absl::StatusOr<StoreAddress> store = AddressOf(settings);
  if (!store.ok()) return Refuse(log, store.status());
  Served served;
  if (!settings.audit_file.empty()) {
    absl::StatusOr<std::unique_ptr<AuditFile>> audit = AuditFile::Open(
        settings.audit_file,
        {.is_required = settings.audit_required,
         .on_failure = [&log, &observer](const absl::Status& status, int64_t record_count) {
           log.Error("audit",
                     {{"message", std::string(status.message())}, {"record_count", record_count}});
           observer.AuditFailed(record_count);
         }});
    if (!audit.ok()) return Refuse(log, audit.status());
    served.audit = *std::move(audit);
  }
  absl::StatusOr<AccessRules> rules = AccessRulesOf(settings);
  if (!rules.ok()) return Refuse(log, rules.status());
  served.authorizer = std::make_shared<Authorizer>(*std::move(rules));
  absl::StatusOr<std::unique_ptr<ServerCore>> core = OpenCore(
      settings, *store, observer, served.audit == nullptr ? AuditSink::Null() : *served.audit);
  if (!core.ok()) return Refuse(log, core.status());
  served.core = *std::move(core);

  std::unique_ptr<MetricsExposer> exposer;
  if (!settings.metrics_listen.empty()) {
    absl::StatusOr<std::unique_ptr<MetricsExposer>> started = MetricsExposer::Start(
        settings.metrics_listen, {observer.registry(), MakeProcessMetrics(),
                                  MakeCertificateMetrics({{"certificate", settings.tls.certificate},
                                                          {"client_ca", settings.tls.client_ca}})});
    if (!started.ok()) return Refuse(log, started.status());
    exposer = *std::move(started);
  }

  RpcServerOptions options = RpcOptionsOf(settings);
  options.connections = LimitsForDescriptors(RaiseDescriptorLimit());
  options.connections.max_resident_bytes = ResidentLimit(settings.limits);
  options.logger = [&log](const CallRecord& record) { log.LogCall(record); };
  options.authorizer = served.authorizer;
  absl::StatusOr<std::unique_ptr<RpcServer>> server = RpcServer::Start(*served.core, options);
  if (!server.ok()) return Refuse(log, server.status());

  const std::string address = BoundAddress(settings.listen, (*server)->port());
  const std::string metrics =
      exposer == nullptr ? "off" : BoundAddress(settings.metrics_listen, exposer->port());
  const std::string health = settings.health_listen.empty()
                                 ? "off"
                                 : BoundAddress(settings.health_listen, (*server)->health_port());
  const std::string bundle = served.core->keys().bundle_path();
  log.Info("listening", {{"version", kVersion},
                         {"address", address},
                         {"tls", settings.tls.empty()             ? "off"
                                 : settings.tls.client_ca.empty() ? "server"
                                                                  : "mutual"},
                         {"callers", AllowsAllCallers(settings) ? "everybody" : "by role"},
                         {"metrics", metrics},
                         {"health", health},
                         {"data_dir", settings.data_dir},
                         {"store", store->ToString()},
                         {"trust_bundle", bundle}});
  if (!AllowsAllCallers(settings) && settings.grants.value_or(std::vector<Grant>()).empty()) {
    log.Warn("nobody may call",
             {{"message",
               "the server authenticates callers (tls_client_ca) and grants them no role; add "
               "`authorization` to the configuration file, or `allow_all_callers` for a server "
               "that trusts every certificate of its CA"}});
  }
  std::cout << "parplan-server listens on " << address
            << "\npublic keys for those who verify: " << bundle << std::endl;
  for (const auto& [path, port] :
       {std::pair(settings.port_file, (*server)->port()),
        std::pair(settings.health_port_file, (*server)->health_port()),
        std::pair(settings.metrics_port_file, exposer == nullptr ? 0 : exposer->port())}) {
    const absl::Status written = WritePortFile(path, port);
    if (!written.ok()) return Refuse(log, written);
  }
  Announce("READY=1", log);
  return WaitAndDrain(settings, signals, read, log, served, **server);
}

int Run(int argc, char** argv, const Signals& signals) {
  const auto settings = ReadSettings(argc, argv);
  if (const int* const exit_code = std::get_if<int>(&settings)) return *exit_code;
  const auto& first = std::get<Settings>(settings);
  // Never deleted: gRPC's threads may log until the process ends.
  ServerLog& log = *new ServerLog(first.log_level, first.log_format);
  TakeGrpcLog(log);
  const absl::Status status = Check(first);
  if (!status.ok()) return Refuse(log, status);
  if (first.check_only) {
    std::cout << "parplan-server: the configuration is valid" << std::endl;
    return 0;
  }
  const SettingsReader read = [argc, argv]() -> std::optional<Settings> {
    auto again = ReadSettings(argc, argv);
    if (auto* const read_now = std::get_if<Settings>(&again)) return std::move(*read_now);
    return std::nullopt;
  };
  try {
    return Serve(first, signals, read, log);
  } catch (const std::exception& error) {
    log.Error("ended", {{"message", error.what()}});
    return 1;
  }
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  if (parplan::NamesAdminCommand(argc, argv)) return parplan::RunAdminCommand(argc, argv);
  const parplan::Signals signals;
  try {
    return parplan::Run(argc, argv, signals);
  } catch (const std::exception& error) {
    std::cerr << "parplan-server: " << error.what() << "\n";
    return 1;
  }
}
