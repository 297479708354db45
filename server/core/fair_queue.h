// The searches that wait and run, in an order that is fair between the identities that asked for
// them. Pure: knows neither threads nor clocks. `SearchPool` owns one.
//
//   FairQueue queue({.max_length = 64, .worker_count = 4});
//   PARPLAN_ASSIGN_OR_RETURN(const FairQueue::Added added, queue.Add({"cn:slurm", "west"}));
//   if (added.displaced.has_value()) Refuse(*added.displaced);
//   const std::optional<FairQueue::Id> next = queue.Take();  // some worker is free
//   queue.End(*next);                                        // its search is done
//
// These hold for any sequence of calls; n is the number of holders that have a search waiting, the
// one that asks included:
//
//   a place for each    A holder with fewer than max_length / n searches waiting, rounded down, is
//                       never refused for a full queue, and none of its searches is displaced.
//   a worker for each   Of the holders that may run another search, the one with the fewest running
//                       is next; among equals the one whose last start is longest ago, then the
//                       one whose search came first. A holder that had no search for a moment
//                       counts as one that never started any. Searches of one holder start in the
//                       order in which they came, except those that the quota of a cluster holds
//                       back.
//   no idle worker      `Take` returns a search if any may run.

#ifndef PARPLAN_SERVER_CORE_FAIR_QUEUE_H_
#define PARPLAN_SERVER_CORE_FAIR_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace parplan {

// On whose behalf a search runs. All searches without a holder share one place; quotas of
// identities do not apply to them.
struct SearchPlace {
  // Identity of the caller, empty for no holder; and the cluster of the question.
  std::string holder;
  std::string cluster;
};

// Not thread-safe.
class FairQueue {
 public:
  using Id = int64_t;

  // The bounds of the queue, and of holders and clusters in it.
  struct Bounds {
    // Searches that wait, in all.
    int max_length = 1;
    // Threads that search; only for the time after which to ask again.
    int worker_count = 1;
    // Searches of one holder, and of one cluster, that run and wait; 0 for no limit.
    int max_running_of_holder = 0;
    int max_waiting_of_holder = 0;
    int max_running_of_cluster = 0;
    int max_waiting_of_cluster = 0;
  };

  // A search that lost its place in the queue to that of another holder: it was not started, and
  // its caller must be refused (`DisplacedError`).
  struct Displaced {
    Id id = 0;
    std::string holder;
  };
  // The search that was added, and the one that gave its place for it; `displaced` is absent if
  // there was room.
  struct Added {
    Id id = 0;
    std::optional<Displaced> displaced;
  };

  // REQUIRES: `max_length` and `worker_count` are above 0; aborts otherwise.
  explicit FairQueue(const Bounds& bounds);

  // Adds a search. If the queue is full, it takes the place of the youngest search of the holder
  // with the most, which `displaced` then names, provided that this one then has no fewer than the
  // new one's. RESOURCE_EXHAUSTED: QUOTA_EXCEEDED for a quota, QUEUE_FULL with the `queueLength`;
  // both with the time to retry. Quotas of holders do not apply to the empty holder.
  absl::StatusOr<Added> Add(const SearchPlace& place);

  // Starts the next search; nothing if none waits that may run. Linear in the number of holders,
  // and of searches that the quota of a cluster holds back.
  std::optional<Id> Take();

  // Ends a search that runs. REQUIRES: `Take` returned it and it has not ended; a search that still
  // waits is not noticed, any other id ends the program.
  void End(Id id);

  // Another holder waits for the same search. Gives the search to this one if that has at least two
  // fewer waiting, no more running, and its quotas allow the search to wait and to run, unless more
  // of its own searches are older, or as many and it had its last turn later: as a rule the search
  // then comes no later and is displaced later. Does nothing for a search that does not wait any
  // more. Linear in the number of searches of the two that wait.
  void Share(Id id, const std::string& holder);

  // Drops all searches that wait, and returns them, oldest first.
  std::vector<Id> Clear();

  // Returns the error for a search that was displaced: RESOURCE_EXHAUSTED (QUEUE_FULL) as of now,
  // with the time to retry.
  absl::Status DisplacedError() const;

  // Numbers of searches, of all holders, that wait and that run.
  int waiting() const { return waiting_; }
  int running() const { return running_; }
  // Returns the number of searches of a holder that wait.
  int waiting_of(const std::string& holder) const;

 private:
  struct Holder {
    std::set<Id> waiting;  // Ids grow in the order of arrival.
    int running = 0;
    int64_t last_start = 0;
  };
  struct Cluster {
    int waiting = 0;
    int running = 0;
  };

  absl::Status CheckQuotas(const SearchPlace& place) const;
  absl::Status FullError(const char* cause) const;
  // Returns the search that may make room for one of `holder`.
  std::optional<Displaced> FindDisplaced(const std::string& holder) const;
  // Returns the oldest search of the holder that may run.
  std::optional<Id> NextOf(const std::string& name, const Holder& holder) const;
  void RemoveWaiting(Id id);
  // Forgets a holder and a cluster that have no search.
  void Tidy(const SearchPlace& place);

  const Bounds bounds_;
  std::map<Id, SearchPlace> places_;  // Of all searches that wait or run.
  std::map<std::string, Holder> holders_;
  std::map<std::string, Cluster> clusters_;
  int waiting_ = 0;
  int running_ = 0;
  Id last_id_ = 0;
  int64_t start_count_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_FAIR_QUEUE_H_
