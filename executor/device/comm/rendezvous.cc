#include "executor/device/comm/rendezvous.h"

#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/device/comm/steady_clock.h"

namespace parplan {
namespace {

// Limit for handing one short message to the server.
constexpr absl::Duration kServerPatience = absl::Seconds(5);

absl::Status FailureOf(const Frame& frame) {
  if (frame.key == "lost") {
    return absl::UnavailableError(absl::StrCat("rank ", frame.number, " is lost: ", frame.value));
  }
  return absl::AbortedError(absl::StrCat("rank ", frame.number, " ended the job: ", frame.value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Join(const std::string& address,
                                                             const std::string& token, int rank,
                                                             int world_size,
                                                             absl::Duration patience) {
  const absl::Duration deadline = SteadyNow() + patience;
  PARPLAN_ASSIGN_OR_RETURN(Socket socket, Socket::Connect(address, deadline));
  PARPLAN_RETURN_IF_ERROR(WriteFrame(socket,
                                     {.kind = FrameKind::kHello,
                                      .number = static_cast<uint32_t>(rank),
                                      .key = token,
                                      .value = absl::StrCat(world_size)},
                                     deadline));
  PARPLAN_ASSIGN_OR_RETURN(const Frame answer, ReadFrame(socket, deadline));
  if (answer.kind == FrameKind::kRefused) {
    return absl::PermissionDeniedError(
        absl::StrCat("the rendezvous at ", address, " refuses rank ", rank, ": ", answer.value));
  }
  if (answer.kind != FrameKind::kWelcome) {
    return absl::InvalidArgumentError(absl::StrCat(address, " does not answer as a rendezvous"));
  }
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(socket), rank));
}

Rendezvous::Rendezvous(Socket socket, int rank)
    : socket_(std::move(socket)), rank_(rank), thread_([this] { Listen(); }) {}

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
      return Fail(absl::UnavailableError(
          absl::StrCat("the rendezvous is lost: ", frame.status().message())));
    }
    if (frame->kind == FrameKind::kFailure) Fail(FailureOf(*frame));
    if (frame->kind != FrameKind::kValue) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[frame->number] = std::move(frame->value);
    changed_.notify_all();
  }
}

void Rendezvous::Fail(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_leaving_ || !failure_.ok()) return;
  failure_ = status;
  is_healthy_.store(false, std::memory_order_release);
  changed_.notify_all();
}

absl::Status Rendezvous::Set(const std::string& key, const std::string& value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  return WriteFrame(socket_, {.kind = FrameKind::kSet, .key = key, .value = value},
                    SteadyNow() + kServerPatience);
}

absl::StatusOr<std::string> Rendezvous::Get(const std::string& key, absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  const uint32_t number = ++question_count_;
  PARPLAN_RETURN_IF_ERROR(WriteFrame(socket_,
                                     {.kind = FrameKind::kGet, .number = number, .key = key},
                                     SteadyNow() + kServerPatience));
  const auto is_over = [&] { return !failure_.ok() || answers_.contains(number); };
  // In pieces, since the clocks of condition variables overflow.
  const absl::Duration deadline = SteadyNow() + patience;
  while (!is_over()) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", rank_, " waited in vain for \"", key, "\" of another rank"));
    }
    changed_.wait_for(lock, absl::ToChronoMilliseconds(std::min(left, absl::Seconds(1))) +
                                std::chrono::milliseconds(1));
  }
  const auto answer = answers_.find(number);
  if (answer == answers_.end()) return failure_;
  std::string value = std::move(answer->second);
  answers_.erase(answer);
  return value;
}

void Rendezvous::Abort(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  (void)WriteFrame(socket_, {.kind = FrameKind::kAbort, .value = why},
                   SteadyNow() + kServerPatience);
}

absl::Status Rendezvous::Health() const {
  if (IsHealthy()) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

}  // namespace parplan
