// The flags that say how to speak TLS with a server and with which token. planctl, the sidecar and
// the agent have them.

#ifndef PARPLAN_CLIENTS_CPP_FLAGS_TLS_FLAGS_H_
#define PARPLAN_CLIENTS_CPP_FLAGS_TLS_FLAGS_H_

#include "base/service/shell/command_line.h"
#include "clients/cpp/channel.h"

namespace parplan {

// Adds --tls, --tls-ca, --tls-certificate, --tls-key, --tls-server-name and --token-file to the
// group `group` of the help. Parsing sets the members of `channel` whose flags are given. The files
// are looked at by MakeChannel, not here. `channel` lives until the command line is parsed.
void AddTlsFlags(shell::Command command, const char* group, ChannelOptions& channel);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_FLAGS_TLS_FLAGS_H_
