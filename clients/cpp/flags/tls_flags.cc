#include "clients/cpp/flags/tls_flags.h"

namespace parplan {

void AddTlsFlags(CLI::App& app, const char* group, ChannelOptions& channel) {
  app.add_flag("--tls", channel.use_tls, "Speak TLS; set by the flags below")->group(group);
  app.add_option("--tls-ca", channel.ca_file, "CA certificates (PEM) [the system's]")->group(group);
  app.add_option("--tls-certificate", channel.certificate_file, "Own certificate (PEM)")
      ->group(group);
  app.add_option("--tls-key", channel.key_file, "Key of the own certificate (PEM)")->group(group);
  app.add_option("--tls-server-name", channel.server_name,
                 "Name in the server's certificate [that of the address]")
      ->group(group);
}

}  // namespace parplan
