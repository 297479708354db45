// Turns of servers that share a PostgreSQL database: advisory locks of one session, which has a
// thread, and notifications to servers that wait. `OpenTurns` (store_address.h) makes it.

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
#include "server/store/holder_watch.h"
#include "server/store/statement_timer.h"
#include "server/store/turns.h"

namespace parplan {

class PostgresSession;

// Turns over one connection, however many are held and waited for. When the connection breaks, the
// database releases the turns although their holders go on, so two servers may do the same work.
// Turns therefore save work; they protect nothing.
//
// While it holds turns, a server notifies the others of each every `sign_interval`. Who waits for a
// turn whose holder gave no sign for `longest_silence`, because it is lost, cut off or frozen, goes
// on without it.
class PostgresTurns : public Turns {
 public:
  // The address, and the intervals of the thread.
  struct Options {
    // `postgres://...`, without a password.
    std::string uri;
    // Interval at which to check whether a holder vanished without a notification, and pause after
    // a failed connection.
    absl::Duration poll_interval = absl::Milliseconds(500);
    // Time after which a statement, all of which are short, counts as a failure of the database.
    absl::Duration longest_statement = absl::Seconds(10);
    // Interval between signs of life of a holder, and silence after which it counts as lost: four
    // signs, so that a pause of a loaded server or database loses no turn. Not measured.
    absl::Duration sign_interval = absl::Seconds(5);
    absl::Duration longest_silence = absl::Seconds(20);
  };

  // Returns at once; the thread connects.
  explicit PostgresTurns(const Options& options);
  // Stops, grants null to all that wait, and waits for functions that are being called and for a
  // connection that is being made. REQUIRES: all turns are destroyed; not checked.
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

  // These run on the thread.
  void Serve(std::deque<Question> asked, const std::vector<Return>& returned);
  // Returns false if another server holds the turn.
  bool TryTake(const std::string& key);
  void LookAgain(const std::string& key);
  // Notifies the others that this server works on the turns that it holds.
  void SendSigns();
  void LookAtAll();
  bool Connect();
  // Closes a failed session and grants null to all that wait.
  void Disconnect();
  void WaitForNews();

  const Options options_;
  int wake_[2] = {-1, -1};  // Pipe; a byte in it wakes the thread.

  std::mutex mutex_;
  bool stopped_ = false;          // Guarded by mutex_.
  bool ended_ = false;            // Guarded by mutex_.
  std::deque<Question> asked_;    // Guarded by mutex_.
  std::vector<Return> returned_;  // Guarded by mutex_.

  // Used by the thread alone.
  StatementTimer timer_;
  std::unique_ptr<PostgresSession> session_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Listener> sign_listener_;
  int64_t session_number_ = 0;
  absl::Duration next_connect_;  // On the steady clock.
  std::map<std::string, std::deque<Question>> waiting_;
  // Number of turns of each key that the session holds, and time of the next signs of life.
  std::map<std::string, int> held_;
  absl::Duration next_signs_;
  HolderWatch holders_;
  std::vector<std::string> news_;

  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_TURNS_H_
