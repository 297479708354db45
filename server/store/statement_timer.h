// Ends statements that a database leaves without an answer.

#ifndef PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_
#define PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "absl/time/time.h"

namespace parplan {

// libpq waits for an answer as long as its connection holds, and that of a database that is
// stopped, or waits for its disk, does. Here a thread cuts the connection after a time, so
// that whoever waits gets an error. For any number of connections.
class StatementTimer {
 public:
  explicit StatementTimer(absl::Duration limit);
  // No scope may be left.
  ~StatementTimer();

  // As long as it lives, a statement is under way on `socket`, which is open when it is made.
  class Scope {
   public:
    Scope(StatementTimer& timer, int socket);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

    // Whether the time was over and the connection is of no use any more.
    bool IsCut() const;

   private:
    StatementTimer& timer_;
    // A descriptor of its own: libpq closes its own when the connection breaks, and somebody
    // else may get that number.
    const int socket_;
    const int64_t number_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  struct Statement {
    int socket = -1;
    Clock::time_point end;
  };

  int64_t Add(int socket);
  void Remove(int64_t number);
  bool IsCut(int64_t number);
  void Work();

  const absl::Duration limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t last_number_ = 0;                  // Guarded by mutex_.
  std::map<int64_t, Statement> statements_;  // Guarded by mutex_; later ones end later.
  std::set<int64_t> cut_;                    // Guarded by mutex_; their scopes still live.
  bool is_idle_ = false;                     // Guarded by mutex_; the thread waits for a statement.
  bool ended_ = false;                       // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_
