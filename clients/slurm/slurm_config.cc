#include "clients/slurm/slurm_config.h"

#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"
#include "proto/wire/json_field.h"
#include "proto/wire/resource_name.h"

namespace parplan::slurm {
namespace {

constexpr int kMaxSeconds = 3600;
constexpr int kLastFirstPort = 55000;

absl::Status Broken(absl::string_view file, const JsonValue& value, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, absl::StrCat(file, ":", value.line, ": ", value.key),
                    rule);
}

// Readers of the members of an object, by name.
using Readers = std::map<std::string, std::function<absl::Status(const JsonValue&)>>;

// Each member once, by its reader; whatever goes wrong with it names it.
absl::Status ReadObject(const JsonValue& object, absl::string_view file, const Readers& readers) {
  if (object.type != JsonValue::Type::kObject) return Broken(file, object, "must be an object");
  std::set<std::string> seen;
  for (const JsonValue& member : object.items) {
    const auto reader = readers.find(member.key);
    if (reader == readers.end()) {
      std::vector<std::string> names;
      for (const auto& [name, unused] : readers) names.push_back(name);
      return Broken(file, member, absl::StrCat("no such field", DidYouMean(member.key, names)));
    }
    if (!seen.insert(member.key).second) return Broken(file, member, "is there twice");
    const absl::Status status = reader->second(member);
    if (status.ok()) continue;
    return GetErrorDetail(status).has_value() ? status : Broken(file, member, status.message());
  }
  return absl::OkStatus();
}

auto TextTo(std::string& field) {
  return [&field](const JsonValue& value) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(field, JsonString(value));
    return absl::OkStatus();
  };
}

auto SecondsTo(absl::Duration& field) {
  return [&field](const JsonValue& value) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(const double seconds, JsonNumber(value));
    if (!(seconds > 0.0) || seconds > kMaxSeconds) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be above 0 and at most ", kMaxSeconds, " seconds"));
    }
    field = absl::Seconds(seconds);
    return absl::OkStatus();
  };
}

auto IntegerTo(int64_t& field, int64_t least) {
  return [&field, least](const JsonValue& value) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(field, JsonInteger(value, least, std::numeric_limits<int64_t>::max(),
                                                /*allow_string=*/true));
    return absl::OkStatus();
  };
}

auto PolicyTo(Policy& field, std::map<std::string, Policy> choices) {
  return [&field, choices = std::move(choices)](const JsonValue& value) -> absl::Status {
    PARPLAN_ASSIGN_OR_RETURN(const std::string name, JsonString(value));
    const auto found = choices.find(name);
    if (found == choices.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "must be ", absl::StrJoin(choices, " or ", [](std::string* out, const auto& choice) {
            absl::StrAppend(out, "`", choice.first, "`");
          })));
    }
    field = found->second;
    return absl::OkStatus();
  };
}

