// What a server tells the service manager that started it.

#ifndef PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_
#define PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// Sends `state`, such as `READY=1`, to the socket that $NOTIFY_SOCKET names (sd_notify(3) of
// systemd); does nothing where it names none. UNAVAILABLE when nobody takes it.
absl::Status TellServiceManager(const std::string& state);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_
