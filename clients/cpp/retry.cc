#include "clients/cpp/retry.h"

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {

absl::Status WithEarlierCause(const absl::Status& status, const absl::Status& earlier) {
  if (earlier.ok() || !absl::IsDeadlineExceeded(status)) return status;
  const std::string message =
      absl::StrCat(std::string(status.message()), "; the attempt before ended with ",
                   absl::StatusCodeToString(earlier.code()), ": ", std::string(earlier.message()));
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) detail = GetErrorDetail(earlier);
  if (!detail.has_value()) return absl::Status(status.code(), message);
  return MakeError(status.code(), detail->reason, message, detail->metadata);
}

void PauseBetweenAttempts(absl::Duration pause) {
  // Nothing is ever put into the queue; who waits at any queue serves all connections.
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool is_ok = false;
  (void)queue.AsyncNext(&tag, &is_ok,
                        std::chrono::system_clock::now() + absl::ToChronoMicroseconds(pause));
  queue.Shutdown();
  while (queue.Next(&tag, &is_ok)) {
  }
}

}  // namespace parplan
