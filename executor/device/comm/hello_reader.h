// Takes the handshakes (handshake.h) of those who connect to a rank, and those of TLS, of many at
// the same time: a stranger that connects and says nothing delays no rank. `JobFabric` owns one.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_

#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// Used by one thread.
class HelloReader {
 public:
  // Time that a connection gets for its hello, then for its proof, and then for each further part.
  // Not measured; a rank sends them at once.
  static constexpr absl::Duration kPatience = absl::Seconds(5);
  // Time for TLS after the proof. As long as a rank waits for another to join, since a rank that
  // has sent its part of TLS does not come again.
  static constexpr absl::Duration kTlsPatience = absl::Minutes(2);
  // Connections that may be unproven at a time; the oldest gives way. Strangers then leave the job
  // some of the 1,024 descriptors that a process mostly has. Those that have proved themselves do
  // not count and never give way to strangers: of one rank and name there is one at a time, the
  // newest.
  static constexpr size_t kMaxSilentCount = 256;

  // A connection whose caller has proved that it is that rank of the job; TLS is set up where it
  // is wanted.
  struct Guest {
    Socket socket;
    int rank = 0;
    // The name of that for which the connection is.
    std::string name;
  };

  // Returns whether a connection of a caller for something has TLS. The caller has proved to know
  // the token, but not that its rank is one of the job.
  using WantsTls = std::function<bool(int caller, const std::string& name)>;

  // For the rank `rank` of a job with this token. Null: no connection has TLS.
  HelloReader(std::string token, int rank, WantsTls wants_tls = nullptr)
      : token_(std::move(token)), rank_(rank), wants_tls_(std::move(wants_tls)) {}

  // Adds a connection that was accepted at `now`.
  void Add(Socket socket, absl::Duration now);

  // Answers hellos with challenges; removes the connections whose proof has arrived whole, with TLS
  // once that is set up, and returns them; what follows is still in the socket. Drops those that
  // sent something else, ended, or had used up their time at `now`. Waits for nothing. The
  // name after the proof may be as long as kMaxFrameText; only who knows the token makes this keep
  // more than some bytes.
  std::vector<Guest> Take(absl::Duration now);

  // Waits until `Take` has something to do, one of `others` is readable, or `deadline` on
  // SteadyNow(); returns whether one of `others` is. May return false early, as after a signal or
  // an hour. Bytes that `Take` has seen do not end the wait again.
  bool Await(absl::Span<const int> others, absl::Duration deadline) const;

  // Returns whether no connection is unproven, or without the TLS that it wants.
  bool empty() const { return silent_.empty(); }

 private:
  struct Silent {
    Socket socket;
    absl::Duration end;
    // Set once its hello has been answered.
    std::optional<Handshake> handshake;
    // The bytes of its hello, or then of its proof, that have come, and nothing that follows.
    std::string arrived;
    // The name after its proof; set while TLS is being set up.
    std::optional<std::string> name;
  };
  enum class Progress { kIncomplete, kWhole, kWrong };

  // Returns how many bytes of the message must have arrived for the next step: its header, and all
  // of a hello, or of a proof first the proof and then the rest. 0 if what has arrived is not that
  // message, or the proof is wrong.
  size_t NextSize(const Silent& silent) const;
  // Takes what has arrived of a message.
  Progress Read(Silent& silent) const;
  // Answers a hello.
  Progress Challenge(Silent& silent) const;
  // Takes the name after a proof, and begins TLS if it is wanted.
  Progress Admit(Silent& silent) const;
  // Drops other connections of the same caller for the same name of which TLS is being set up: a
  // caller that comes again has given them up.
  void DropEarlier(const Silent& silent);
  // Does what a connection is ready for.
  Progress Advance(Silent& silent, absl::Duration now) const;

  const std::string token_;
  const int rank_;
  const WantsTls wants_tls_;
  std::list<Silent> silent_;  // Oldest first.
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_HELLO_READER_H_
