#include "clients/planctl/commands/server_flags.h"

#include "absl/time/time.h"
#include "base/error.h"
#include "clients/cpp/flags/tls_flags.h"

namespace parplan::planctl {

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
  if (!(timeout_seconds > 0.0)) {
    return FieldError(Reason::kSpecInvalid, "--timeout", "must be above 0");
  }
  return MakeChannel(channel);
}

CallOptions ServerFlags::Call() const {
  CallOptions options;
  options.timeout = absl::Seconds(timeout_seconds);
  return options;
}

}  // namespace parplan::planctl