absl::Status ReadDevices(const JsonValue& object, absl::string_view file,
                         std::map<std::string, DeviceTemplate>& devices) {
  if (object.type != JsonValue::Type::kObject) return Broken(file, object, "must be an object");
  for (const JsonValue& member : object.items) {
    if (member.key.empty() || devices.contains(member.key)) {
      return Broken(file, member, "must be the name of a GRES, once");
    }
    DeviceTemplate& device = devices[member.key];
    PARPLAN_RETURN_IF_ERROR(
        ReadObject(member, file,
                   {{"device_kind", TextTo(device.device_kind)},
                    {"device_memory_bytes", IntegerTo(device.device_memory_bytes, 1)},
                    {"reserved_memory_bytes", IntegerTo(device.reserved_memory_bytes, 0)},
                    {"node_tier", TextTo(device.node_tier)},
                    {"fabric_tier", TextTo(device.fabric_tier)},
                    {"fabric_id", TextTo(device.fabric_id)}}));
    if (device.device_kind.empty() || device.device_memory_bytes == 0) {
      return Broken(file, member, "needs device_kind and device_memory_bytes");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SlurmConfig> SlurmConfig::FromJson(absl::string_view text,
                                                  absl::string_view file_name) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue root, ReadJsonText(text, file_name));
  SlurmConfig config;
  int64_t first_port = config.first_master_port;
  const std::map<std::string, Policy> launch_or_requeue = {{"launch", Policy::kLaunch},
                                                           {"requeue", Policy::kRequeue}};
  const std::map<std::string, Policy> launch_or_cancel = {{"launch", Policy::kLaunch},
                                                          {"cancel", Policy::kCancel}};
  PARPLAN_RETURN_IF_ERROR(ReadObject(
      root, file_name,
      {{"cluster", TextTo(config.cluster)},
       {"server", TextTo(config.server)},
       {"tls_ca", TextTo(config.tls_ca)},
       {"tls_certificate", TextTo(config.tls_certificate)},
       {"tls_key", TextTo(config.tls_key)},
       {"tls_server_name", TextTo(config.tls_server_name)},
       {"token_file", TextTo(config.token_file)},
       {"deadline_seconds", SecondsTo(config.deadline)},
       {"search_seconds", SecondsTo(config.search_time)},
       {"when_away", PolicyTo(config.when_away, launch_or_requeue)},
       {"when_refused", PolicyTo(config.when_refused, launch_or_cancel)},
       {"when_unverified", PolicyTo(config.when_unverified, launch_or_cancel)},
       {"allow_estimates",
        [&](const JsonValue& value) -> absl::Status {
          PARPLAN_ASSIGN_OR_RETURN(config.allow_estimates, JsonBoolean(value));
          return absl::OkStatus();
        }},
       {"spool_dir", TextTo(config.spool_dir)},
       {"node_dir", TextTo(config.node_dir)},
       {"trust", TextTo(config.trust)},
       {"trust_memory", TextTo(config.trust_memory)},
       {"slurm_bin_dir", TextTo(config.slurm_bin_dir)},
       {"slurm_conf", TextTo(config.slurm_conf)},
       {"first_master_port", IntegerTo(first_port, 1024)},
       {"log", TextTo(config.log)},
       {"devices",
        [&](const JsonValue& value) { return ReadDevices(value, file_name, config.devices); }}}));
  const auto wrong = [&](const char* field, absl::string_view rule) {
    return FieldError(Reason::kSpecInvalid, absl::StrCat(file_name, ": ", field), rule);
  };
  if (!IsResourceId(config.cluster)) {
    return wrong("cluster", "must be the planner's name of the cluster");
  }
  if (config.server.empty()) return wrong("server", "must be HOST:PORT");
  if (first_port > kLastFirstPort) {
    return wrong("first_master_port", absl::StrCat("must be at most ", kLastFirstPort));
  }
  config.first_master_port = static_cast<int>(first_port);
  if (config.devices.empty()) return wrong("devices", "must name a GRES");
  for (const auto& [field, path] :
       {std::pair("spool_dir", &config.spool_dir), std::pair("node_dir", &config.node_dir),
        std::pair("trust", &config.trust), std::pair("slurm_bin_dir", &config.slurm_bin_dir),
        std::pair("slurm_conf", &config.slurm_conf)}) {
    if (!absl::StartsWith(*path, "/")) return wrong(field, "must be an absolute path");
  }
  for (const auto& [field, path] :
       {std::pair("tls_ca", &config.tls_ca), std::pair("tls_certificate", &config.tls_certificate),
        std::pair("tls_key", &config.tls_key), std::pair("token_file", &config.token_file),
        std::pair("trust_memory", &config.trust_memory)}) {
    if (!path->empty() && !absl::StartsWith(*path, "/")) {
      return wrong(field, "must be empty or an absolute path");
    }
  }
  const bool uses_tls =
      !config.tls_ca.empty() || !config.tls_certificate.empty() || !config.tls_key.empty();
  if (!config.token_file.empty() && !uses_tls && !absl::StartsWith(config.server, "unix:")) {
    return wrong("token_file", "is sent over TLS or a Unix socket only; give tls_ca");
  }
  if (config.log != "syslog" && !absl::StartsWith(config.log, "/")) {
    return wrong("log", "must be `syslog` or an absolute path");
  }
  if (config.search_time >= config.deadline) {
    return wrong("search_seconds",
                 absl::StrCat("must be below deadline_seconds, ",
                              absl::ToDoubleSeconds(config.deadline), ": the planner had no time"));
  }
  return config;
}

std::string NodePath(const std::string& path, const std::string& node) {
  return absl::StrReplaceAll(path, {{"%n", node}});
}

}  // namespace parplan::slurm
