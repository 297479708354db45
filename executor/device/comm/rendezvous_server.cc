#include "executor/device/comm/rendezvous_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "executor/device/comm/steady_clock.h"

namespace parplan {
namespace {

// Limit for one rank to take a message, which is short. A rank that takes longer is lost.
constexpr absl::Duration kRankPatience = absl::Seconds(5);

// Returns whether both are equal, in a time that does not depend on where they differ.
bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(
    const RendezvousServerOptions& options) {
  if (options.token.empty()) return absl::InvalidArgumentError("the rendezvous needs a token");
  if (options.world_size < 1) return absl::InvalidArgumentError("a job has at least one rank");
  PARPLAN_ASSIGN_OR_RETURN(Listener listener, Listener::Open(options.host, options.port));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(DescribeErrno(errno, "socketpair"));
  }
  return std::unique_ptr<RendezvousServer>(
      new RendezvousServer(options, std::move(listener), Socket(ends[0]), Socket(ends[1])));
}

RendezvousServer::RendezvousServer(RendezvousServerOptions options, Listener listener,
                                   Socket wake_in, Socket wake_out)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      wake_in_(std::move(wake_in)),
      wake_out_(std::move(wake_out)),
      thread_([this] { Serve(); }) {}

RendezvousServer::~RendezvousServer() {
  (void)wake_in_.WriteAll("x", absl::InfiniteDuration());
  thread_.join();
}

std::string RendezvousServer::address() const {
  const bool is_ipv6 = options_.host.find(':') != std::string::npos;
  return absl::StrCat(is_ipv6 ? "[" : "", options_.host, is_ipv6 ? "]:" : ":", listener_.port());
}

void RendezvousServer::Serve() {
  while (true) {
    std::vector<pollfd> interests = {
        {.fd = wake_out_.descriptor(), .events = POLLIN, .revents = 0},
        {.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const std::unique_ptr<Guest>& guest : guests_) {
      interests.push_back({.fd = guest->socket.descriptor(), .events = POLLIN, .revents = 0});
    }
    if (::poll(interests.data(), interests.size(), /*timeout=*/-1) < 0) continue;
    if (interests[0].revents != 0) return;
    // Guests first, by the places they had.
    for (size_t k = 2; k < interests.size(); ++k) {
      if (interests[k].revents != 0) Hear(*guests_[k - 2]);
    }
    if (interests[1].revents != 0) Welcome();
    for (auto question = questions_.begin(); question != questions_.end();) {
      question = question->second.guest->is_gone ? questions_.erase(question) : ++question;
    }
    std::erase_if(guests_, [](const std::unique_ptr<Guest>& guest) { return guest->is_gone; });
  }
}

void RendezvousServer::Welcome() {
  absl::StatusOr<Socket> socket = listener_.Accept(SteadyNow() + kRankPatience);
  if (!socket.ok()) return;
  guests_.push_back(std::make_unique<Guest>());
  guests_.back()->socket = *std::move(socket);
}

void RendezvousServer::Hear(Guest& guest) {
  if (guest.is_gone) return;
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(guest.socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count == 0) return Lose(guest, "its connection ended");
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    return Lose(guest, ErrnoText(errno));
  }
  guest.arrived.append(bytes.data(), count);
  while (!guest.is_gone) {
    const absl::StatusOr<std::optional<Frame>> frame = TakeFrame(guest.arrived);
    if (!frame.ok()) return Lose(guest, std::string(frame.status().message()));
    if (!frame->has_value()) return;
    Obey(guest, **frame);
  }
}

void RendezvousServer::Obey(Guest& guest, const Frame& frame) {
  if (guest.rank < 0) {
    int size = 0;
    if (frame.kind != FrameKind::kHello) return Refuse(guest, "say who you are first");
    if (!SameSecret(frame.key, options_.token)) return Refuse(guest, "wrong token");
    if (!absl::SimpleAtoi(frame.value, &size) || size != options_.world_size) {
      return Refuse(guest,
                    absl::StrCat("the job has ", options_.world_size, " ranks, not ", frame.value));
    }
    const auto rank = static_cast<int>(frame.number);
    if (rank < 0 || rank >= options_.world_size) return Refuse(guest, "no such rank");
    if (std::any_of(guests_.begin(), guests_.end(),
                    [rank](const auto& other) { return other->rank == rank && !other->is_gone; })) {
      return Refuse(guest, absl::StrCat("rank ", rank, " is here already"));
    }
    guest.rank = rank;
    (void)WriteFrame(guest.socket, {.kind = FrameKind::kWelcome}, SteadyNow() + kRankPatience);
    if (failure_ != nullptr) (void)WriteFrame(guest.socket, *failure_, SteadyNow() + kRankPatience);
    return;
  }
  switch (frame.kind) {
    case FrameKind::kSet: {
      const auto [fact, is_new] = facts_.emplace(frame.key, frame.value);
      if (!is_new && fact->second != frame.value) {
        return Lose(guest, absl::StrCat("it contradicts the published fact ", frame.key));
      }
      const auto [first, last] = questions_.equal_range(frame.key);
      for (auto question = first; question != last; ++question) {
        Answer(*question->second.guest, question->second.number, frame.key, fact->second);
      }
      questions_.erase(first, last);
      return;
    }
    case FrameKind::kGet: {
      const auto fact = facts_.find(frame.key);
      if (fact != facts_.end()) return Answer(guest, frame.number, frame.key, fact->second);
      questions_.insert({frame.key, {&guest, frame.number}});
      return;
    }
    case FrameKind::kGoodbye:
      guest.said_goodbye = true;
      return;
    case FrameKind::kAbort:
      return ReportFailure(guest.rank, "aborted", frame.value);
    default:
      return Lose(guest, "it does not keep to the protocol");
  }
}

void RendezvousServer::Answer(Guest& guest, uint32_t number, const std::string& key,
                              const std::string& value) {
  if (guest.is_gone) return;
  const absl::Status status = WriteFrame(
      guest.socket, {.kind = FrameKind::kValue, .number = number, .key = key, .value = value},
      SteadyNow() + kRankPatience);
  if (!status.ok()) Lose(guest, std::string(status.message()));
}

void RendezvousServer::Refuse(Guest& guest, const std::string& why) {
  (void)WriteFrame(guest.socket, {.kind = FrameKind::kRefused, .value = why},
                   SteadyNow() + kRankPatience);
  guest.is_gone = true;
}

void RendezvousServer::Lose(Guest& guest, const std::string& why) {
  if (guest.is_gone) return;
  guest.is_gone = true;
  if (guest.rank >= 0 && !guest.said_goodbye) ReportFailure(guest.rank, "lost", why);
}

void RendezvousServer::ReportFailure(uint32_t rank, const std::string& kind,
                                     const std::string& why) {
  // The first failure explains those that follow from it.
  if (failure_ != nullptr) return;
  failure_ = std::make_unique<Frame>(
      Frame{.kind = FrameKind::kFailure, .number = rank, .key = kind, .value = why});
  for (const std::unique_ptr<Guest>& guest : guests_) {
    if (guest->is_gone || guest->rank < 0) continue;
    (void)WriteFrame(guest->socket, *failure_, SteadyNow() + kRankPatience);
  }
}

}  // namespace parplan
