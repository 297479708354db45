#include "executor/device/comm/rendezvous_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

// Limit for one rank to take a message, which is short. A rank that takes longer is lost.
constexpr absl::Duration kRankPatience = absl::Seconds(5);
// Limit of the bytes of a connection that has not introduced itself, more than any hello has.
constexpr size_t kMaxHelloSize = 64 << 10;
// Bytes that are heard of one connection at once, and how often before others are: enough for the
// facts of a job with thousands of groups. Not measured.
constexpr size_t kPieceSize = 4096;
constexpr int kMaxPieceCount = 16;
// Pause of the listener after it could accept nothing, so that the thread does not spin.
constexpr absl::Duration kWelcomePause = absl::Milliseconds(100);

// Returns how many connections may be open without having introduced themselves: enough for all
// ranks to come at once and some strangers, and at most a quarter of the process's descriptors.
size_t MaxStrangerCount(int world_size) {
  const rlim_t wanted = 64 + 2 * static_cast<rlim_t>(world_size);
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  return std::clamp<rlim_t>(limit.rlim_cur / 4, 4, wanted);
}

Socket OpenSpare() { return Socket(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

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
      max_stranger_count_(MaxStrangerCount(options_.world_size)),
      facts_(options_.world_size),
      spare_(OpenSpare()),
      next_welcome_(options_.now()),
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
    const bool welcomes = options_.now() >= next_welcome_;
    std::vector<pollfd> interests = {
        {.fd = wake_out_.descriptor(), .events = POLLIN, .revents = 0},
        {.fd = welcomes ? listener_.descriptor() : -1, .events = POLLIN, .revents = 0}};
    for (const std::unique_ptr<Guest>& guest : guests_) {
      interests.push_back({.fd = guest->socket.descriptor(), .events = POLLIN, .revents = 0});
    }
    // ppoll takes no infinite time, so an infinite deadline is several waits.
    const bool has_more = std::any_of(guests_.begin(), guests_.end(),
                                      [](const auto& guest) { return guest->has_more; });
    const absl::Duration left = has_more ? absl::ZeroDuration() : NextDeadline() - options_.now();
    const timespec timeout =
        absl::ToTimespec(std::clamp(left, absl::ZeroDuration(), absl::Hours(1)));
    if (::ppoll(interests.data(), interests.size(), &timeout, nullptr) < 0) continue;
    if (interests[0].revents != 0) return;
    // Guests first, by the places they had.
    for (size_t k = 2; k < interests.size(); ++k) {
      if (interests[k].revents != 0 || guests_[k - 2]->has_more) Hear(*guests_[k - 2]);
    }
    DropLateStrangers();
    if (interests[1].revents != 0) Welcome();
    if (inquiry_.has_value() &&
        (inquiry_->answers.IsComplete(inquiry_->lost_rank) || options_.now() >= inquiry_->end)) {
      EndInquiry();
    }
    for (auto question = questions_.begin(); question != questions_.end();) {
      question = question->second.guest->is_gone ? questions_.erase(question) : ++question;
    }
    std::erase_if(guests_, [](const std::unique_ptr<Guest>& guest) { return guest->is_gone; });
  }
}

absl::Duration RendezvousServer::EndOf(const Guest& guest) const {
  return guest.since + (guest.socket.has_tls() ? options_.tls_patience : options_.hello_patience);
}

absl::Duration RendezvousServer::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  if (next_welcome_ > options_.now()) next = next_welcome_;
  if (inquiry_.has_value()) next = std::min(next, inquiry_->end);
  for (const std::unique_ptr<Guest>& guest : guests_) {
    if (guest->rank < 0) next = std::min(next, EndOf(*guest));
  }
  return next;
}

