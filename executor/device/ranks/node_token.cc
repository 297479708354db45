#include "executor/device/ranks/node_token.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <functional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/start_thread.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/handshake.h"

namespace parplan {
namespace {

// Bytes of a token, and of its digits.
constexpr size_t kTokenSize = 16;
constexpr size_t kDigitCount = 2 * kTokenSize;
// Limit for rank 0 to say the token once it has accepted: it has nothing else to do.
constexpr absl::Duration kWordPatience = absl::Seconds(5);

// Returns the name of the socket: of a job and a rendezvous, since one user may run several jobs of
// one id. Not of the user: ranks in two user namespaces may be one user under two numbers. Two jobs
// cannot serve one rendezvous, whoever runs them.
std::string SocketName(const RankEnvironment& self) {
  const std::string digest = DigestOf(absl::StrCat(self.job, " at ", self.rendezvous));
  return absl::StrCat("parplan-job/",
                      absl::BytesToHexString(absl::string_view(digest).substr(0, kTokenSize)));
}

// Returns `status` with what a user can do about it.
absl::Status WithAdvice(const absl::Status& status, const RankEnvironment& self) {
  return absl::Status(
      status.code(),
      absl::StrCat("rank ", self.rank,
                   " cannot agree on a token with the other ranks: ", status.message(),
                   "; set PARPLAN_TOKEN to the same secret for all ranks (docs/ranks.md)"));
}

// Asks rank 0 once.
absl::StatusOr<std::string> AskOnce(const std::string& name, absl::Duration deadline) {
  PARPLAN_ASSIGN_OR_RETURN(const Socket socket, ConnectToLocal(name, deadline));
  std::string token(kDigitCount, ' ');
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(token.data(), kDigitCount, SteadyNow() + kWordPatience));
  return token;
}

// Asks rank 0 until it answers.
absl::StatusOr<std::string> AskForToken(const std::string& name, absl::Duration patience,
                                        const std::function<void(const std::string&)>& on_notice,
                                        absl::Duration notice_interval) {
  const absl::Duration start = SteadyNow();
  absl::Duration next_notice = start + notice_interval;
  while (true) {
    absl::StatusOr<std::string> token = AskOnce(name, start + patience);
    // Rank 0 does not listen yet, or the one of a job before ends and has not answered.
    const bool may_come =
        absl::IsUnavailable(token.status()) || absl::IsDeadlineExceeded(token.status());
    const absl::Duration now = SteadyNow();
    if (!may_come || now >= start + patience) return token;
    if (now >= next_notice) {
      next_notice = now + notice_interval;
      on_notice(absl::StrCat("waits for the token of rank 0 since ",
                             absl::FormatDuration(absl::Floor(now - start, absl::Seconds(1))), ": ",
                             token.status().message()));
    }
    const timespec pause = absl::ToTimespec(kSocketPause);
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

absl::StatusOr<std::string> MakeToken() {
  std::array<char, kTokenSize> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::UnavailableError("the system gives no random numbers");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

absl::StatusOr<std::unique_ptr<NodeToken>> NodeToken::Agree(
    RankEnvironment& self, absl::Duration patience,
    const std::function<void(const std::string&)>& on_notice, absl::Duration notice_interval) {
  if (!self.token.empty()) return nullptr;
  const std::string name = SocketName(self);
  if (self.rank != 0) {
    absl::StatusOr<std::string> token = AskForToken(
        name, patience,
        [&](const std::string& notice) {
          if (on_notice) on_notice(absl::StrCat("rank ", self.rank, " ", notice));
        },
        notice_interval);
    if (!token.ok()) return WithAdvice(token.status(), self);
    self.token = *std::move(token);
    return nullptr;
  }
  PARPLAN_ASSIGN_OR_RETURN(self.token, MakeToken());
  absl::StatusOr<LocalListener> listener = LocalListener::Open(name);
  if (!listener.ok()) return WithAdvice(listener.status(), self);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(DescribeErrno(errno, "socketpair"));
  }
  std::unique_ptr<NodeToken> token(
      new NodeToken(*std::move(listener), self.token, Socket(ends[0]), Socket(ends[1])));
  token->thread_ = StartThread([made = token.get()] { made->HandOut(); });
  if (!token->thread_.joinable()) {
    return absl::UnavailableError("the system has no thread to hand the token of a job out");
  }
  return token;
}

NodeToken::NodeToken(LocalListener listener, std::string token, Socket wake_in, Socket wake_out)
    : listener_(std::move(listener)),
      token_(std::move(token)),
      wake_in_(std::move(wake_in)),
      wake_out_(std::move(wake_out)) {}

NodeToken::~NodeToken() {
  // Ends the connection also where a child that runs no program of its own has a copy of this end.
  wake_in_.Shutdown();
  if (thread_.joinable()) thread_.join();
}

void NodeToken::HandOut() {
  std::array<pollfd, 2> interests = {
      {{.fd = wake_out_.descriptor(), .events = POLLIN, .revents = 0},
       {.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}}};
  while (interests[0].revents == 0) {
    if (interests[1].revents != 0) {
      // Another user's connection is dropped there.
      const absl::StatusOr<Socket> rank = listener_.Accept();
      // Nothing was sent before on this connection, so it has room.
      if (rank.ok()) (void)rank->WriteAll(token_, SteadyNow());
      if (absl::IsUnavailable(rank.status())) {
        // No descriptors: the connection stays readable.
        const timespec pause = absl::ToTimespec(kSocketPause);
        ::nanosleep(&pause, nullptr);
      }
    }
    for (pollfd& interest : interests) interest.revents = 0;
    ::poll(interests.data(), interests.size(), /*timeout=*/-1);
  }
}

}  // namespace parplan
