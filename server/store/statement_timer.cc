#include "server/store/statement_timer.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace parplan {

StatementTimer::Scope::Scope(StatementTimer& timer, int socket)
    : timer_(timer),
      socket_(fcntl(socket, F_DUPFD_CLOEXEC, 0)),  // -1 where there is none: nothing is cut then.
      number_(timer.Add(socket_)) {}

StatementTimer::Scope::~Scope() {
  timer_.Remove(number_);
  if (socket_ >= 0) close(socket_);
}

bool StatementTimer::Scope::IsCut() const { return timer_.IsCut(number_); }

StatementTimer::StatementTimer(absl::Duration limit) : limit_(limit) {
  thread_ = std::thread([this] { Work(); });
}

StatementTimer::~StatementTimer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    PARPLAN_CHECK(statements_.empty() && cut_.empty());
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StatementTimer::Hurry(absl::Duration limit) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(limit);
    // They stay in the order of their ends.
    for (auto& [number, statement] : statements_) statement.end = std::min(statement.end, end);
    is_hurried_ = true;
  }
  changed_.notify_all();
}

int64_t StatementTimer::Add(int socket) {
  bool was_idle = false;
  int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = ++last_number_;
    statements_[number] = {socket, Clock::now() + absl::ToChronoNanoseconds(limit_)};
    was_idle = is_idle_;
    is_idle_ = false;
  }
  // If the thread waits for the end of an earlier statement, it sees this one afterwards.
  if (was_idle) changed_.notify_all();
  return number;
}

void StatementTimer::Remove(int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  statements_.erase(number);
  cut_.erase(number);
}

bool StatementTimer::IsCut(int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cut_.count(number) > 0;
}

void StatementTimer::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_) {
    if (statements_.empty()) {
      is_idle_ = true;
      changed_.wait(lock, [this] { return ended_ || !is_idle_; });
      continue;
    }
    const auto first = statements_.begin();
    const Clock::time_point end = first->second.end;
    if (Clock::now() < end) {
      changed_.wait_until(lock, end, [this] { return ended_ || is_hurried_; });
      is_hurried_ = false;
      continue;
    }
    // The caller that waits for an answer now reads the end of the connection.
    if (first->second.socket >= 0) {
      shutdown(first->second.socket, SHUT_RDWR);
      cut_.insert(first->first);
    }
    statements_.erase(first);
  }
}

}  // namespace parplan
