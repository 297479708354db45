#include "base/service/listen/connection_gate.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/service/listen/connection_ends.h"
#include "base/system/clock.h"
#include "base/system/machine_memory.h"

namespace parplan {
namespace {

constexpr int64_t kMaxDescriptors = 65536;

// For the store, its files and connections, logs, the listeners of health and metrics, the
// connections of the latter, files of TLS, and gRPC's own pollers: 160. The others are for the
// connections of health (`HealthServer`): 64 that are silent, and two for each of 64 others.
constexpr int64_t kOtherDescriptors = 160 + 3 * 64;

// A connection that just came may still be about to call.
constexpr absl::Duration kMinIdleTime = absl::Seconds(1);

constexpr int kMaxAcceptedInARound = 256;
constexpr int kMaxEvents = 256;
constexpr int kMaxWaitMilliseconds = 1000;

// A look reads a file of /proc, in some 10 us. Calls on connections that gRPC has do not wake this
// thread, and those of a flood can take 50 MiB meanwhile.
constexpr absl::Duration kMemoryLookInterval = absl::Milliseconds(50);
// So that a burst of others does not end the connections of all idle clients at once.
constexpr int kMaxEndedForMemory = 64;

// Numbers of epoll that are no connections. Listeners follow at kFirstListener.
constexpr uint64_t kWake = ~uint64_t{0};
constexpr uint64_t kFirstListener = uint64_t{1} << 62;

absl::Duration Steady() { return Clock::Real().Steady(); }

// Returns the descriptor that names a connection.
std::optional<int> DescriptorOf(absl::string_view peer) {
  int number = 0;
  if (!absl::ConsumePrefix(&peer, kDescriptorPeer) || !absl::SimpleAtoi(peer, &number)) {
    return std::nullopt;
  }
  return number;
}

FileDescriptor Spare() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

int64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kMaxDescriptors);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    // A limit that cannot be raised is the one to live with.
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kMaxDescriptors));
}

ConnectionLimits LimitsForDescriptors(int64_t descriptor_count) {
  // A third for those that have sent nothing, two thirds for pairs.
  const auto third =
      static_cast<int>(std::max<int64_t>((descriptor_count - kOtherDescriptors) / 3, 8));
  return {.max_open_count = third, .max_silent_count = third};
}

ConnectionGate::ConnectionGate(ListeningSockets sockets, const ConnectionLimits& limits,
                               LocalNames local_names)
    : sockets_(std::move(sockets)),
      limits_(limits),
      local_names_(local_names),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(Spare()) {
  PARPLAN_CHECK(epoll_.is_open() && wake_.is_open());
  PARPLAN_CHECK(Watch(wake_.get(), kWake, EPOLLIN));
  for (size_t index = 0; index < sockets_.descriptors.size(); ++index) {
    PARPLAN_CHECK(Watch(sockets_.descriptors[index].get(), kFirstListener + index, EPOLLIN));
  }
}

void ConnectionGate::Start(HandOver hand_over, const char* thread_name) {
  hand_over_ = std::move(hand_over);
  thread_ = std::thread([this, thread_name] {
    // For `ps -L` and `top -H`.
    pthread_setname_np(pthread_self(), thread_name);
    Loop();
  });
}

ConnectionGate::~ConnectionGate() {
  StopAccepting();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

void ConnectionGate::StopAccepting() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_accepting_) {
    is_accepting_ = false;
    sockets_.descriptors.clear();
    silent_.clear();
  }
  handed_over_.wait(lock, [this] { return !is_handing_over_; });
}

void ConnectionGate::CallStarted(absl::string_view peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = number_of_peer_.find(std::string(peer));
  if (found == number_of_peer_.end()) return;
  Open& open = open_.at(found->second);
  if (open.call_count++ == 0) SetIdle(found->second, open, false);
}

void ConnectionGate::CallEnded(absl::string_view peer, bool was_cancelled_by_client) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = number_of_peer_.find(std::string(peer));
  if (found == number_of_peer_.end()) return;
  Open& open = open_.at(found->second);
  // A call that began before its connection got this name is not counted.
  if (open.call_count > 0 && --open.call_count == 0) SetIdle(found->second, open, true);
  if (was_cancelled_by_client) CountCancelled(found->second, open);
}

