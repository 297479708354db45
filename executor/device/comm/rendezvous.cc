#include "executor/device/comm/rendezvous.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/stall_inquiry.h"
#include "executor/device/comm/tls_session.h"

namespace parplan {
namespace {

// Limit for handing one short message to the server.
constexpr absl::Duration kServerPatience = absl::Seconds(5);
// Limit for the server to say who is missing.
constexpr absl::Duration kMissingPatience = absl::Seconds(5);
// Wait for the server to name a lost rank after a connection broke. Connections of a rank that dies
// end together, and those of its neighbours when they give up; so the first to break may be with a
// rank that is well.
constexpr absl::Duration kCausePatience = absl::Seconds(1);
// Wait for the kernel to end the connection of a server that does not answer. Ranks hear of its
// loss within 10 s of each other, the idle time before the kernel probes (socket.cc).
constexpr absl::Duration kServerLossPatience = absl::Seconds(12);

absl::Status FailureOf(const Frame& frame) {
  if (frame.key == "lost") return absl::UnavailableError(frame.value);
  if (frame.key == "altered") return absl::DataLossError(frame.value);
  if (frame.key == "stalled") return absl::DeadlineExceededError(frame.value);
  return absl::AbortedError(absl::StrCat("rank ", frame.number, " ended the job: ", frame.value));
}

// Connects, and says now and then that it waits.
absl::StatusOr<Socket> ConnectTo(const RendezvousJoin& join, absl::Duration start) {
  absl::Duration next_notice = SteadyNow() + join.notice_interval;
  return Socket::Connect(join.address, start + join.patience, [&](const absl::Status& failure) {
    const absl::Duration now = SteadyNow();
    if (!join.on_notice || now < next_notice) return;
    next_notice = now + join.notice_interval;
    join.on_notice(absl::StrCat("rank ", join.rank, " waits for the rendezvous since ",
                                absl::FormatDuration(absl::Floor(now - start, absl::Seconds(1))),
                                ": ", failure.message()));
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Join(RendezvousJoin join) {
  const absl::Duration start = SteadyNow();
  const absl::Duration deadline = start + join.patience;
  Socket socket;
  Handshake handshake = {.purpose = kMeetingPurpose,
                         .caller = join.rank,
                         .listener = kRendezvousRank,
                         .context = absl::StrCat(join.world_size)};
  absl::Status proven;
  absl::StatusOr<Frame> arrived;
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(socket, ConnectTo(join, start));
    proven = SayHello(socket, handshake, deadline);
    if (proven.ok()) proven = ProveTo(socket, handshake, join.token, "", deadline);
    absl::Status secured = proven;
    if (proven.ok()) {
      secured = socket.FinishTls(TlsSide::kClient, TlsKeyOf(handshake, join.token), deadline);
    }
    arrived = secured.ok() ? ReadFrame(socket, deadline) : secured;
    // Until the server has heard its proof, it may drop this rank for those of many strangers; and
    // the connection may break until its welcome has arrived.
    if (!absl::IsUnavailable(arrived.status()) || SteadyNow() + kSocketPause >= deadline) break;
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kSocketPause));
  }
  if (absl::IsPermissionDenied(proven)) {
    return absl::PermissionDeniedError(
        absl::StrCat("rank ", join.rank, " cannot join at ", join.address, ": ", proven.message()));
  }
  if (absl::IsInvalidArgument(proven)) {
    return absl::InvalidArgumentError(
        absl::StrCat(join.address, " does not answer as a rendezvous"));
  }
  if (!arrived.ok()) {
    return absl::Status(arrived.status().code(),
                        absl::StrCat("rank ", join.rank, " cannot join at ", join.address, ": ",
                                     arrived.status().message()));
  }
  Frame answer = *std::move(arrived);
  if (answer.kind == FrameKind::kRefused) {
    return absl::PermissionDeniedError(absl::StrCat(
        "the rendezvous at ", join.address, " refuses rank ", join.rank, ": ", answer.value));
  }
  if (answer.kind != FrameKind::kWelcome) {
    return absl::InvalidArgumentError(
        absl::StrCat(join.address, " does not answer as a rendezvous"));
  }
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(socket), std::move(join),
                                                    static_cast<int>(answer.number) - 1,
                                                    std::move(answer.value)));
}

