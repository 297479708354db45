// Ends statements that a database leaves without an answer.

#ifndef PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_
#define PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace parplan {

// libpq waits for an answer as long as its connection holds, and that of a database that is
// stopped, or waits for its disk, does. Here a thread cuts the connection after a time, so
// that whoever waits gets an error. For one connection at a time.
class StatementTimer {
 public:
  explicit StatementTimer(absl::Duration limit);
  ~StatementTimer();

  // As long as it lives, a statement is under way on `socket`, which is open all the while.
  class Scope {
   public:
    Scope(StatementTimer& timer, int socket) : timer_(timer) { timer_.Set(socket); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { timer_.Set(-1); }

   private:
    StatementTimer& timer_;
  };

 private:
  void Set(int socket);
  void Work();

  const absl::Duration limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int socket_ = -1;     // Guarded by mutex_; -1 while there is no statement.
  int64_t number_ = 0;  // Guarded by mutex_; of the statement, to tell it from the next.
  bool ended_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_
