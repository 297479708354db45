#include "server/store/postgres_turns.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/system/steady_clock.h"
#include "server/store/postgres_pool.h"

namespace parplan {
namespace {

// Notifications with a key: its turn was returned; its holder is at work.
constexpr char kChannel[] = "parplan_turns";
constexpr char kSignChannel[] = "parplan_turn_signs";

}  // namespace

// A held turn, returned when the object is destroyed, on any thread.
class PostgresTurns::HeldTurn : public Turn {
 public:
  HeldTurn(PostgresTurns* turns, std::string key, int64_t session)
      : turns_(turns), key_(std::move(key)), session_(session) {}
  ~HeldTurn() override { turns_->GiveBack(key_, session_); }

 private:
  PostgresTurns* const turns_;
  const std::string key_;
  const int64_t session_;
};

// Receives the notifications of one channel.
class PostgresTurns::Listener : public pqxx::notification_receiver {
 public:
  using Heard = std::function<void(const std::string& key)>;
  Listener(pqxx::connection& connection, const char* channel, Heard heard)
      : pqxx::notification_receiver(connection, channel), heard_(std::move(heard)) {}
  void operator()(const std::string& payload, int) override { heard_(payload); }

 private:
  const Heard heard_;
};

PostgresTurns::PostgresTurns(const Options& options)
    : options_{.uri = WithPostgresDefaults(options.uri),
               .poll_interval = options.poll_interval,
               .longest_statement = options.longest_statement,
               .sign_interval = options.sign_interval,
               .longest_silence = options.longest_silence},
      timer_(options.longest_statement),
      holders_(options.longest_silence) {
  PARPLAN_CHECK(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0);
  thread_ = std::thread([this] { Work(); });
}

PostgresTurns::~PostgresTurns() {
  PostgresTurns::Stop();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  Wake();
  thread_.join();
  close(wake_[0]);
  close(wake_[1]);
}

void PostgresTurns::Wake() {
  // A full pipe wakes the thread as well.
  [[maybe_unused]] const ssize_t written = write(wake_[1], "+", 1);
}

void PostgresTurns::Ask(const std::string& key, std::function<bool()> waits, Granted granted) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked_.push_back({key, std::move(waits), std::move(granted)});
  }
  Wake();
}

void PostgresTurns::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }
  Wake();
}

void PostgresTurns::GiveBack(const std::string& key, int64_t session) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    returned_.push_back({key, session});
  }
  Wake();
}

void PostgresTurns::Work() {
  absl::Duration next_look = SteadyNow() + options_.poll_interval;
  while (true) {
    std::deque<Question> asked;
    std::vector<Return> returned;
    bool stopped = false;
    bool ended = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      asked.swap(asked_);
      returned.swap(returned_);
      stopped = stopped_;
      ended = ended_;
    }
    try {
      Serve(std::move(asked), returned);
      if (stopped) {
        LookAtAll();
      } else if (SteadyNow() >= next_look) {
        LookAtAll();
        next_look = SteadyNow() + options_.poll_interval;
      }
      if (!held_.empty() && SteadyNow() >= next_signs_) SendSigns();
    } catch (const std::exception&) {
      Disconnect();
    }
    if (ended) {
      // Questions from before the end were answered above, and none can come after it.
      Disconnect();
      return;
    }
    try {
      WaitForNews();
    } catch (const std::exception&) {
      Disconnect();
    }
  }
}

void PostgresTurns::Serve(std::deque<Question> asked, const std::vector<Return>& returned) {
  // Questions are stored first, so that `Disconnect` finds them if something throws below.
  std::vector<std::string> keys;
  for (Question& question : asked) {
    keys.push_back(question.key);
    waiting_[question.key].push_back(std::move(question));
  }
  if (!keys.empty() && !Connect()) return Disconnect();
  for (const Return& turn : returned) {
    // A broken session has released the turn already.
    if (session_ == nullptr || turn.session != session_number_) continue;
    const auto held = held_.find(turn.key);
    if (held != held_.end() && --held->second == 0) held_.erase(held);
    const StatementTimer::Scope scope(timer_, session_->connection().sock());
    pqxx::nontransaction transaction(session_->connection());
    transaction.exec_params("SELECT pg_advisory_unlock(hashtextextended($1, 0))", turn.key);
    transaction.exec_params("SELECT pg_notify($1, $2)", kChannel, turn.key);
  }
  for (const std::string& key : keys) LookAgain(key);
  std::vector<std::string> news;
  news.swap(news_);
  for (const std::string& key : news) LookAgain(key);
}