Rendezvous::Rendezvous(Socket socket, RendezvousJoin join, int serving_rank,
                       std::string serving_host)
    : socket_(std::move(socket)),
      join_(std::move(join)),
      serving_rank_(serving_rank),
      serving_host_(std::move(serving_host)),
      thread_([this] { Listen(); }) {}

Rendezvous::~Rendezvous() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_leaving_ = true;
    (void)WriteFrame(socket_, {.kind = FrameKind::kGoodbye}, SteadyNow() + kServerPatience);
  }
  ::shutdown(socket_.descriptor(), SHUT_RDWR);
  thread_.join();
}

void Rendezvous::Listen() {
  while (true) {
    absl::StatusOr<Frame> frame = ReadFrame(socket_, absl::InfiniteDuration());
    if (!frame.ok()) {
      return Fail(ServerLoss(frame.status()));
    }
    if (frame->kind == FrameKind::kFailure) Fail(FailureOf(*frame));
    if (frame->kind == FrameKind::kProbe) AnswerProbe();
    if (frame->kind != FrameKind::kValue) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[frame->number] = std::move(frame->value);
    changed_.notify_all();
  }
}

absl::Status Rendezvous::ServerLoss(const absl::Status& why) const {
  return absl::Status(
      absl::IsDataLoss(why) ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnavailable,
      serving_rank_ < 0
          ? absl::StrCat("the rendezvous is lost: ", why.message())
          : DescribeLoss(serving_rank_, serving_host_,
                         absl::StrCat("it serves the rendezvous, and ", why.message())));
}

void Rendezvous::AnswerProbe() {
  int awaited = -1;
  {
    const std::lock_guard<std::mutex> lock(awaited_mutex_);
    if (awaited_) awaited = awaited_();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  (void)WriteFrame(socket_,
                   {.kind = FrameKind::kWaits, .number = static_cast<uint32_t>(awaited + 1)},
                   SteadyNow() + kServerPatience);
}

void Rendezvous::SetAwaited(std::function<int()> awaited) {
  const std::lock_guard<std::mutex> lock(awaited_mutex_);
  awaited_ = std::move(awaited);
}

void Rendezvous::Fail(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FailLocked(status);
}

void Rendezvous::FailLocked(const absl::Status& status) {
  if (is_leaving_ || !failure_.ok()) return;
  failure_ = status;
  is_healthy_.store(false, std::memory_order_release);
  changed_.notify_all();
}

absl::Status Rendezvous::Set(const std::string& key, const std::string& value) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  return Send(lock, {.kind = FrameKind::kSet, .key = key, .value = value});
}

absl::Status Rendezvous::Send(std::unique_lock<std::mutex>& lock, const Frame& frame) {
  const absl::Status sent = WriteFrame(socket_, frame, SteadyNow() + kServerPatience);
  if (!absl::IsUnavailable(sent)) return sent;
  // A write may meet the end of the connection before the thread that reads does, which may still
  // read what the server said last.
  if (AwaitFailureLocked(lock, kCausePatience).ok()) FailLocked(ServerLoss(sent));
  return failure_.ok() ? sent : failure_;
}

absl::StatusOr<uint32_t> Rendezvous::Ask(std::unique_lock<std::mutex>& lock,
                                         const std::string& key) {
  const uint32_t number = ++question_count_;
  PARPLAN_RETURN_IF_ERROR(Send(lock, {.kind = FrameKind::kGet, .number = number, .key = key}));
  return number;
}

std::optional<std::string> Rendezvous::AwaitAnswer(std::unique_lock<std::mutex>& lock,
                                                   uint32_t number, absl::Duration deadline) {
  const auto is_over = [&] { return !failure_.ok() || answers_.contains(number); };
  // In pieces, since the clocks of condition variables overflow.
  while (!is_over()) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    changed_.wait_for(lock, absl::ToChronoMilliseconds(std::min(left, absl::Seconds(1))) +
                                std::chrono::milliseconds(1));
  }
  const auto answer = answers_.find(number);
  if (answer == answers_.end()) return std::nullopt;
  std::string value = std::move(answer->second);
  answers_.erase(answer);
  return value;
}

