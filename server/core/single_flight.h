// Lets equal questions in flight share one search. Used by `PlanCore` and `ShapeCore`.

#ifndef PARPLAN_SERVER_CORE_SINGLE_FLIGHT_H_
#define PARPLAN_SERVER_CORE_SINGLE_FLIGHT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/system/clock.h"
#include "base/system/memory_account.h"
#include "parplan/v1/plan_service.pb.h"
#include "server/core/call_context.h"

namespace parplan {

// The callers that wait for one answer. A caller that leaves does not disturb the others; once all
// have left, `ShouldStop` ends the work. Safe to use from any thread.
template <typename Answer>
class Flight : public std::enable_shared_from_this<Flight<Answer>> {
 public:
  // Called exactly once for a caller who joined, without any lock, on the thread that ended its
  // wait: that of `Finish`, `ShouldStop`, `Refuse` or of the cancellation of the call; that of
  // `Join` if the call was cancelled before.
  using Done = std::function<void(const absl::StatusOr<Answer>&)>;
  // Never called once `Done` has begun. REQUIRES, unchecked: it does not cancel its own call, which
  // would wait for it.
  using Progress = std::function<void(const v1::SearchProgress&)>;

  // `on_closed` runs once, when the flight accepts no more callers.
  Flight(const Clock& clock, std::function<void(const Flight*)> on_closed)
      : clock_(clock), on_closed_(std::move(on_closed)) {}

  // Adds a caller. Returns false if the flight has ended or is about to: the caller must start
  // another. `progress` may be empty. A call that is cancelled leaves by itself, with CANCELLED.
  bool Join(const std::shared_ptr<CallContext>& context, Progress progress, Done done) {
    int64_t id = 0;
    std::function<void(const std::string&)> on_shared;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return false;
      on_shared = on_shared_;
      id = next_waiter_++;
      const absl::Duration time_left = context->deadline() - clock_.Steady();
      // Time to sign, store and send the best plan once the search must stop: a tenth of short
      // deadlines, so that the search keeps most of them, and at most half a second. Not measured.
      const absl::Duration reserve =
          std::clamp(time_left / 10, absl::ZeroDuration(), absl::Milliseconds(500));
      waiters_[id] = std::make_shared<Waiter>(context, context->deadline() - reserve,
                                              std::move(progress), std::move(done));
    }
    if (on_shared) on_shared(context->caller()->owner());
    const std::weak_ptr<Flight> weak = this->weak_from_this();
    const int64_t registration = context->OnCancel([weak, id] {
      if (const std::shared_ptr<Flight> flight = weak.lock()) {
        flight->Leave(id, absl::CancelledError("the call was cancelled"));
      }
    });
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = waiters_.find(id);
      if (found != waiters_.end()) {
        found->second->registration = registration;
        return true;
      }
    }
    context->RemoveOnCancel(registration);
    return true;
  }

  // Returns whether the search must end now, because no caller waits any more or because the last
  // of them must have the best answer so far. Called often by the search. Also ends the wait of
  // callers whose own deadline has passed, with SEARCH_TIMED_OUT, while others wait on.
  bool ShouldStop() {
    const absl::Duration now = clock_.Steady();
    std::vector<int64_t> late;
    bool stop = true;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [id, waiter] : waiters_) {
        if (now >= waiter->context->deadline()) late.push_back(id);
        if (now < waiter->answer_by) stop = false;
      }
      // A caller that comes from now on has more time than this search was given.
      if (stop) closed_ = true;
    }
    if (stop) {
      CloseOnce();
    } else {
      for (const int64_t id : late) Leave(id, TimeoutError());
    }
    return stop;
  }

  // Calls the `progress` of every caller that has one and still waits, on this thread.
  void ReportProgress(const v1::SearchProgress& progress) {
    std::vector<std::shared_ptr<Waiter>> listeners;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [id, waiter] : waiters_) {
        if (waiter->progress) listeners.push_back(waiter);
      }
    }
    for (const std::shared_ptr<Waiter>& waiter : listeners) {
      const std::lock_guard<std::mutex> lock(waiter->mutex);
      if (!waiter->left) waiter->progress(progress);
    }
  }

  // Calls `on_shared` with the owner (`Caller::owner`) of the callers that wait, once for each
  // owner and on this thread, and of each caller that joins later, on the thread of its `Join`.
  // Replaces a function of a search with a lower id; does nothing if there is one with a higher id,
  // for that search took the place of this one in the meantime.
  void OnShared(int64_t search, const std::function<void(const std::string& owner)>& on_shared) {
    std::set<std::string> owners;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (search < shared_search_) return;
      shared_search_ = search;
      for (const auto& [id, waiter] : waiters_) owners.insert(waiter->context->caller()->owner());
      on_shared_ = on_shared;
    }
    for (const std::string& owner : owners) on_shared(owner);
  }

  // Ends the wait of the callers of an owner with `status`. Returns the owner of the caller that
  // came first of those left; nothing if none is, and the flight has ended.
  std::optional<std::string> Refuse(const std::string& owner, const absl::Status& status) {
    std::vector<int64_t> refused;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [id, waiter] : waiters_) {
        if (waiter->context->caller()->owner() == owner) refused.push_back(id);
      }
    }
    for (const int64_t id : refused) Leave(id, status);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiters_.empty()) return std::nullopt;
    return waiters_.begin()->second->context->caller()->owner();
  }

  // Ends the flight: hands `answer` to every caller that still waits, in the order of their
  // arrival, on this thread.
  void Finish(const absl::StatusOr<Answer>& answer) {
    std::map<int64_t, std::shared_ptr<Waiter>> waiters;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
      waiters.swap(waiters_);
    }
    CloseOnce();
    for (const auto& [id, waiter] : waiters) Deliver(waiter, answer);
  }

  // Sets whether the flight waits for a search of another server; a new one does not. It changes
  // only the text of `TimeoutError`.
  void SetWaitsForServer(bool waits) { waits_for_server_ = waits; }

  // Returns SEARCH_TIMED_OUT, saying where the time went.
  absl::Status TimeoutError() const {
    return MakeError(absl::StatusCode::kDeadlineExceeded, Reason::kSearchTimedOut,
                     waits_for_server_
                         ? "the deadline passed while another server searched the same question, "
                           "and none was begun here; ask again with a longer deadline"
                         : "the deadline passed before a plan was found; ask again with a longer "
                           "deadline, a lower max_state_count or a smaller planner");
  }

 private:
  struct Waiter {
    Waiter(std::shared_ptr<CallContext> context, absl::Duration answer_by, Progress progress,
           Done done)
        : context(std::move(context)),
          answer_by(answer_by),
          progress(std::move(progress)),
          done(std::move(done)) {}

    const std::shared_ptr<CallContext> context;
    // On the steady clock: a little before the deadline.
    const absl::Duration answer_by;
    const Progress progress;
    const Done done;
    int64_t registration = 0;  // Guarded by the flight's mutex.
    std::mutex mutex;          // Held while `progress` runs.
    bool left = false;         // Guarded by mutex.
  };

  // Removes one caller, with `status` as its answer.
  void Leave(int64_t id, const absl::Status& status) {
    std::shared_ptr<Waiter> waiter;
    bool last = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = waiters_.find(id);
      if (found == waiters_.end()) return;
      waiter = std::move(found->second);
      waiters_.erase(found);
      if (waiters_.empty()) last = closed_ = true;
    }
    if (last) CloseOnce();
    Deliver(waiter, status);
  }

  void Deliver(const std::shared_ptr<Waiter>& waiter, const absl::StatusOr<Answer>& answer) {
    {
      const std::lock_guard<std::mutex> lock(waiter->mutex);
      waiter->left = true;
    }
    waiter->context->RemoveOnCancel(waiter->registration);
    // Answers are no part of a search on this thread, whose memory may be used up.
    const MemoryAccount::Scope uncounted(nullptr);
    waiter->done(answer);
  }

  void CloseOnce() {
    std::function<void(const Flight*)> on_closed;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      on_closed.swap(on_closed_);
    }
    if (on_closed) on_closed(this);
  }

  const Clock& clock_;
  std::atomic<bool> waits_for_server_ = false;
  std::mutex mutex_;
  std::function<void(const Flight*)> on_closed_;  // Guarded by mutex_; empty once run.
  // Empty until it is set.
  std::function<void(const std::string&)> on_shared_;   // Guarded by mutex_.
  int64_t shared_search_ = 0;                           // Guarded by mutex_.
  bool closed_ = false;                                 // Guarded by mutex_.
  int64_t next_waiter_ = 1;                             // Guarded by mutex_.
  std::map<int64_t, std::shared_ptr<Waiter>> waiters_;  // Guarded by mutex_; by arrival.
};

