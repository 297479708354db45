#include "clients/planctl/commands/server_flags.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "clients/cpp/flags/tls_flags.h"

namespace parplan::planctl {
namespace {

// A month, so that the deadline of a call is a time that clocks have. No search takes as long.
constexpr int kMaxTimeoutSeconds = 30 * 24 * 3600;

}  // namespace

void ServerFlags::AddTo(shell::Command command) {
  const char* group = "Server";
  command.AddOption("--server", channel.target, "Address [127.0.0.1:9477]")
      .Variable("PARPLAN_SERVER")
      .Group(group);
  command.AddOption("--timeout", timeout_seconds, "Seconds to wait for an answer [60]")
      .Group(group);
  AddTlsFlags(command, group, channel);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ServerFlags::Connect() const {
  if (!(timeout_seconds > 0.0) || timeout_seconds > kMaxTimeoutSeconds) {
    return FieldError(Reason::kSpecInvalid, "--timeout",
                      absl::StrCat("must be above 0 and at most ", kMaxTimeoutSeconds));
  }
  return MakeChannel(channel);
}

CallOptions ServerFlags::Call() const {
  CallOptions options;
  options.timeout = absl::Seconds(timeout_seconds);
  return options;
}

}  // namespace parplan::planctl
