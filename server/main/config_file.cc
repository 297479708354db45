#include "server/main/config_file.h"

#include <google/protobuf/duration.pb.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "parplan/config/v1/server_config.pb.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

// Takes a field that the file has. Values are checked later, together with those of flags.
void Take(bool is_given, const auto& given, auto& target) {
  if (is_given) target = given;
}

void TakeDuration(bool is_given, const google::protobuf::Duration& given, absl::Duration& target) {
  if (is_given) target = absl::Seconds(given.seconds()) + absl::Nanoseconds(given.nanos());
}

std::vector<std::string> ToTexts(const google::protobuf::RepeatedPtrField<std::string>& field) {
  return {field.begin(), field.end()};
}

Grant ToGrant(const config::v1::Grant& grant) {
  return {.identities = ToTexts(grant.identities()),
          .role = grant.role(),
          .clusters = ToTexts(grant.clusters()),
          .nodes = ToTexts(grant.nodes()),
          .jobs = ToTexts(grant.jobs())};
}

void TakeQuota(const config::v1::Quota& given, QuotaSettings& quota) {
  Take(given.has_stored_bytes(), given.stored_bytes(), quota.stored_bytes);
  Take(given.has_execution_bytes(), given.execution_bytes(), quota.execution_bytes);
  Take(given.has_plans(), given.plans(), quota.plans);
  Take(given.has_agents(), given.agents(), quota.agents);
  if (given.has_running_searches()) quota.running_searches = given.running_searches();
  Take(given.has_queued_searches(), given.queued_searches(), quota.queued_searches);
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, Settings& settings) {
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxJsonBytes});
  if (!text.ok()) return FieldError(Reason::kSpecInvalid, "config", text.status().message());
  config::v1::ServerConfig config;
  PARPLAN_RETURN_IF_ERROR(ParseJson(*text, path, &config));
  Take(config.has_listen(), config.listen(), settings.listen);
  Take(config.has_metrics_listen(), config.metrics_listen(), settings.metrics_listen);
  Take(config.has_health_listen(), config.health_listen(), settings.health_listen);
  Take(config.has_data_dir(), config.data_dir(), settings.data_dir);
  Take(config.has_store(), config.store(), settings.store);
  Take(config.has_tls_certificate(), config.tls_certificate(), settings.tls.certificate);
  Take(config.has_tls_key(), config.tls_key(), settings.tls.key);
  Take(config.has_tls_client_ca(), config.tls_client_ca(), settings.tls.client_ca);
  Take(config.has_tls_crl_folder(), config.tls_crl_folder(), settings.tls.crl_folder);
  Take(config.has_insecure(), config.insecure(), settings.insecure);
  Take(config.has_insecure_metrics(), config.insecure_metrics(), settings.insecure_metrics);
  if (config.has_allow_all_callers()) settings.allow_all_callers = config.allow_all_callers();
  if (config.has_authorization()) {
    const config::v1::Authorization& authorization = config.authorization();
    settings.certificate_names = ToTexts(authorization.certificate_names());
    if (authorization.has_service_accounts()) {
      const config::v1::ServiceAccounts& accounts = authorization.service_accounts();
      settings.service_accounts =
          ServiceAccountSettings{accounts.key_set_file(), accounts.issuer(), accounts.audience()};
    }
    settings.unix_users = authorization.unix_users();
    settings.grants.emplace();
    for (const config::v1::Grant& grant : authorization.grants()) {
      settings.grants->push_back(ToGrant(grant));
    }
  }
  Take(config.has_audit_file(), config.audit_file(), settings.audit_file);
  Take(config.has_audit_required(), config.audit_required(), settings.audit_required);
  TakeQuota(config.quotas().identity(), settings.identity_quota);
  TakeQuota(config.quotas().cluster(), settings.cluster_quota);
  Take(config.has_profiles_per_node(), config.profiles_per_node(),
       settings.limits.profiles_per_node);
  Take(config.has_workers(), config.workers(), settings.limits.worker_count);
  Take(config.has_search_memory(), config.search_memory(), settings.limits.search_memory_bytes);
  Take(config.has_queue_length(), config.queue_length(), settings.limits.max_queue_length);
  TakeDuration(config.has_plan_ttl(), config.plan_ttl(), settings.limits.default_time_to_live);
  TakeDuration(config.has_max_plan_ttl(), config.max_plan_ttl(), settings.limits.max_time_to_live);
  TakeDuration(config.has_max_search_time(), config.max_search_time(),
               settings.limits.max_search_duration);
  TakeDuration(config.has_default_deadline(), config.default_deadline(), settings.default_deadline);
  TakeDuration(config.has_drain_time(), config.drain_time(), settings.drain_time);
  TakeDuration(config.has_execution_silence(), config.execution_silence(),
               settings.limits.longest_execution_silence);
  TakeDuration(config.has_execution_retention(), config.execution_retention(),
               settings.limits.execution_retention);
  Take(config.has_max_upload_bytes(), config.max_upload_bytes(), settings.limits.max_upload_bytes);
  Take(config.has_log_level(), config.log_level(), settings.log_level);
  Take(config.has_log_format(), config.log_format(), settings.log_format);
  return absl::OkStatus();
}

}  // namespace parplan