// The flights in progress, by the key of their question. Safe to use from any thread.
template <typename Answer>
class SingleFlight {
 public:
  using FlightPointer = std::shared_ptr<Flight<Answer>>;

  // `clock` outlives every flight.
  explicit SingleFlight(const Clock& clock) : table_(std::make_shared<Table>()), clock_(clock) {}

  // Joins the flight of `key`, or makes one and calls `start` with it, which must see to it that
  // `Finish` is called. If `start` fails, the flight ends with that error. Returns whether the
  // caller joined a flight that was in progress.
  bool Join(const std::string& key, const std::shared_ptr<CallContext>& context,
            const typename Flight<Answer>::Progress& progress,
            const typename Flight<Answer>::Done& done,
            const std::function<absl::Status(const FlightPointer&)>& start) {
    while (true) {
      bool is_new = false;
      const FlightPointer flight = FindOrMake(key, &is_new);
      if (!flight->Join(context, progress, done)) {
        table_->Remove(key, flight.get());
        continue;
      }
      if (!is_new) return true;
      const absl::Status started = start(flight);
      if (!started.ok()) flight->Finish(started);
      return false;
    }
  }

 private:
  struct Table {
    void Remove(const std::string& key, const Flight<Answer>* flight) {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto found = flights.find(key);
      if (found != flights.end() && found->second.get() == flight) flights.erase(found);
    }

    std::mutex mutex;
    std::unordered_map<std::string, FlightPointer> flights;  // Guarded by mutex.
  };

  FlightPointer FindOrMake(const std::string& key, bool* is_new) {
    const std::lock_guard<std::mutex> lock(table_->mutex);
    FlightPointer& entry = table_->flights[key];
    if (entry == nullptr) {
      *is_new = true;
      // The table holds the flight, so the flight must not hold the table.
      entry = std::make_shared<Flight<Answer>>(
          clock_, [weak = std::weak_ptr<Table>(table_), key](const Flight<Answer>* flight) {
            if (const std::shared_ptr<Table> table = weak.lock()) table->Remove(key, flight);
          });
    }
    return entry;
  }

  const std::shared_ptr<Table> table_;
  const Clock& clock_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_SINGLE_FLIGHT_H_