bool PostgresTurns::TryTake(const std::string& key) {
  const StatementTimer::Scope scope(timer_, session_->connection().sock());
  pqxx::nontransaction transaction(session_->connection());
  const bool is_taken =
      transaction.exec_params("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key)[0][0]
          .as<bool>();
  if (!is_taken) return false;
  if (held_.empty()) next_signs_ = SteadyNow() + options_.sign_interval;
  ++held_[key];
  return true;
}

void PostgresTurns::SendSigns() {
  next_signs_ = SteadyNow() + options_.sign_interval;
  const StatementTimer::Scope scope(timer_, session_->connection().sock());
  pqxx::work transaction(session_->connection());
  for (const auto& [key, count] : held_) {
    transaction.exec_params("SELECT pg_notify($1, $2)", kSignChannel, key);
  }
  transaction.commit();
}

void PostgresTurns::LookAgain(const std::string& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  bool stopped = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped = stopped_;
  }
  while (!found->second.empty()) {
    std::unique_ptr<Turn> turn;
    if (!stopped && found->second.front().waits()) {
      if (session_ == nullptr) return;
      if (TryTake(key)) {
        turn = std::make_unique<HeldTurn>(this, key, session_number_);
      } else {
        holders_.Begin(key, SteadyNow());
        if (!holders_.IsSilent(key, SteadyNow())) return;
      }
    }
    const Question question = std::move(found->second.front());
    found->second.pop_front();
    question.granted(std::move(turn));
  }
  waiting_.erase(found);
  holders_.End(key);
}

void PostgresTurns::LookAtAll() {
  std::vector<std::string> keys;
  for (const auto& [key, questions] : waiting_) keys.push_back(key);
  for (const std::string& key : keys) LookAgain(key);
}

bool PostgresTurns::Connect() {
  if (session_ != nullptr) return true;
  if (SteadyNow() < next_connect_) return false;
  try {
    session_ = std::make_unique<PostgresSession>(options_.uri, &timer_);
    const StatementTimer::Scope scope(timer_, session_->connection().sock());
    listener_ = std::make_unique<Listener>(
        session_->connection(), kChannel, [this](const std::string& key) { news_.push_back(key); });
    sign_listener_ = std::make_unique<Listener>(
        session_->connection(), kSignChannel,
        [this](const std::string& key) { holders_.Heard(key, SteadyNow()); });
    ++session_number_;
    return true;
  } catch (const std::exception&) {
    sign_listener_.reset();
    listener_.reset();
    session_.reset();
    next_connect_ = SteadyNow() + options_.poll_interval;
    return false;
  }
}

void PostgresTurns::Disconnect() {
  if (session_ != nullptr) {
    // Its destructor asks the database to stop listening.
    const StatementTimer::Scope scope(timer_, session_->connection().sock());
    sign_listener_.reset();
    listener_.reset();
  }
  session_.reset();
  news_.clear();
  held_.clear();
  holders_.EndAll();
  std::map<std::string, std::deque<Question>> waiting;
  waiting.swap(waiting_);
  for (auto& [key, questions] : waiting) {
    for (const Question& question : questions) question.granted(nullptr);
  }
}

void PostgresTurns::WaitForNews() {
  // Notifications that arrived during a statement are in libpq, where poll does not see them.
  if (session_ != nullptr) session_->connection().get_notifs();
  if (!news_.empty()) return;
  pollfd waits[2] = {{.fd = wake_[0], .events = POLLIN, .revents = 0},
                     {.fd = session_ == nullptr ? -1 : session_->connection().sock(),
                      .events = POLLIN,
                      .revents = 0}};
  absl::Duration longest = absl::InfiniteDuration();
  if (!waiting_.empty()) longest = options_.poll_interval;
  if (!held_.empty()) {
    longest = std::min(longest, std::max(next_signs_ - SteadyNow(), absl::ZeroDuration()));
  }
  // One more, since a part of a millisecond is cut off.
  const int timeout = longest == absl::InfiniteDuration()
                          ? -1
                          : static_cast<int>(absl::ToInt64Milliseconds(longest)) + 1;
  poll(waits, 2, timeout);
  if (waits[0].revents != 0) {
    char bytes[256];
    while (read(wake_[0], bytes, sizeof bytes) > 0) {
    }
  }
  if (waits[1].revents != 0) session_->connection().get_notifs();
}

}  // namespace parplan
