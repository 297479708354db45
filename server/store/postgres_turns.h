// Turns of servers that share a PostgreSQL database: advisory locks of one session, which
// has a thread, and notifications to those who wait.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_TURNS_H_
#define PARPLAN_SERVER_STORE_POSTGRES_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "server/store/statement_timer.h"
#include "server/store/turns.h"

namespace parplan {

class PostgresSession;

// However many turns are held and waited for, there is one connection. When it breaks, the
// turns held go back, though their holders work on: then two servers may do the same work,
// which is why turns save work and protect nothing.
class PostgresTurns : public Turns {
 public:
  struct Options {
    // As `PostgresPool::Options`.
    std::string uri;
    // How often to look whether a holder vanished without a word, and how long to leave a
    // database alone that could not be reached.
    absl::Duration poll_interval = absl::Milliseconds(500);
    // How long a statement may take, all of which are short, before the database counts as
    // away.
    absl::Duration longest_statement = absl::Seconds(10);
  };

  // Connects by and by.
  explicit PostgresTurns(const Options& options);
  // As `Stop`, and waits for what is being called. All turns must have been given back.
  ~PostgresTurns() override;

  void Ask(const std::string& key, std::function<bool()> waits, Granted granted) override;
  void Stop() override;

 private:
  class HeldTurn;
  class Listener;

  struct Question {
    std::string key;
    std::function<bool()> waits;
    Granted granted;
  };
  struct Return {
    std::string key;
    int64_t session = 0;
  };

  void Wake();
  void GiveBack(const std::string& key, int64_t session);
  void Work();

  // All on the thread.
  void Serve(std::deque<Question> asked, const std::vector<Return>& returned);
  // False when it is not to be had now.
  bool TryTake(const std::string& key);
  void LookAgain(const std::string& key);
  void LookAtAll();
  bool Connect();
  // The session is of no use: whoever waits goes on.
  void Disconnect();
  void WaitForNews();

  const Options options_;
  int wake_[2] = {-1, -1};  // A pipe: a byte in it wakes the thread.

  std::mutex mutex_;
  bool stopped_ = false;          // Guarded by mutex_.
  bool ended_ = false;            // Guarded by mutex_.
  std::deque<Question> asked_;    // Guarded by mutex_.
  std::vector<Return> returned_;  // Guarded by mutex_.

  // Of the thread alone.
  StatementTimer timer_;
  std::unique_ptr<PostgresSession> session_;
  std::unique_ptr<Listener> listener_;
  int64_t session_number_ = 0;
  absl::Duration next_connect_;  // On the steady clock.
  std::map<std::string, std::deque<Question>> waiting_;
  std::vector<std::string> news_;

  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_TURNS_H_
