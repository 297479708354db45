// Accepts the connections of a gRPC server and hands them over, so that no flood of connections
// takes all descriptors of the process or leaves the server deaf. `RpcServer` has one.
//
// gRPC 1.51 stops accepting for ever at the first EMFILE, holds connections that send nothing for
// two minutes, has no limit of their number and counts no cancelled streams. The gate accepts in
// place of gRPC (`ServerBuilder::experimental().AddExternalConnectionAcceptor`):
//
//   ConnectionGate gate(*Listen("0.0.0.0:9477"), LimitsForDescriptors(RaiseDescriptorLimit()));
//   gate.Start(HandOverTo(*server, *acceptor));  // hand_over.h
//
// A connection is handed over once it has sent a byte; clients of TLS and of HTTP/2 speak first.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_GATE_H_
#define PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/service/listen/listening_sockets.h"
#include "base/service/listen/user_numbers.h"
#include "base/system/posix_file.h"

namespace parplan {

// Limits of connections. Each default was chosen; none was measured.
struct ConnectionLimits {
  // Connections that were handed over and still live; each takes two descriptors. Above 1, which is
  // not checked. One host, one IPv6 network of 64 bits, or one user of a Unix socket has at most
  // half of them. At the limit a new connection takes the place of the one (of its host or user, if
  // that has its half) that has been without a call for longest, if for a second at least; else it
  // is closed. Connections without a name (`LocalNames::kNone`) are not known to be without calls,
  // so none gives way.
  int max_open_count = 256;
  // Connections that have sent nothing yet; each takes one descriptor. Above 0, which is not
  // checked. At the limit the longest silent one is closed for a new one.
  int max_silent_count = 256;
  // How long a connection may send nothing before its first byte; then it is closed. Later silence
  // is gRPC's matter.
  absl::Duration max_silence = absl::Seconds(10);
  // Calls that a client may cancel on one connection: at once, and by second in the long run. A
  // client that cancels more is cut off, because each such call costs the server work of which its
  // limit of concurrent calls knows nothing (CVE-2023-44487).
  double max_cancelled_calls = 1000;
  double max_cancelled_calls_per_second = 100;
  // Physical memory of the process above which connections without a call are ended, those that
  // have been for longest first, until the process has less; 0 for no limit. gRPC shows no call
  // before its request has come, so a connection without a call may hold a thousand of them.
  int64_t max_resident_bytes = 0;
};

// Raises the soft limit of this process's descriptors to the hard one, but not beyond 65,536.
// Returns the soft limit then, at most 65,536; 0 if the system does not say.
int64_t RaiseDescriptorLimit();

// Returns limits of connections that leave descriptors for the store, logs, health and metrics: a
// third of the others for each of the two counts, at least 8.
ConnectionLimits LimitsForDescriptors(int64_t descriptor_count);

// Numbers of connections since the start.
struct ConnectionCounts {
  // Taken from the listening socket.
  int64_t accepted = 0;
  // Handed over.
  int64_t admitted = 0;
  // Ended by the gate: those that sent nothing in time or had to give way while they were silent,
  // those that had had no call in progress for a second and gave way to a new one, those that
  // cancelled too many calls, and new ones for which there was no place.
  int64_t silent = 0;
  int64_t idle = 0;
  int64_t cancelling = 0;
  int64_t refused = 0;
  // Now.
  int open = 0;
};

// How the connections of Unix sockets are named. Those of TCP have the names that gRPC gives them.
enum class LocalNames {
  // By their descriptors, `fd:9`, as gRPC names connections that it gets by
  // `grpc::AddInsecureChannelFromFd`, so without TLS.
  kByDescriptor,
  // Not at all: gRPC names all that it gets by an acceptor `unix:`.
  kNone,
};

// The beginning of a name by descriptor.
constexpr char kDescriptorPeer[] = "fd:";

// A connection to hand over.
struct NewConnection {
  // The socket that it came by.
  int listener = -1;
  // Neither blocks nor has been read from; belongs to whoever it is handed to.
  int descriptor = -1;
  // Whether its calls must come with the name of the descriptor.
  bool is_named_by_descriptor = false;
};

// Accepts from `Start` as long as it lives or until `StopAccepting`. Safe to use from any thread.
class ConnectionGate {
 public:
  using HandOver = std::function<void(const NewConnection&)>;

  // Listens already; connections wait until `Start`. Aborts if the system gives no descriptors.
  // REQUIRES, unchecked: `sockets` has a socket, as those of `Listen` have.
  ConnectionGate(ListeningSockets sockets, const ConnectionLimits& limits,
                 LocalNames local_names = LocalNames::kByDescriptor);
  ~ConnectionGate();

