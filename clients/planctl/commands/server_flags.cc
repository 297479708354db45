#include "clients/planctl/commands/server_flags.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/service/listen/listen_address.h"
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

absl::StatusOr<std::shared_ptr<grpc::Channel>> ServerFlags::Connect(
    const shell::Session& session) const {
  if (!(timeout_seconds > 0.0) || timeout_seconds > kMaxTimeoutSeconds) {
    return FieldError(Reason::kSpecInvalid, "--timeout",
                      absl::StrCat("must be above 0 and at most ", kMaxTimeoutSeconds));
  }
  if (const std::string note = PlainTextNote(channel); !note.empty()) shell::Note(session, note);
  return MakeChannel(channel);
}

std::string PlainTextNote(const ChannelOptions& channel) {
  if (channel.use_tls || !channel.ca_file.empty() || !channel.certificate_file.empty() ||
      !channel.key_file.empty()) {
    return "";
  }
  // Without the name of gRPC's resolver; all of its addresses must be of this machine.
  absl::string_view addresses = channel.target;
  for (const absl::string_view resolver : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&addresses, resolver)) break;
  }
  const std::vector<absl::string_view> all = absl::StrSplit(addresses, ',');
  if (std::all_of(all.begin(), all.end(), IsLocalAddress) ||
      absl::StartsWith(channel.target, "unix-abstract:")) {
    return "";
  }
  return absl::StrCat(
      "note: ", channel.target,
      " is reached without TLS: others on the way can read and change questions and "
      "plans; give --tls-ca if the server has a certificate");
}

CallOptions ServerFlags::Call() const {
  CallOptions options;
  options.timeout = absl::Seconds(timeout_seconds);
  return options;
}

}  // namespace parplan::planctl
