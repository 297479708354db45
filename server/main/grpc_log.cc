#include "server/main/grpc_log.h"

#include <google/protobuf/stubs/common.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

// A global variable, because gRPC takes a plain function.
std::atomic<const ServerLog*> target = nullptr;

void Take(gpr_log_func_args* line) {
  const ServerLog* const log = target;
  if (log == nullptr) return;
  const nlohmann::ordered_json fields = {{"message", line->message},
                                         {"source", absl::StrCat(line->file, ":", line->line)}};
  if (line->severity == GPR_LOG_SEVERITY_ERROR) {
    log->Warn("grpc", fields);
  } else {
    log->Info("grpc", fields);
  }
}

void TakeProtobuf(google::protobuf::LogLevel /*level*/, const char* file, int line,
                  const std::string& message) {
  const ServerLog* const log = target;
  if (log == nullptr) return;
  log->Info("protobuf", {{"message", message}, {"source", absl::StrCat(file, ":", line)}});
}

}  // namespace

void TakeGrpcLog(const ServerLog& log) {
  target = &log;
  gpr_set_log_function(Take);
  google::protobuf::SetLogHandler(TakeProtobuf);
}

}  // namespace parplan
