#include "server/main/server_log.h"

#include "absl/time/time.h"
#include "base/error.h"
#include "server/metrics/label.h"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

bool IsOurFault(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

}  // namespace

void ServerLog::LogCall(const CallRecord& record) const {
  const bool is_store_away =
      record.code == absl::StatusCode::kUnavailable && record.reason == Reason::kStoreUnavailable;
  const auto level = IsOurFault(record.code) ? spdlog::level::err
                     : is_store_away         ? spdlog::level::warn
                                             : spdlog::level::info;
  if (!Writes(level)) return;
  Json fields = {{"method", record.method},
                 {"code", StatusCodeLabel(record.code)},
                 {"duration_seconds", absl::ToDoubleSeconds(record.duration)},
                 {"request_id", record.request_id}};
  if (!record.trace_id.empty()) fields["trace_id"] = record.trace_id;
  fields["peer"] = record.peer;
  fields["identity"] = record.identity;
  if (record.reason.has_value()) fields["reason"] = std::string(ReasonName(*record.reason));
  if (!record.message.empty()) fields["message"] = record.message;
  Write(level, "call", fields);
}

}  // namespace parplan