void ConnectionGate::CallRefused(absl::string_view peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = number_of_peer_.find(std::string(peer));
  if (found != number_of_peer_.end()) CountCancelled(found->second, open_.at(found->second));
}

std::optional<uid_t> ConnectionGate::UserOf(absl::string_view peer) const {
  const std::optional<int> descriptor = DescriptorOf(peer);
  if (!descriptor.has_value()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  return numbers_.UserOf(*descriptor);
}

void ConnectionGate::CountCancelled(uint64_t number, Open& open) {
  const absl::Duration now = Steady();
  const double forgiven =
      absl::ToDoubleSeconds(now - open.cancelled_since) * limits_.max_cancelled_calls_per_second;
  open.cancelled = std::max(0.0, open.cancelled - forgiven) + 1.0;
  open.cancelled_since = now;
  if (open.cancelled <= limits_.max_cancelled_calls || open.is_ending) return;
  ++counts_.cancelling;
  ShutDown(number, open);
}

ConnectionCounts ConnectionGate::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ConnectionCounts counts = counts_;
  counts.open = static_cast<int>(open_.size());
  return counts;
}

void ConnectionGate::Loop() {
  std::array<epoll_event, kMaxEvents> events;
  const int most_wait = limits_.max_resident_bytes == 0
                            ? kMaxWaitMilliseconds
                            : static_cast<int>(absl::ToInt64Milliseconds(kMemoryLookInterval));
  int wait = most_wait;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), kMaxEvents, wait);
    // Connections to hand over, outside the lock: gRPC may end calls of others on this thread.
    std::vector<NewConnection> admitted;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_ending_) return;
      for (int index = 0; index < count; ++index) {
        const uint64_t number = events[index].data.u64;
        if (number == kWake) continue;
        if (number >= kFirstListener) {
          if (is_accepting_) Accept(sockets_.descriptors[number - kFirstListener].get());
        } else if (silent_.count(number) != 0) {
          HeardFrom(number);
        } else {
          Remove(number);
        }
      }
      wait = std::min(CloseSilent(), most_wait);
      RelieveMemory();
      admitted.swap(admitted_);
      is_handing_over_ = !admitted.empty();
    }
    if (admitted.empty()) continue;
    for (const NewConnection& connection : admitted) hand_over_(connection);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_handing_over_ = false;
    }
    handed_over_.notify_all();
  }
}

int ConnectionGate::CloseSilent() {
  const absl::Duration now = Steady();
  while (!silent_.empty()) {
    const absl::Duration left = silent_.begin()->second.since + limits_.max_silence - now;
    if (left > absl::ZeroDuration()) {
      return static_cast<int>(
          std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, kMaxWaitMilliseconds));
    }
    silent_.erase(silent_.begin());
    ++counts_.silent;
  }
  return kMaxWaitMilliseconds;
}

void ConnectionGate::RelieveMemory() {
  const absl::Duration now = Steady();
  if (limits_.max_resident_bytes == 0 || now - memory_look_ < kMemoryLookInterval) return;
  memory_look_ = now;
  if (ResidentBytes() <= limits_.max_resident_bytes) return;
  for (int ended = 0; ended < kMaxEndedForMemory && EndOldest(idle_); ++ended) {
  }
}

void ConnectionGate::Accept(int listener) {
  for (int round = 0; round < kMaxAcceptedInARound; ++round) {
    FileDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.is_open()) {
      ++counts_.accepted;
      AddSilent(std::move(connection), listener);
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Shed(listener);
    // A connection that broke before it was accepted says nothing of the next one.
    if (errno != ECONNABORTED && errno != EINTR) return;
  }
}

