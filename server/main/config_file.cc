#include "server/main/config_file.h"

#include <google/protobuf/duration.pb.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "parplan/config/v1/server_config.pb.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

void TakeText(const std::string& given, std::string& target) {
  if (!given.empty()) target = given;
}

void TakeNumber(auto given, auto& target) {
  if (given != 0) target = given;
}

void TakeDuration(bool is_given, const google::protobuf::Duration& given, absl::Duration& target) {
  if (is_given) target = absl::Seconds(given.seconds()) + absl::Nanoseconds(given.nanos());
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, Settings& settings) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) {
    return FieldError(Reason::kSpecInvalid, "config", absl::StrCat("cannot read `", path, "`"));
  }
  config::v1::ServerConfig config;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &config));
  TakeText(config.listen(), settings.listen);
  TakeText(config.metrics_listen(), settings.metrics_listen);
  TakeText(config.data_dir(), settings.data_dir);
  TakeText(config.tls_certificate(), settings.tls.certificate);
  TakeText(config.tls_key(), settings.tls.key);
  TakeText(config.tls_client_ca(), settings.tls.client_ca);
  settings.insecure = config.insecure();
  TakeNumber(config.workers(), settings.limits.worker_count);
  TakeNumber(config.queue_length(), settings.limits.max_queue_length);
  TakeDuration(config.has_plan_ttl(), config.plan_ttl(), settings.limits.default_time_to_live);
  TakeDuration(config.has_max_plan_ttl(), config.max_plan_ttl(), settings.limits.max_time_to_live);
  TakeDuration(config.has_max_search_time(), config.max_search_time(),
               settings.limits.max_search_duration);
  TakeDuration(config.has_default_deadline(), config.default_deadline(), settings.default_deadline);
  TakeDuration(config.has_drain_time(), config.drain_time(), settings.drain_time);
  TakeNumber(config.max_upload_bytes(), settings.limits.max_upload_bytes);
  TakeText(config.log_level(), settings.log_level);
  TakeText(config.log_format(), settings.log_format);
  return absl::OkStatus();
}

}  // namespace parplan
