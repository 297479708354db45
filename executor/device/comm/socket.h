// TCP sockets as values. The rendezvous, the links over TCP and the processes of a job
// (executor/device/ranks) use them.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_SOCKET_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_SOCKET_H_

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parplan {

class TlsSession;
enum class TlsSide;

// Pause between two attempts to connect while nothing listens yet.
inline constexpr absl::Duration kSocketPause = absl::Milliseconds(20);
// Time that one of several addresses has to answer before the next one is tried.
inline constexpr absl::Duration kAddressPatience = absl::Seconds(3);

// Least time between two questions for the addresses of a host that does not answer. A name may
// come to mean another address, for example if a pod is replaced; ranks by the thousand that ask at
// every attempt would be a burden to name servers. Not measured.
inline constexpr absl::Duration kResolveInterval = absl::Seconds(1);

// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage address = {};
  socklen_t length = 0;
};

// Returns the addresses of a host, or why there are none.
using Resolver = std::function<absl::StatusOr<std::vector<SocketAddress>>()>;

// The intervals of `ConnectToAny`; tests set others.
struct ConnectIntervals {
  // Longest time for one address, and shortest time from one resolution of a host to the next.
  absl::Duration address_patience = kAddressPatience;
  absl::Duration resolve_interval = kResolveInterval;
};

// Owns the descriptor of a socket, or none, and the TLS on it, if any. Those that `Connect` and
// `Listener::Accept` return send small messages at once, and break within half a minute if the
// other machine is gone. System calls on those of `Connect` do not block; on those of `Accept` they
// do.
class Socket {
 public:
  Socket();
  explicit Socket(int descriptor);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  // Connects to `address`, "HOST:PORT" or "[IPV6]:PORT": to the addresses of the host in turn, each
  // for at most kAddressPatience, and where all fail again after kSocketPause, until `deadline` on
  // SteadyNow(), each at least once. The host is resolved again before such a round, at most every
  // kResolveInterval; if that fails, the addresses of before are tried. INVALID_ARGUMENT for a text
  // without a colon, UNAVAILABLE naming the address at the deadline, or at once naming the host if
  // it cannot be resolved at first. To resolve a name may block beyond `deadline`. `on_failure`,
  // which may be empty, hears of every attempt, to connect or to resolve again, that failed.
  static absl::StatusOr<Socket> Connect(
      const std::string& address, absl::Duration deadline,
      const std::function<void(const absl::Status&)>& on_failure = nullptr);
  // Does the same for the addresses that `resolve` returns; errors call them `name`. An error of
  // the first `resolve` is returned as it is. REQUIRES, unchecked: it returns at least one address.
  static absl::StatusOr<Socket> ConnectToAny(
      const Resolver& resolve, const std::string& name, absl::Duration deadline,
      const ConnectIntervals& intervals = {},
      const std::function<void(const absl::Status&)>& on_failure = nullptr);

  // Returns whether a descriptor is owned; it is -1 if not.
  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  // Closes the descriptor; does nothing if there is none.
  void Close();
  // Wakes every thread that blocks on the connection, in this process and at the other side.
  void Shutdown();

  // Begins TLS (tls_session.h) with a key that both sides share; `arrived` was read from the socket
  // after what was said in plain. `ContinueTls` goes on with the handshake, without waiting, and
  // returns whether it is done; from then on all bytes are encrypted. UNAVAILABLE if there is no
  // memory, or the other side is gone; DATA_LOSS if it does not know the key; INTERNAL for an error
  // of OpenSSL itself, or if its settings on this system allow no such connection.
  absl::Status StartTls(TlsSide side, absl::string_view key, std::string arrived = "");
  absl::StatusOr<bool> ContinueTls() const;
  // Does both until `deadline` on SteadyNow(). DEADLINE_EXCEEDED, or their errors.
  absl::Status FinishTls(TlsSide side, absl::string_view key, absl::Duration deadline);
  bool has_tls() const { return tls_ != nullptr; }
  // Returns whether TLS has read bytes, or found an error, for which the socket does not become
  // readable again.
  bool has_pending() const;

  // Send some of the first bytes of `data`, or read up to `size` bytes, without waiting, and return
  // their number: 0 if there is no room or nothing has arrived. After less than `size` more arrives
  // when the socket becomes readable, unless `has_pending`; less than all that is there may be read
  // only without TLS. After 0 the next `Send` must begin with the same bytes. UNAVAILABLE if the
  // other side is gone, with the reason of the system in `*error`, if not null (0 if the other side
  // has closed the connection); DATA_LOSS if TLS finds that something was altered on its way,
  // INTERNAL for an error of OpenSSL itself. One thread may send while another reads.
  absl::StatusOr<int64_t> Send(absl::string_view data) const;
  absl::StatusOr<int64_t> Receive(char* data, int64_t size, int* error = nullptr) const;

  // Write or read all bytes, until `deadline` on SteadyNow(), which may be infinite.
  // DEADLINE_EXCEEDED or the errors of `Send` and `Receive`; a part may be done then. With TLS,
  // every later `Send` is then UNAVAILABLE if bytes were left to write at the deadline.
  absl::Status WriteAll(absl::string_view data, absl::Duration deadline) const;
  absl::Status ReadAll(char* data, int64_t size, absl::Duration deadline) const;

 private:
  int Release();
  int descriptor_ = -1;
  std::unique_ptr<TlsSession> tls_;
};

// A socket that accepts connections.
class Listener {
 public:
  // Listens on `host` and `port`; an empty host means all addresses of this machine, and port 0
  // takes one that is free. UNAVAILABLE naming both, or the host alone if it cannot be resolved.
  static absl::StatusOr<Listener> Open(const std::string& host, int port);

  // Return the port, and the descriptor of the listening socket, which stays this object's.
  int port() const { return port_; }
  int descriptor() const { return socket_.descriptor(); }
  // Returns the next connection. DEADLINE_EXCEEDED if none comes until `deadline`,
  // RESOURCE_EXHAUSTED if this process or machine has no more descriptors or memory for it,
  // UNAVAILABLE if it cannot be accepted otherwise.
  absl::StatusOr<Socket> Accept(absl::Duration deadline) const;

 private:
  Listener(Socket socket, int port) : socket_(std::move(socket)), port_(port) {}
  Socket socket_;
  int port_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_SOCKET_H_