void ConnectionGate::Shed(int listener) {
  if (!silent_.empty()) {
    silent_.erase(silent_.begin());
    ++counts_.silent;
    return;
  }
  if (EndOldest(idle_)) return;
  spare_.Close();
  const FileDescriptor refused(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (refused.is_open()) ++counts_.refused;
  spare_ = Spare();
}

void ConnectionGate::AddSilent(FileDescriptor descriptor, int listener) {
  if (static_cast<int>(silent_.size()) >= limits_.max_silent_count) {
    silent_.erase(silent_.begin());
    ++counts_.silent;
  }
  const uint64_t number = next_number_++;
  if (!Watch(descriptor.get(), number, EPOLLIN | EPOLLRDHUP)) {
    ++counts_.refused;
    return;
  }
  silent_.emplace(number, Silent{std::move(descriptor), listener, Steady()});
}

void ConnectionGate::HeardFrom(uint64_t number) {
  auto node = silent_.extract(number);
  Silent& silent = node.mapped();
  char byte = 0;
  const ssize_t heard = recv(silent.descriptor.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (heard < 0 && (errno == EAGAIN || errno == EINTR)) {
    silent_.insert(std::move(node));
    return;
  }
  // It closed, or broke, before it sent anything.
  if (heard <= 0) return;
  ConnectionEnds ends = EndsOf(silent.descriptor.get());
  FileDescriptor watch(fcntl(silent.descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (!watch.is_open() || !MakeRoom(ends.source)) {
    ++counts_.refused;
    return;
  }
  // The registration belongs to the open socket and the descriptor; the copy gets its own.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, silent.descriptor.get(), nullptr);
  const bool is_named_by_descriptor = ends.is_local && local_names_ == LocalNames::kByDescriptor;
  if (is_named_by_descriptor) {
    silent.descriptor = numbers_.Place(std::move(silent.descriptor), ends.user);
    if (!silent.descriptor.is_open()) {
      ++counts_.refused;
      return;
    }
    ends.peer = absl::StrCat(kDescriptorPeer, silent.descriptor.get());
  }
  // Nothing but the end is of interest: errors and hang-ups are always reported.
  if (!Watch(watch.get(), number, 0)) {
    ++counts_.refused;
    return;
  }
  const int yes = 1;
  setsockopt(silent.descriptor.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  Open& open = open_[number];
  open.watch = std::move(watch);
  open.source = std::move(ends.source);
  open.peer = std::move(ends.peer);
  open.cancelled_since = Steady();
  ++sources_[open.source].open_count;
  if (!open.peer.empty()) {
    number_of_peer_[open.peer] = number;
    SetIdle(number, open, true);
  }
  ++counts_.admitted;
  admitted_.push_back({silent.listener, silent.descriptor.Release(), is_named_by_descriptor});
}

bool ConnectionGate::MakeRoom(const std::string& source) {
  const auto found = sources_.find(source);
  // One host has at most half of the places.
  if (!source.empty() && found != sources_.end() &&
      found->second.open_count >= limits_.max_open_count / 2) {
    return EndOldest(found->second.idle);
  }
  if (static_cast<int>(open_.size()) < limits_.max_open_count) return true;
  return EndOldest(idle_);
}

bool ConnectionGate::EndOldest(IdleSet& idle) {
  if (idle.empty()) return false;
  const uint64_t number = idle.begin()->second;
  Open& open = open_.at(number);
  if (Steady() - open.idle_since < kMinIdleTime) return false;
  ++counts_.idle;
  ShutDown(number, open);
  Remove(number);
  return true;
}

void ConnectionGate::SetIdle(uint64_t number, Open& open, bool is_idle) {
  IdleSet& of_source = sources_[open.source].idle;
  if (open.use != 0) {
    idle_.erase({open.use, number});
    of_source.erase({open.use, number});
    open.use = 0;
  }
  if (!is_idle) return;
  open.use = next_use_++;
  open.idle_since = Steady();
  idle_.emplace(open.use, number);
  of_source.emplace(open.use, number);
}

void ConnectionGate::ShutDown(uint64_t number, Open& open) {
  SetIdle(number, open, false);
  open.is_ending = true;
  shutdown(open.watch.get(), SHUT_RDWR);
}

void ConnectionGate::Remove(uint64_t number) {
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  Open& open = found->second;
  SetIdle(number, open, false);
  const auto peer = number_of_peer_.find(open.peer);
  if (peer != number_of_peer_.end() && peer->second == number) {
    number_of_peer_.erase(peer);
    if (const std::optional<int> descriptor = DescriptorOf(open.peer)) numbers_.Ended(*descriptor);
  }
  const auto source = sources_.find(open.source);
  if (--source->second.open_count == 0) sources_.erase(source);
  open_.erase(found);
}

bool ConnectionGate::Watch(int descriptor, uint64_t number, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = number;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace parplan
