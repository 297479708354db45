#include "executor/device/ranks/rank_processes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "base/system/steady_clock.h"
#include "executor/device/ranks/child_process.h"
#include "executor/device/ranks/core_order.h"
#include "executor/device/ranks/node_token.h"

extern char** environ;

namespace parplan {
namespace {

constexpr size_t kMaxResultSize = size_t{256} << 20;
// Longest line; a longer one is passed on in pieces.
constexpr size_t kMaxLineSize = 16 << 10;

std::string SignalName(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name == nullptr ? absl::StrCat("signal ", number) : absl::StrCat("SIG", name);
}

std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) entries.push_back(text);
  }
  for (const auto& [name, value] : variables) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

// Descriptor that the signal handler writes to; -1 if no object heeds signals.
std::atomic<int> signal_descriptor = -1;

void RelaySignal(int number) {
  const int error = errno;
  const char byte = static_cast<char>(number);
  const int descriptor = signal_descriptor.load();
  if (descriptor >= 0) (void)!::send(descriptor, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  errno = error;
}

}  // namespace

struct RankProcesses::Rank {
  ChildProcess process;
  bool has_ended = false;
  // Begin of a line of its standard error, and the last whole line that was not empty.
  std::string pending;
  std::string last_line;
};

// Handles SIGINT and SIGTERM of the process while it exists.
class RankProcesses::SignalRelay {
 public:
  explicit SignalRelay(int descriptor) {
    signal_descriptor = descriptor;
    struct sigaction action = {};
    action.sa_handler = &RelaySignal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (size_t k = 0; k < kSignals.size(); ++k) ::sigaction(kSignals[k], &action, &before_[k]);
  }
  ~SignalRelay() {
    for (size_t k = 0; k < kSignals.size(); ++k) ::sigaction(kSignals[k], &before_[k], nullptr);
    signal_descriptor = -1;
  }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_ = {};
};

RankProcesses::RankProcesses(RankProcessesOptions options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<RankProcesses>> RankProcesses::Start(RankProcessesOptions options) {
  if (options.rank_count < 1) return absl::InvalidArgumentError("rank_count: at least 1");
  if (options.argv.empty()) return absl::InvalidArgumentError("argv: name a program");
  std::unique_ptr<RankProcesses> made(new RankProcesses(std::move(options)));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ResourceExhaustedError(DescribeErrno(errno, "socketpair"));
  }
  made->wake_in_ = Socket(ends[0]);
  made->wake_out_ = Socket(ends[1]);
  made->results_.resize(made->options_.rank_count);
  if (made->options_.heeds_signals) {
    made->relay_ = std::make_unique<SignalRelay>(made->wake_in_.descriptor());
  }
  std::future<absl::Status> launched = made->launched_.get_future();
  made->thread_ = std::thread([object = made.get()] { object->Keep(); });
  PARPLAN_RETURN_IF_ERROR(launched.get());
  return made;
}

RankProcesses::~RankProcesses() {
  if (thread_.joinable()) {
    Stop("its launcher no longer needs it");
    thread_.join();
  }
  relay_.reset();
}

absl::Status RankProcesses::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

