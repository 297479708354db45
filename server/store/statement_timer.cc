#include "server/store/statement_timer.h"

#include <sys/socket.h>

#include "absl/time/time.h"

namespace parplan {

StatementTimer::StatementTimer(absl::Duration limit) : limit_(limit) {
  thread_ = std::thread([this] { Work(); });
}

StatementTimer::~StatementTimer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StatementTimer::Set(int socket) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    socket_ = socket;
    if (socket >= 0) ++number_;
  }
  changed_.notify_all();
}

void StatementTimer::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_) {
    changed_.wait(lock, [this] { return ended_ || socket_ >= 0; });
    const int64_t number = number_;
    const bool is_over =
        changed_.wait_for(lock, absl::ToChronoMilliseconds(limit_),
                          [this, number] { return ended_ || socket_ < 0 || number_ != number; });
    if (is_over) continue;
    // Whoever waits for an answer reads the end of the connection now.
    shutdown(socket_, SHUT_RDWR);
    socket_ = -1;
  }
}

}  // namespace parplan