void RendezvousServer::Welcome() {
  absl::StatusOr<Socket> socket = listener_.Accept(SteadyNow() + kRankPatience);
  if (absl::IsResourceExhausted(socket.status())) {
    // Makes room, for the connection that waits or else for its end.
    DropOldestStranger();
    spare_.Close();
    (void)listener_.Accept(SteadyNow() + kWelcomePause);
    spare_ = OpenSpare();
    next_welcome_ = options_.now() + kWelcomePause;
  }
  if (!socket.ok()) return;
  guests_.push_back(std::make_unique<Guest>());
  guests_.back()->socket = *std::move(socket);
  guests_.back()->since = options_.now();
  const auto stranger_count = std::count_if(guests_.begin(), guests_.end(),
                                            [](const auto& guest) { return guest->is_stranger(); });
  if (static_cast<size_t>(stranger_count) > max_stranger_count_) DropOldestStranger();
}

void RendezvousServer::DropOldestStranger() {
  for (const std::unique_ptr<Guest>& guest : guests_) {
    if (!guest->is_stranger()) continue;
    guest->is_gone = true;
    guest->socket.Close();
    return;
  }
}

void RendezvousServer::DropLateStrangers() {
  for (const std::unique_ptr<Guest>& guest : guests_) {
    if (guest->rank >= 0 || guest->is_gone) continue;
    const bool is_late = options_.now() >= EndOf(*guest);
    if (is_late || guest->arrived.size() > kMaxHelloSize) guest->is_gone = true;
  }
}

void RendezvousServer::Hear(Guest& guest) {
  // TLS may have read more than it returns at once. Others come next as soon as it has not, and
  // also while this one says more than is heard.
  guest.has_more = false;
  for (int round = 0; round == 0 || guest.socket.has_pending(); ++round) {
    if (guest.is_gone) return;
    if (round == kMaxPieceCount) {
      guest.has_more = true;
      return;
    }
    if (guest.rank < 0 && guest.socket.has_tls()) {
      const absl::StatusOr<bool> is_done = guest.socket.ContinueTls();
      if (!is_done.ok()) return Lose(guest, is_done.status());
      if (!*is_done) return;
      Admit(guest);
      continue;
    }
    std::array<char, kPieceSize> bytes;
    int error = 0;
    const absl::StatusOr<int64_t> count = guest.socket.Receive(bytes.data(), bytes.size(), &error);
    if (!count.ok() && !absl::IsUnavailable(count.status())) return Lose(guest, count.status());
    if (!count.ok() && error == 0) {
      return Lose(guest, absl::UnavailableError("its connection ended"));
    }
    // The kernel has asked in vain for the other side: it may be gone, or this side cut off.
    if (!count.ok()) {
      return Lose(guest, absl::UnavailableError(ErrnoText(error)),
                  error == ETIMEDOUT || error == EHOSTUNREACH);
    }
    // The rest of a record is still on its way.
    if (guest.socket.has_tls() && *count == 0) return;
    guest.arrived.append(bytes.data(), *count);
    ObeyArrived(guest);
  }
}

void RendezvousServer::ObeyArrived(Guest& guest) {
  while (!guest.is_gone) {
    const absl::StatusOr<std::optional<Frame>> frame = TakeFrame(guest.arrived);
    if (!frame.ok()) return Lose(guest, frame.status());
    if (!frame->has_value()) return;
    if (guest.rank >= 0) {
      Obey(guest, **frame);
      continue;
    }
    Greet(guest, **frame);
    if (guest.socket.has_tls()) return;
  }
}

