// Connections between processes of one user on one machine, over which they hand each other open
// files. `JobFabric` hands the shared memory of a group to its ranks with them: whoever is not
// given the memory can't open it, since it has no name.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_LOCAL_SOCKET_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_LOCAL_SOCKET_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/posix_file.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// A Unix socket that accepts connections, with an abstract name: no file, and none of another
// network namespace can connect.
class LocalListener {
 public:
  // Listens under a name, of at most 100 bytes; an empty one has the kernel choose. UNAVAILABLE if
  // it cannot, or ALREADY_EXISTS if some process, of any user, listens under that name.
  static absl::StatusOr<LocalListener> Open(const std::string& name = "");

  // Returns the name for `ConnectToLocal`: printable, without the zero byte that begins it.
  const std::string& name() const { return name_; }
  // Returns the descriptor of the listening socket, which stays this object's.
  int descriptor() const { return socket_.descriptor(); }
  // Returns the connection that waits, if a process of this user made it. DEADLINE_EXCEEDED if none
  // waits; PERMISSION_DENIED for another user's, which is dropped; UNAVAILABLE.
  absl::StatusOr<Socket> Accept() const;

 private:
  LocalListener(Socket socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}

  Socket socket_;
  std::string name_;
};

// Connects to a `LocalListener` by its name, until `deadline` on SteadyNow(). PERMISSION_DENIED if
// a process of another user listens there, INVALID_ARGUMENT for a name that no listener has;
// UNAVAILABLE naming it if no process listens there, or none accepts until the deadline.
absl::StatusOr<Socket> ConnectToLocal(const std::string& name, absl::Duration deadline);

// Hands an open file to the other side. UNAVAILABLE if that is gone, or takes nothing until
// `deadline`.
absl::Status SendDescriptor(const Socket& socket, int descriptor, absl::Duration deadline);
// Returns the one open file that the other side hands over. PERMISSION_DENIED if it sends anything
// else: none, several, or another control message; all that arrived is closed then. UNAVAILABLE if
// it is gone, DEADLINE_EXCEEDED.
absl::StatusOr<FileDescriptor> ReceiveDescriptor(const Socket& socket, absl::Duration deadline);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_LOCAL_SOCKET_H_
