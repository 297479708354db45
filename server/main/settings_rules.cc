#include "server/main/settings_rules.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/listen/listen_address.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "server/access/token_verifier.h"
#include "server/access/web_key_set.h"
#include "server/core/search_pool.h"
#include "server/store/store_address.h"

namespace parplan {
namespace {

// Threads that search at once; more than the cores of any server of today share them with no gain.
constexpr int kMaxWorkerCount = 256;
// Questions that wait, each some kilobytes. The last of a longer queue would not be worth its wait:
// at a second a search and 256 workers it is answered after six minutes.
constexpr int kMaxQueueLength = 100000;
// That of an API server has a few keys, of some 500 bytes each.
constexpr size_t kMaxKeySetBytes = size_t{1} << 20;

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

// Checks that the server can know the users of its connections.
absl::Status CheckUserTransport(const Settings& settings) {
  if (absl::StartsWith(settings.listen, "unix:") && settings.tls.empty()) return absl::OkStatus();
  return FieldError(Reason::kSpecInvalid, "authorization.unix_users",
                    "only a Unix socket without TLS knows the users of its connections; listen on "
                    "unix:PATH without tls_certificate, or leave it out");
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

}  // namespace

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
  if (settings.unix_users) PARPLAN_RETURN_IF_ERROR(CheckUserTransport(settings));
  rules.knows_local_users = settings.unix_users;
  PARPLAN_ASSIGN_OR_RETURN(
      rules.policy,
      Policy::Create(settings.grants.value_or(std::vector<Grant>()), "authorization.grants"));
  return rules;
}

}  // namespace parplan