void RankProcesses::Stop(const std::string& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_reason_.empty()) stop_reason_ = why;
  }
  const char byte = 0;
  (void)!::send(wake_in_.descriptor(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void RankProcesses::Keep() {
  // Ranks are killed when this thread ends, so signals are left to other threads.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  const absl::Status launch = Launch();
  if (launch.ok()) {
    launched_.set_value(launch);
  } else {
    cause_ = launch;
    Signal(SIGKILL);
    phase_ = Phase::kKilled;
    next_ = absl::InfiniteDuration();
  }
  Watch();
  // Kills what the ranks left behind in their process group, which exists until the first rank is
  // reaped.
  if (!ranks_.empty()) ::kill(-ranks_.front()->process.pid, SIGKILL);
  for (const std::unique_ptr<Rank>& rank : ranks_) ::waitpid(rank->process.pid, nullptr, 0);
  rendezvous_.reset();
  if (!launch.ok()) launched_.set_value(launch);
  const std::lock_guard<std::mutex> lock(mutex_);
  outcome_ = cause_;
  ended_.notify_all();
}

absl::Status RankProcesses::Launch() {
  PARPLAN_ASSIGN_OR_RETURN(const std::string token, MakeToken());
  PARPLAN_ASSIGN_OR_RETURN(
      rendezvous_, RendezvousServer::Start({.token = token, .world_size = options_.rank_count}));
  const std::vector<int> cores = CoresInOrder();
  next_ = SteadyNow() + options_.time_limit;
  for (int rank = 0; rank < options_.rank_count; ++rank) {
    std::map<std::string, std::string> variables = options_.environment;
    variables["PARPLAN_RANK"] = absl::StrCat(rank);
    variables["PARPLAN_WORLD_SIZE"] = absl::StrCat(options_.rank_count);
    variables["PARPLAN_LOCAL_RANK"] = absl::StrCat(rank);
    variables["PARPLAN_RENDEZVOUS"] = rendezvous_->address();
    variables["PARPLAN_TOKEN"] = token;
    if (options_.rank_count > static_cast<int>(cores.size())) {
      variables["PARPLAN_SHARES_CORE"] = "1";
    }
    variables["PARPLAN_RESULT_FD"] = absl::StrCat(kResultDescriptor);
    PARPLAN_ASSIGN_OR_RETURN(
        ChildProcess process,
        StartChild({.argv = options_.argv,
                    .environment = EnvironmentWith(variables),
                    .core = options_.pins ? cores[rank % cores.size()] : -1,
                    .group = ranks_.empty() ? 0 : ranks_.front()->process.pid}));
    pids_.push_back(process.pid);
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->process = std::move(process);
  }
  return absl::OkStatus();
}

void RankProcesses::Watch() {
  struct Interest {
    int rank;
    enum Kind { kWake, kEnd, kErrors, kResult } kind;
  };
  while (std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return !rank->has_ended; })) {
    std::vector<pollfd> polled = {{.fd = wake_out_.descriptor(), .events = POLLIN, .revents = 0}};
    std::vector<Interest> interests = {{.rank = -1, .kind = Interest::kWake}};
    const auto look = [&](const Socket& socket, int rank, Interest::Kind kind) {
      if (!socket.is_open()) return;
      polled.push_back({.fd = socket.descriptor(), .events = POLLIN, .revents = 0});
      interests.push_back({.rank = rank, .kind = kind});
    };
    for (size_t k = 0; k < ranks_.size(); ++k) {
      const int rank = static_cast<int>(k);
      if (!ranks_[k]->has_ended) look(ranks_[k]->process.end, rank, Interest::kEnd);
      look(ranks_[k]->process.errors, rank, Interest::kErrors);
      look(ranks_[k]->process.result, rank, Interest::kResult);
    }
    const absl::Duration left =
        std::clamp(next_ - SteadyNow(), absl::ZeroDuration(), absl::Hours(1));
    const timespec timeout = absl::ToTimespec(left);
    if (::ppoll(polled.data(), polled.size(), &timeout, nullptr) < 0) continue;
    // The output of a rank is read before its end is handled.
    std::vector<int> dead;
    for (size_t k = 0; k < polled.size(); ++k) {
      if (polled[k].revents == 0) continue;
      switch (interests[k].kind) {
        case Interest::kWake:
          HearWake();
          break;
        case Interest::kEnd:
          dead.push_back(interests[k].rank);
          break;
        case Interest::kErrors:
          TakeLines(interests[k].rank);
          break;
        case Interest::kResult:
          TakeResult(interests[k].rank);
          break;
      }
    }
    Bury(dead);
    if (SteadyNow() >= next_) Escalate();
  }
}

