#include "clients/cpp/flags/tls_flags.h"

namespace parplan {

void AddTlsFlags(shell::Command command, const char* group, ChannelOptions& channel) {
  command.AddFlag("--tls", channel.use_tls, "Speak TLS; set by the flags below").Group(group);
  command.AddOption("--tls-ca", channel.ca_file, "CA certificates (PEM) [the system's]")
      .Group(group);
  command.AddOption("--tls-certificate", channel.certificate_file, "Own certificate (PEM)")
      .Group(group);
  command.AddOption("--tls-key", channel.key_file, "Key of the own certificate (PEM)").Group(group);
  command
      .AddOption("--tls-server-name", channel.server_name,
                 "Name in the server's certificate [that of the address]")
      .Group(group);
  command
      .AddOption("--token-file", channel.token_file,
                 "Token of a Kubernetes service account; needs TLS or a Unix socket")
      .Group(group);
}

}  // namespace parplan