  // Begins to accept. To be called once; not checked. `hand_over` is called from one thread of the
  // gate, without a lock, and delays all new connections while it runs. `thread_name`, of at most
  // 15 characters, must be static.
  void Start(HandOver hand_over, const char* thread_name = "parplan-gate");

  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  // The port of the listening sockets; 1 for a Unix socket.
  int port() const { return sockets_.port; }

  // The address of the first listening socket. REQUIRES: `StopAccepting` was not called; not
  // checked.
  ListenerAddress address() const { return AddressOfListener(sockets_.descriptors.front()); }

  // Closes the listening sockets and connections that have sent nothing. Connections that were
  // handed over stay; none is handed over after the return. Further calls close nothing.
  // REQUIRES, unchecked: not called by `hand_over`, for which it waits.
  void StopAccepting();

  // A call of the connection `peer` began or ended; `peer` as `grpc::ServerContext::peer` names it.
  // Names of no connection are ignored.
  void CallStarted(absl::string_view peer);
  void CallEnded(absl::string_view peer, bool was_cancelled_by_client);
  // gRPC ended a call of `peer` before its method saw it: the client reset it, or sent no message
  // of the method. Counts as one that the client cancelled.
  void CallRefused(absl::string_view peer);

  // Returns the user who made the connection `peer` of a Unix socket, as
  // `grpc::ServerContext::peer` names it, also if it has ended; nothing for other connections. The
  // user is that of the user namespace of this process; the system's overflow user (65534) stands
  // for all that it lacks.
  std::optional<uid_t> UserOf(absl::string_view peer) const;

  // Returns the numbers at this moment. They are of one moment.
  ConnectionCounts counts() const;

 private:
  struct Silent {
    FileDescriptor descriptor;
    int listener = -1;
    absl::Duration since;
  };
  struct Open {
    // A copy of the descriptor that was handed over: shows when that is shut down, and can shut it
    // down.
    FileDescriptor watch;
    std::string source;
    std::string peer;
    int call_count = 0;
    // Place in the sets of idle connections, and since when, while it has no call in progress;
    // else 0.
    uint64_t use = 0;
    absl::Duration idle_since;
    double cancelled = 0.0;
    absl::Duration cancelled_since;
    bool is_ending = false;
  };
  // By `Open::use`, with the connection's number.
  using IdleSet = std::set<std::pair<uint64_t, uint64_t>>;
  struct Source {
    int open_count = 0;
    IdleSet idle;
  };

  void Loop();
  // All below REQUIRE the lock. Returns the milliseconds until the first silent connection has been
  // silent for too long, at most a second.
  int CloseSilent();
  // Ends up to `kMaxEndedForMemory` connections without a call if the process has too much memory.
  void RelieveMemory();
  void Accept(int listener);
  void Shed(int listener);
  void AddSilent(FileDescriptor descriptor, int listener);
  void HeardFrom(uint64_t number);
  // Makes room for a connection; returns whether there is some.
  bool MakeRoom(const std::string& source);
  bool EndOldest(IdleSet& idle);
  // Counts a cancelled call, and cuts off a client that cancels too many.
  void CountCancelled(uint64_t number, Open& open);
  void SetIdle(uint64_t number, Open& open, bool is_idle);
  void ShutDown(uint64_t number, Open& open);
  void Remove(uint64_t number);
  bool Watch(int descriptor, uint64_t number, uint32_t events);

  ListeningSockets sockets_;
  const ConnectionLimits limits_;
  const LocalNames local_names_;
  HandOver hand_over_;  // Set by `Start`, before its thread begins.
  FileDescriptor epoll_;
  FileDescriptor wake_;
  // Kept open so that it can be closed for a connection to be accepted and refused at EMFILE.
  FileDescriptor spare_;

  mutable std::mutex mutex_;
  bool is_ending_ = false;
  bool is_accepting_ = true;
  uint64_t next_number_ = 0;
  uint64_t next_use_ = 1;
  std::map<uint64_t, Silent> silent_;
  std::unordered_map<uint64_t, Open> open_;
  std::unordered_map<std::string, uint64_t> number_of_peer_;
  std::unordered_map<std::string, Source> sources_;
  IdleSet idle_;
  absl::Duration memory_look_;  // The last look at the memory of the process.
  UserNumbers numbers_;
  ConnectionCounts counts_;
  // To hand over at the end of a round.
  std::vector<NewConnection> admitted_;
  // Whether the thread is handing connections over, which `StopAccepting` waits for.
  bool is_handing_over_ = false;
  std::condition_variable handed_over_;

  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_CONNECTION_GATE_H_
