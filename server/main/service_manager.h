// Messages to the service manager that started the server. main.cc reports that the server is ready
// (`READY=1`), and that it ends (`STOPPING=1`).

#ifndef PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_
#define PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_

#include <string>

#include "absl/status/status.h"

namespace parplan {

// Sends `state`, such as `READY=1`, to the socket that $NOTIFY_SOCKET names (sd_notify(3) of
// systemd); returns OK and does nothing if the variable is absent or empty. May wait while the
// socket of the manager is full. UNAVAILABLE with no `Reason` if the variable holds no address of a
// socket or nothing receives the message.
absl::Status NotifyServiceManager(const std::string& state);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SERVICE_MANAGER_H_