void RendezvousServer::Greet(Guest& guest, const Frame& frame) {
  if (!guest.handshake.has_value()) {
    Handshake handshake = {.purpose = kMeetingPurpose, .listener = kRendezvousRank};
    const absl::StatusOr<Frame> challenge = ChallengeTo(frame, handshake, options_.token);
    if (!challenge.ok()) return Refuse(guest, -1, std::string(challenge.status().message()));
    guest.handshake = std::move(handshake);
    (void)WriteFrame(guest.socket, *challenge, SteadyNow() + kRankPatience);
    return;
  }
  // A rank with another token does not prove anything.
  if (frame.kind != FrameKind::kProof ||
      !IsProof(frame.key, HandshakeSide::kCaller, *guest.handshake, options_.token)) {
    return Refuse(guest, guest.handshake->caller, "wrong token");
  }
  // A rank that comes again has given up a connection of which TLS is being set up.
  for (const std::unique_ptr<Guest>& other : guests_) {
    if (other->rank < 0 && other->socket.has_tls() &&
        other->handshake->caller == guest.handshake->caller) {
      other->is_gone = true;
    }
  }
  guest.since = options_.now();
  const absl::Status begun =
      guest.socket.StartTls(TlsSide::kServer, TlsKeyOf(*guest.handshake, options_.token),
                            std::exchange(guest.arrived, ""));
  if (!begun.ok()) Lose(guest, begun);
}

void RendezvousServer::Admit(Guest& guest) {
  const int rank = guest.handshake->caller;
  const std::string& context = guest.handshake->context;
  int size = 0;
  if (!absl::SimpleAtoi(context, &size) || size != options_.world_size) {
    return Refuse(guest, rank,
                  absl::StrCat("the job has ", options_.world_size, " ranks, not ", context));
  }
  if (rank < 0 || rank >= options_.world_size) return Refuse(guest, rank, "no such rank");
  if (std::any_of(guests_.begin(), guests_.end(),
                  [rank](const auto& other) { return other->rank == rank && !other->is_gone; })) {
    return Refuse(guest, rank, absl::StrCat("rank ", rank, " is here already"));
  }
  guest.rank = rank;
  facts_.Join(rank);
  (void)WriteFrame(guest.socket,
                   {.kind = FrameKind::kWelcome,
                    .number = static_cast<uint32_t>(options_.serving_rank + 1),
                    .value = options_.serving_host},
                   SteadyNow() + kRankPatience);
  if (failure_ != nullptr) (void)WriteFrame(guest.socket, *failure_, SteadyNow() + kRankPatience);
}

void RendezvousServer::Obey(Guest& guest, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kSet: {
      const absl::Status status = facts_.Publish(guest.rank, frame.key, frame.value);
      if (!status.ok()) return ReportLoss(guest.rank, std::string(status.message()));
      const auto [first, last] = questions_.equal_range(frame.key);
      for (auto question = first; question != last; ++question) {
        Answer(*question->second.guest, question->second.number, frame.key, frame.value);
      }
      questions_.erase(first, last);
      return;
    }
    case FrameKind::kGet: {
      if (frame.key == kMissingRanks) {
        return Answer(guest, frame.number, frame.key, facts_.Missing());
      }
      const std::string* const fact = facts_.Find(frame.key);
      if (fact != nullptr) return Answer(guest, frame.number, frame.key, *fact);
      questions_.insert({frame.key, {&guest, frame.number}});
      return;
    }
    case FrameKind::kGoodbye:
      guest.said_goodbye = true;
      return;
    case FrameKind::kAbort:
      return ReportFailure(guest.rank, "aborted", frame.value);
    case FrameKind::kStalled:
      // The rank is about to hear of the failure.
      if (failure_ != nullptr) return;
      if (!inquiry_.has_value()) {
        BeginInquiry(
            {.answers = StallInquiry(options_.world_size, guest.rank), .what = frame.value});
      }
      [[fallthrough]];
    case FrameKind::kWaits:
      if (inquiry_.has_value()) {
        inquiry_->answers.Answer(guest.rank, static_cast<int>(frame.number) - 1);
      }
      return;
    default:
      return Lose(guest, absl::InvalidArgumentError("it does not keep to the protocol"));
  }
}

void RendezvousServer::Answer(Guest& guest, uint32_t number, const std::string& key,
                              const std::string& value) {
  if (guest.is_gone) return;
  const absl::Status status = WriteFrame(
      guest.socket, {.kind = FrameKind::kValue, .number = number, .key = key, .value = value},
      SteadyNow() + kRankPatience);
  if (!status.ok()) Lose(guest, status);
}

