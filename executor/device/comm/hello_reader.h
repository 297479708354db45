// Reads the first message of each connection of a listener, of many at the same time: a stranger
// that connects and says nothing delays no rank. `JobFabric` owns one; `RendezvousServer` uses
// `IsSameToken` alone.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_

#include <cstddef>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// Used by one thread.
class HelloReader {
 public:
  // Time that a connection gets for its first message, and after its token for each further part.
  // Not measured; a rank sends it at once.
  static constexpr absl::Duration kPatience = absl::Seconds(5);
  // Connections that may be silent at a time; the oldest gives way. Strangers then leave the job
  // some of the 1,024 descriptors that a process mostly has.
  static constexpr size_t kMaxSilentCount = 256;

  // A connection and its first message.
  struct Guest {
    Socket socket;
    Frame hello;
  };

  explicit HelloReader(std::string token) : token_(std::move(token)) {}

  // Adds a connection that was accepted at `now`.
  void Add(Socket socket, absl::Duration now);

  // Removes the connections whose hello with the token has arrived whole, and returns them; what
  // follows the hello is still in the socket. Drops those that sent something else, ended, or were
  // silent for `kPatience` at `now`. Waits for nothing. The text after the token may be as long as
  // kMaxFrameText; only who knows the token makes this keep more than some bytes.
  std::vector<Guest> Take(absl::Duration now);

  // Waits until `Take` has something to do, a connection waits at `listener`, or `deadline` on
  // SteadyNow(); returns whether a connection waits. Bytes of a hello that `Take` has seen
  // do not end the wait again.
  bool Await(const Listener& listener, absl::Duration deadline) const;

  // Returns whether no connection is silent.
  bool empty() const { return silent_.empty(); }

 private:
  struct Silent {
    Socket socket;
    absl::Duration end;
    // The bytes of its hello that have come, and nothing that follows it.
    std::string arrived;
  };
  enum class Progress { kIncomplete, kWhole, kWrong };

  // Returns how many bytes of its hello must have arrived for the next step: its header, its token,
  // and the rest. 0 if what has arrived is no hello with the token.
  size_t NextSize(absl::string_view arrived) const;
  // Takes what has arrived of a hello.
  Progress Read(Silent& silent) const;

  const std::string token_;
  std::list<Silent> silent_;  // Oldest first.
};

// Returns whether two tokens are equal, in a time that does not depend on where they differ.
bool IsSameToken(absl::string_view a, absl::string_view b);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_
