// What parplan-server is told: by a file, and by flags, which go before it.

#ifndef PARPLAN_SERVER_MAIN_SETTINGS_H_
#define PARPLAN_SERVER_MAIN_SETTINGS_H_

#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/limits.h"
#include "server/rpc/server_credentials.h"

namespace parplan {

// Plain data. proto/parplan/config/v1/server_config.proto documents what is in
// the file as well.
struct Settings {
  std::string listen = "127.0.0.1:9477";
  std::string metrics_listen = "127.0.0.1:9478";  // Empty for none.
  std::string health_listen = "off";              // Empty for none.
  // Signing keys, and the store where `store` says nothing else.
  std::string data_dir;
  // As `ParseStoreAddress`; empty for `sqlite:{data_dir}`.
  std::string store;
  TlsFiles tls;
  bool insecure = false;
  bool insecure_metrics = false;
  Limits limits;
  absl::Duration default_deadline = absl::Minutes(10);
  absl::Duration drain_time = absl::Seconds(20);
  // How long clients may take to see that the server ends.
  absl::Duration drain_pause = absl::Milliseconds(300);
  std::string log_level = "info";
  std::string log_format = "json";
  // Only look whether these settings can hold, and end.
  bool check_only = false;
  // Files that get the ports the server listens on; empty for none.
  std::string port_file;
  std::string metrics_port_file;
  std::string health_port_file;
};

// The settings; or, when the command line asks for help or the version or is
// wrong, what was printed about it and the exit code, 0 or 2.
std::variant<Settings, int> ReadSettings(int argc, const char* const* argv);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SETTINGS_H_