void RendezvousServer::Refuse(Guest& guest, int rank, const std::string& why) {
  if (rank >= 0 && rank < options_.world_size) facts_.Refuse(rank, why);
  (void)WriteFrame(guest.socket, {.kind = FrameKind::kRefused, .value = why},
                   SteadyNow() + kRankPatience);
  guest.is_gone = true;
}

void RendezvousServer::Lose(Guest& guest, const absl::Status& why, bool may_be_cut_off) {
  if (guest.is_gone) return;
  guest.is_gone = true;
  if (guest.rank < 0 || guest.said_goodbye) return;
  // While it is open whether this host is cut off, other ranks are lost as well: a connection that
  // timed out says so once, perhaps to a question of the inquiry, and then just ends.
  if (inquiry_.has_value() && inquiry_->lost_rank >= 0) return;
  const std::string text(why.message());
  if (!may_be_cut_off) {
    return ReportLoss(guest.rank, text, absl::IsDataLoss(why) ? "altered" : "lost");
  }
  if (inquiry_.has_value()) return;
  // It does not matter who asks: a rank that does not answer is not reached either.
  BeginInquiry({.answers = StallInquiry(options_.world_size, guest.rank),
                .lost_rank = guest.rank,
                .why_lost = text});
}

void RendezvousServer::BeginInquiry(Inquiry inquiry) {
  inquiry.end = options_.now() + options_.answer_patience;
  inquiry_ = std::move(inquiry);
  for (const int rank : facts_.joined()) {
    const auto guest = std::find_if(guests_.begin(), guests_.end(), [rank](const auto& one) {
      return one->rank == rank && !one->is_gone && !one->said_goodbye;
    });
    if (guest != guests_.end()) {
      (void)WriteFrame((*guest)->socket, {.kind = FrameKind::kProbe}, SteadyNow() + kRankPatience);
    } else if (rank != inquiry_->lost_rank) {
      inquiry_->answers.HasLeft(rank);
    }
  }
}

void RendezvousServer::EndInquiry() {
  const Inquiry inquiry = *std::exchange(inquiry_, std::nullopt);
  const StallVerdict verdict = inquiry.answers.Judge();
  if (inquiry.lost_rank < 0) {
    const uint32_t rank = verdict.ranks.empty() ? 0 : verdict.ranks.front();
    return ReportFailure(rank, "stalled", DescribeVerdict(verdict, facts_.Hosts(), inquiry.what));
  }
  const bool reaches_none =
      options_.serving_rank >= 0 && facts_.AreAllOnOtherHosts(verdict.ranks, options_.serving_rank);
  if (!reaches_none) return ReportLoss(inquiry.lost_rank, inquiry.why_lost);
  ReportFailure(options_.serving_rank, "lost",
                absl::StrCat(RankOnHost(options_.serving_rank, options_.serving_host),
                             " reaches no other host, so it is cut off itself: ranks ",
                             absl::StrJoin(verdict.ranks, ", "), " do not answer"));
}

void RendezvousServer::ReportLoss(int rank, const std::string& why, const std::string& kind) {
  ReportFailure(rank, kind, DescribeLoss(rank, facts_.Hosts()[rank], why));
}

void RendezvousServer::ReportFailure(uint32_t rank, const std::string& kind,
                                     const std::string& why) {
  // The first failure explains those that follow from it.
  if (failure_ != nullptr) return;
  inquiry_.reset();
  failure_ = std::make_unique<Frame>(
      Frame{.kind = FrameKind::kFailure, .number = rank, .key = kind, .value = why});
  for (const std::unique_ptr<Guest>& guest : guests_) {
    if (guest->is_gone || guest->rank < 0) continue;
    (void)WriteFrame(guest->socket, *failure_, SteadyNow() + kRankPatience);
  }
}

}  // namespace parplan
