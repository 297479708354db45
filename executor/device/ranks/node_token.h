// The token of a job on one node whose launcher gives it none. `parplan-exec` has one on each rank.

#ifndef PARPLAN_EXECUTOR_DEVICE_RANKS_NODE_TOKEN_H_
#define PARPLAN_EXECUTOR_DEVICE_RANKS_NODE_TOKEN_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/local_socket.h"
#include "executor/device/comm/socket.h"
#include "executor/device/ranks/rank_environment.h"

namespace parplan {

// Returns a secret of 128 random bits, in hexadecimal digits. UNAVAILABLE if the system gives none.
absl::StatusOr<std::string> MakeToken();

// A random token that rank 0 makes and hands to the other ranks, over a Unix socket whose both ends
// are processes of one user. Its name follows from job and rendezvous, so other users can know it:
// whoever of them takes it first keeps the job from starting, and learns nothing.
class NodeToken {
 public:
  // Sets `self.token` where it is empty and the ranks are on one node, the same on each. Rank 0
  // hands it out from a thread as long as the result lives; the others wait for rank 0 up to
  // `patience`, and ask again if it, or the rank 0 of a job before with that name, ends instead of
  // saying it. `on_notice`, if not null, takes a line that says so every `notice_interval` of the
  // wait, on this thread. Null if `self` has a token. ALREADY_EXISTS on rank 0 and
  // PERMISSION_DENIED on others if a process of another user, or of another job, has the name;
  // UNAVAILABLE if rank 0 does not come or has ended, DEADLINE_EXCEEDED if it says nothing.
  static absl::StatusOr<std::unique_ptr<NodeToken>> Agree(
      RankEnvironment& self, absl::Duration patience,
      const std::function<void(const std::string&)>& on_notice = nullptr,
      absl::Duration notice_interval = absl::Seconds(10));
  ~NodeToken();

 private:
  NodeToken(LocalListener listener, std::string token, Socket wake_in, Socket wake_out);
  void HandOut();

  const LocalListener listener_;
  const std::string token_;
  // A pair of sockets: the end of the first wakes and ends the thread.
  Socket wake_in_;
  const Socket wake_out_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_RANKS_NODE_TOKEN_H_
