// A limit for statements that a database does not answer. `PostgresPool` and `PostgresTurns` have
// one each.

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

// A thread that shuts down connections whose statement takes longer than a limit, so that the
// waiting caller gets an error. libpq itself waits as long as the connection holds, which it does
// when the database is stopped or waits for its disk. One timer serves any number of connections.
// Safe to use from any thread.
class StatementTimer {
 public:
  explicit StatementTimer(absl::Duration limit);
  // REQUIRES: all scopes are destroyed; aborts otherwise.
  ~StatementTimer();

  // Gives the statements in progress `limit` from now, if they had longer. Later statements have
  // the limit of the constructor.
  void Hurry(absl::Duration limit);

  // A statement in progress on `socket`, which is open when the scope is created. The timer
  // outlives it.
  class Scope {
   public:
    Scope(StatementTimer& timer, int socket);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

    // Returns whether the limit passed and the connection was shut down therefore. It is not if the
    // system had no descriptor for the duplicate when the scope was created.
    bool IsCut() const;

   private:
    StatementTimer& timer_;
    // Duplicate of the socket: libpq closes its descriptor when the connection breaks, and the
    // number may then be reused for another file.
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
  std::map<int64_t, Statement> statements_;  // Guarded by mutex_; in order of their ends.
  std::set<int64_t> cut_;                    // Statements that were cut. Guarded by mutex_.
  bool is_idle_ = false;                     // The thread waits for a statement. Guarded by mutex_.
  bool is_hurried_ = false;                  // Ends have changed. Guarded by mutex_.
  bool ended_ = false;                       // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STATEMENT_TIMER_H_