std::string Rendezvous::ReasonToWait(std::unique_lock<std::mutex>& lock, const std::string& key) {
  const absl::StatusOr<uint32_t> question = Ask(lock, kMissingRanks);
  if (!question.ok()) return std::string(question.status().message());
  const std::optional<std::string> missing =
      AwaitAnswer(lock, *question, SteadyNow() + kMissingPatience);
  if (!missing.has_value()) return "the rendezvous does not answer";
  return missing->empty() ? absl::StrCat("all ranks have come, and none says \"", key, "\"")
                          : *missing;
}

absl::StatusOr<std::string> Rendezvous::Get(const std::string& key, absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  PARPLAN_ASSIGN_OR_RETURN(const uint32_t number, Ask(lock, key));
  const absl::Duration start = SteadyNow();
  const absl::Duration deadline = start + patience;
  while (true) {
    const absl::Duration end = std::min(deadline, SteadyNow() + join_.notice_interval);
    if (std::optional<std::string> value = AwaitAnswer(lock, number, end)) {
      return *std::move(value);
    }
    if (!failure_.ok()) return failure_;
    const std::string reason = ReasonToWait(lock, key);
    if (!failure_.ok()) return failure_;
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", join_.rank, " waited in vain for \"",
                                                      key, "\" of another rank: ", reason));
    }
    if (!join_.on_notice) continue;
    lock.unlock();
    join_.on_notice(absl::StrCat(
        "rank ", join_.rank, " waits since ",
        absl::FormatDuration(absl::Floor(SteadyNow() - start, absl::Seconds(1))), ": ", reason));
    lock.lock();
  }
}

void Rendezvous::Abort(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  (void)WriteFrame(socket_, {.kind = FrameKind::kAbort, .value = why},
                   SteadyNow() + kServerPatience);
}

absl::Status Rendezvous::ReportStall(const std::string& what, int awaited_rank) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return failure_;
    (void)WriteFrame(socket_,
                     {.kind = FrameKind::kStalled,
                      .number = static_cast<uint32_t>(awaited_rank + 1),
                      .value = what},
                     SteadyNow() + kServerPatience);
  }
  (void)AwaitFailure(join_.verdict_patience);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const std::string server = serving_rank_ < 0
                                 ? "the rendezvous"
                                 : absl::StrCat(RankOnHost(serving_rank_, serving_host_),
                                                ", which serves the rendezvous,");
  const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      server, " does not answer: the process is frozen, or its host is cut off or overloaded; ",
      what));
  FailLocked(status);
  return status;
}

absl::Status Rendezvous::AwaitFailure(absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return AwaitFailureLocked(lock, patience);
}

absl::Status Rendezvous::AwaitCause() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!AwaitFailureLocked(lock, kCausePatience).ok()) return failure_;
  const absl::StatusOr<uint32_t> question = Ask(lock, kMissingRanks);
  const bool answers =
      question.ok() && AwaitAnswer(lock, *question, SteadyNow() + kMissingPatience).has_value();
  if (answers || !failure_.ok()) return failure_;
  if (AwaitFailureLocked(lock, kServerLossPatience).ok()) {
    FailLocked(ServerLoss(absl::UnavailableError("it does not answer")));
  }
  return failure_;
}

absl::Status Rendezvous::AwaitFailureLocked(std::unique_lock<std::mutex>& lock,
                                            absl::Duration patience) {
  const absl::Duration deadline = SteadyNow() + patience;
  while (failure_.ok() && SteadyNow() < deadline) {
    const absl::Duration left = std::min(deadline - SteadyNow(), absl::Seconds(1));
    changed_.wait_for(lock, absl::ToChronoMilliseconds(left) + std::chrono::milliseconds(1));
  }
  return failure_;
}

absl::Status Rendezvous::Health() const {
  if (IsHealthy()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

}  // namespace parplan
