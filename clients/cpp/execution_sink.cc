#include "clients/cpp/execution_sink.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "clients/cpp/execution_client.h"

namespace parplan {
namespace {

// The limit of execution_service.proto, in characters.
constexpr size_t kMaxReasonCharacters = 1024;

class ServerSink : public ExecutionSink {
 public:
  explicit ServerSink(std::shared_ptr<grpc::Channel> channel) : client_(std::move(channel)) {}

  absl::StatusOr<std::string> Create(const v1::CreateExecutionRequest& request,
                                     absl::Duration timeout) override {
    PARPLAN_ASSIGN_OR_RETURN(const v1::Execution execution,
                             client_.Create(request, {.timeout = timeout}));
    return execution.name();
  }
  absl::Status Report(const std::string& execution, absl::Span<const v1::MeasuredWindow> windows,
                      absl::Duration timeout) override {
    return client_.Report(execution, windows, {.timeout = timeout}).status();
  }
  absl::Status Complete(const std::string& execution, absl::Duration timeout) override {
    v1::CompleteExecutionRequest request;
    request.set_name(execution);
    return client_.Complete(request, {.timeout = timeout}).status();
  }
  absl::Status Fail(const std::string& execution, const std::string& reason,
                    absl::Duration timeout) override {
    return End(execution, reason, /*is_abandoned=*/false, timeout);
  }
  absl::Status Abandon(const std::string& execution, const std::string& reason,
                       absl::Duration timeout) override {
    return End(execution, reason, /*is_abandoned=*/true, timeout);
  }

 private:
  absl::Status End(const std::string& execution, const std::string& reason, bool is_abandoned,
                   absl::Duration timeout) {
    v1::FailExecutionRequest request;
    request.set_name(execution);
    // Protobuf sends no text that is not UTF-8, and the server takes no NUL.
    std::string sent = Utf8Prefix(reason, kMaxReasonCharacters);
    std::replace(sent.begin(), sent.end(), '\0', ' ');
    request.set_reason(std::move(sent));
    request.set_abandoned(is_abandoned);
    return client_.Fail(request, {.timeout = timeout}).status();
  }

  ExecutionClient client_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutionSink>> MakeServerSink(const ChannelOptions& options) {
  PARPLAN_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, MakeChannel(options));
  return std::make_unique<ServerSink>(std::move(channel));
}

}  // namespace parplan
