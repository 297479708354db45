// The flags that name a server and how to reach it. Every command that calls a server has them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_SERVER_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_SERVER_FLAGS_H_

#include <memory>
#include <string>

#include <grpcpp/channel.h>

#include "absl/status/statusor.h"
#include "base/service/shell/command_line.h"
#include "base/service/shell/command_program.h"
#include "clients/cpp/channel.h"

namespace parplan::planctl {

// The values of the flags, set when the command line is read.
struct ServerFlags {
  // Address and TLS files (clients/cpp/channel.h).
  ChannelOptions channel;
  // Longest wait for the answer to one call.
  double timeout_seconds = 60.0;

  // Adds the flags; without `--server` the address is that of PARPLAN_SERVER, if it is set.
  // REQUIRES, unchecked: this object stays where it is until the command line is read, which sets
  // its members.
  void AddTo(shell::Command command);

  // Returns a channel to the server, not connected yet, and notes what `PlainTextNote` says. The
  // errors of `MakeChannel`, and
  // INVALID_ARGUMENT (SPEC_INVALID) naming `--timeout` if that is not above 0 or longer than 30
  // days.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const shell::Session& session) const;
  // Returns the options of one call: its timeout, which only `Connect` checks.
  CallOptions Call() const;
};

// Returns what a person should know who speaks to another machine without TLS; empty for a channel
// with TLS or to this machine. Names other than `localhost` count as those of others.
std::string PlainTextNote(const ChannelOptions& channel);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_SERVER_FLAGS_H_