void RankProcesses::TakeLines(int rank) {
  Rank& source = *ranks_[rank];
  std::array<char, 4096> bytes;
  while (source.process.errors.is_open()) {
    const ssize_t count = ::read(source.process.errors.descriptor(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count > 0) {
      source.pending.append(bytes.data(), count);
    } else {
      source.process.errors.Close();
      if (!source.pending.empty()) source.pending += '\n';
    }
    size_t begin = 0;
    for (size_t end = source.pending.find('\n'); end != std::string::npos;
         end = source.pending.find('\n', begin)) {
      Say(rank, absl::string_view(source.pending).substr(begin, end - begin));
      begin = end + 1;
    }
    source.pending.erase(0, begin);
    if (source.pending.size() >= kMaxLineSize) {
      Say(rank, source.pending);
      source.pending.clear();
    }
  }
}

void RankProcesses::Say(int rank, absl::string_view line) {
  if (!line.empty()) ranks_[rank]->last_line = std::string(line);
  if (options_.on_line) return options_.on_line(rank, line);
  const std::string whole = absl::StrCat("rank ", rank, ": ", line, "\n");
  (void)!::write(STDERR_FILENO, whole.data(), whole.size());
}

void RankProcesses::TakeResult(int rank) {
  Socket& source = ranks_[rank]->process.result;
  std::string& result = results_[rank];
  std::array<char, 65536> bytes;
  while (source.is_open()) {
    const ssize_t count = ::read(source.descriptor(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return source.Close();
    result.append(bytes.data(), std::min<size_t>(count, kMaxResultSize - result.size()));
  }
}

void RankProcesses::Bury(const std::vector<int>& dead) {
  struct Death {
    int rank;
    siginfo_t how;
  };
  std::vector<Death> deaths;
  for (const int rank : dead) {
    Rank& late = *ranks_[rank];
    Death death = {.rank = rank, .how = {}};
    // Ranks are only reaped at the end, so that no other process gets their ids or the group's.
    if (::waitid(P_PID, late.process.pid, &death.how, WEXITED | WNOHANG | WNOWAIT) != 0) {
      death.how.si_code = CLD_EXITED;
      death.how.si_status = 127;
    } else if (death.how.si_pid == 0) {
      continue;
    }
    late.has_ended = true;
    TakeLines(rank);
    TakeResult(rank);
    // A child of the rank may still hold them open.
    late.process.errors.Close();
    late.process.result.Close();
    if (!late.pending.empty()) Say(rank, late.pending);
    const bool is_well = death.how.si_code == CLD_EXITED && death.how.si_status == 0;
    if (!is_well) deaths.push_back(death);
  }
  // Among ranks found at once: killed ones first, those that ended because of others last.
  const auto weight = [](const Death& death) {
    if (death.how.si_code != CLD_EXITED) return 0;
    return death.how.si_status == kExitAfterAnother ? 2 : 1;
  };
  std::stable_sort(deaths.begin(), deaths.end(),
                   [&](const Death& a, const Death& b) { return weight(a) < weight(b); });
  for (const Death& death : deaths) {
    // Ranks that were sent SIGTERM or SIGKILL are not the cause.
    if (phase_ == Phase::kTerminated || phase_ == Phase::kKilled) return;
    const bool is_hearsay = weight(death) == 2;
    if (!cause_.ok() && !(is_hearsay_ && !is_hearsay)) continue;
    const Rank& late = *ranks_[death.rank];
    const std::string who = absl::StrCat("rank ", death.rank, " (process ", late.process.pid, ")");
    const std::string how = death.how.si_code == CLD_EXITED
                                ? absl::StrCat(" ended with status ", death.how.si_status,
                                               late.last_line.empty() ? "" : ": ", late.last_line)
                                : absl::StrCat(" was killed by ", SignalName(death.how.si_status));
    cause_ = absl::AbortedError(absl::StrCat(who, how));
    is_hearsay_ = is_hearsay;
    if (phase_ == Phase::kRunning) {
      phase_ = Phase::kLeaving;
      next_ = SteadyNow() + options_.grace;
    }
  }
}

void RankProcesses::Blame(absl::Status cause) {
  if (cause_.ok()) cause_ = std::move(cause);
  if (phase_ == Phase::kTerminated || phase_ == Phase::kKilled) return;
  phase_ = Phase::kTerminated;
  next_ = SteadyNow() + options_.grace;
  Signal(SIGTERM);
}

void RankProcesses::HearWake() {
  char byte = 0;
  if (::recv(wake_out_.descriptor(), &byte, 1, MSG_DONTWAIT) != 1) return;
  if (byte != 0) return Blame(absl::CancelledError(absl::StrCat("ended by ", SignalName(byte))));
  std::string reason;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    reason = stop_reason_;
  }
  Blame(absl::CancelledError(absl::StrCat("the ranks were stopped: ", reason)));
}

void RankProcesses::Signal(int signal_number) {
  for (const std::unique_ptr<Rank>& rank : ranks_) {
    if (!rank->has_ended) ::kill(rank->process.pid, signal_number);
  }
}

void RankProcesses::Escalate() {
  switch (phase_) {
    case Phase::kRunning: {
      std::vector<int> late;
      for (size_t k = 0; k < ranks_.size(); ++k) {
        if (!ranks_[k]->has_ended) late.push_back(static_cast<int>(k));
      }
      if (late.empty()) return;
      return Blame(absl::DeadlineExceededError(
          absl::StrCat(late.size() == 1 ? "rank " : "ranks ", absl::StrJoin(late, ", "),
                       late.size() == 1 ? " has" : " have", " not ended within ",
                       absl::FormatDuration(options_.time_limit))));
    }
    case Phase::kLeaving:
      return Blame(cause_);
    case Phase::kTerminated:
    case Phase::kKilled:
      phase_ = Phase::kKilled;
      next_ = absl::InfiniteDuration();
      return Signal(SIGKILL);
  }
}

}  // namespace parplan
