// Laws of the queue of searches for random calls, and what an overload leaves to others, counted in
// steps of a clock of the test's own.

#include "server/core/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Id = FairQueue::Id;

// A slow and obvious queue beside the one under test, which checks every answer of it.
class CheckedQueue {
 public:
  explicit CheckedQueue(const FairQueue::Bounds& bounds) : bounds_(bounds), queue_(bounds) {}

  void Add(const SearchPlace& place) {
    const int waiting = CountWaiting(place.holder);
    std::set<std::string> holders = {place.holder};
    for (const auto& [id, entry] : waiting_) holders.insert(entry.holder);
    const int share = bounds_.max_length / static_cast<int>(holders.size());
    const bool exceeds = IsAtQuota(place);
    const auto added = queue_.Add(place);
    if (!added.ok()) {
      EXPECT_TRUE(GetRetryDelay(added.status()).has_value());
      EXPECT_EQ(ReasonOf(added.status()) == Reason::kQuotaExceeded, exceeds);
      if (!exceeds) {
        EXPECT_EQ(ReasonOf(added.status()), Reason::kQueueFull);
        EXPECT_EQ(static_cast<int>(waiting_.size()), bounds_.max_length);
        EXPECT_GE(waiting, share) << "a holder below its share was refused";
      }
      return;
    }
    EXPECT_FALSE(exceeds);
    if (added->displaced.has_value()) {
      const Id loser = added->displaced->id;
      EXPECT_EQ(static_cast<int>(waiting_.size()), bounds_.max_length);
      ASSERT_EQ(waiting_.count(loser), 1u);
      EXPECT_EQ(waiting_[loser].holder, added->displaced->holder);
      EXPECT_GT(CountWaiting(added->displaced->holder), share) << "below its share";
      EXPECT_GE(CountWaiting(added->displaced->holder) - 1, waiting + 1);
      for (const auto& [id, entry] : waiting_) {
        EXPECT_LE(CountWaiting(entry.holder), CountWaiting(added->displaced->holder));
        EXPECT_TRUE(entry.holder != added->displaced->holder || id <= loser);
      }
      waiting_.erase(loser);
    }
    waiting_[added->id] = place;
    Check();
  }

  void Take() {
    // The best rank of those that may run, and their oldest search.
    std::optional<std::tuple<int, int64_t, Id>> best;
    for (const auto& [id, entry] : waiting_) {
      if (!MayRun(entry)) continue;
      const std::tuple<int, int64_t, Id> rank = {CountRunning(entry.holder),
                                                 last_starts_[entry.holder], id};
      if (!best.has_value() || rank < *best) best = rank;
    }
    const std::optional<Id> taken = queue_.Take();
    ASSERT_EQ(taken.has_value(), best.has_value());
    if (!taken.has_value()) return;
    EXPECT_EQ(*taken, std::get<2>(*best));
    const SearchPlace place = waiting_.at(*taken);
    waiting_.erase(*taken);
    running_[*taken] = place;
    last_starts_[place.holder] = ++start_count_;
    Check();
  }

  void End(size_t position) {
    if (running_.empty()) return;
    const auto ended = std::next(running_.begin(), position % running_.size());
    const std::string holder = ended->second.holder;
    queue_.End(ended->first);
    running_.erase(ended);
    if (CountRunning(holder) == 0 && CountWaiting(holder) == 0) last_starts_.erase(holder);
    Check();
  }

  void Share(size_t position, const std::string& holder) {
    if (waiting_.empty()) return;
    const auto shared = std::next(waiting_.begin(), position % waiting_.size());
    const int of_holder = CountWaiting(holder);
    const int running = CountRunning(holder);
    const bool is_allowed =
        holder.empty() ||
        ((bounds_.max_waiting_of_holder == 0 || of_holder < bounds_.max_waiting_of_holder) &&
         (bounds_.max_running_of_holder == 0 || running < bounds_.max_running_of_holder));
    const bool moves = shared->second.holder != holder && is_allowed &&
                       of_holder + 1 < CountWaiting(shared->second.holder) &&
                       running <= CountRunning(shared->second.holder) &&
                       Turn(shared->first, holder) <= Turn(shared->first, shared->second.holder);
    queue_.Share(shared->first, holder);
    if (moves) shared->second.holder = holder;
    Check();
  }

 private:
  void Check() {
    EXPECT_EQ(queue_.waiting(), static_cast<int>(waiting_.size()));
    EXPECT_EQ(queue_.running(), static_cast<int>(running_.size()));
    EXPECT_LE(queue_.waiting(), bounds_.max_length);
    for (const auto& [id, entry] : waiting_) {
      EXPECT_EQ(queue_.waiting_of(entry.holder), CountWaiting(entry.holder));
    }
    for (const auto& [id, entry] : running_) {
      if (bounds_.max_running_of_holder > 0 && !entry.holder.empty()) {
        EXPECT_LE(CountRunning(entry.holder), bounds_.max_running_of_holder);
      }
      if (bounds_.max_running_of_cluster > 0) {
        EXPECT_LE(CountCluster(running_, entry.cluster), bounds_.max_running_of_cluster);
      }
    }
  }

  using Entries = std::map<Id, SearchPlace>;
  static int Count(const Entries& entries, const std::string& holder) {
    return static_cast<int>(std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.second.holder == holder;
    }));
  }
  static int CountCluster(const Entries& entries, const std::string& cluster) {
    return static_cast<int>(std::count_if(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.second.cluster == cluster;
    }));
  }
  int CountWaiting(const std::string& holder) const { return Count(waiting_, holder); }
  int CountRunning(const std::string& holder) const { return Count(running_, holder); }

  // Searches of the holder that start before this one, and when the holder had its last turn.
  std::pair<int, int64_t> Turn(Id id, const std::string& holder) const {
    const auto start = last_starts_.find(holder);
    return {Count(Entries(waiting_.begin(), waiting_.find(id)), holder),
            start == last_starts_.end() ? 0 : start->second};
  }

  bool IsAtQuota(const SearchPlace& place) const {
    return (!place.holder.empty() && bounds_.max_waiting_of_holder > 0 &&
            CountWaiting(place.holder) >= bounds_.max_waiting_of_holder) ||
           (bounds_.max_waiting_of_cluster > 0 &&
            CountCluster(waiting_, place.cluster) >= bounds_.max_waiting_of_cluster);
  }
  bool MayRun(const SearchPlace& place) const {
    return (place.holder.empty() || bounds_.max_running_of_holder == 0 ||
            CountRunning(place.holder) < bounds_.max_running_of_holder) &&
           (bounds_.max_running_of_cluster == 0 ||
            CountCluster(running_, place.cluster) < bounds_.max_running_of_cluster);
  }

  const FairQueue::Bounds bounds_;
  FairQueue queue_;
  Entries waiting_;
  Entries running_;
  std::map<std::string, int64_t> last_starts_;
  int64_t start_count_ = 0;
};

TEST(FairQueue, KeepsItsLawsForRandomCalls) {
  std::mt19937 random(7);
  const auto pick = [&random](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  for (int round = 0; round < 60; ++round) {
    FairQueue::Bounds bounds;
    bounds.max_length = 1 + pick(12);
    bounds.worker_count = 1 + pick(4);
    // Half of them have no such limit.
    bounds.max_running_of_holder = std::max(0, pick(6) - 2);
    bounds.max_waiting_of_holder = std::max(0, pick(10) - 4);
    bounds.max_running_of_cluster = std::max(0, pick(8) - 4);
    bounds.max_waiting_of_cluster = std::max(0, pick(16) - 8);
    CheckedQueue queue(bounds);
    const int holder_count = 1 + pick(5);
    for (int step = 0; step < 400; ++step) {
      // The first holder asks as often as all others; without a name it has no quotas.
      const int number = pick(2) == 0 ? 0 : pick(holder_count);
      const std::string holder = number == 0 && round % 3 == 0 ? "" : absl::StrCat("cn:", number);
      switch (pick(5)) {
        case 0:
          queue.Take();
          break;
        case 1:
          queue.End(pick(100));
          break;
        case 2:
          queue.Share(pick(100), holder);
          break;
        default:
          queue.Add({holder, absl::StrCat("cluster-", pick(2))});
      }
      if (testing::Test::HasFailure()) FAIL() << "round " << round << ", step " << step;
    }
  }
}

TEST(FairQueue, HoldersTakeTurnsAndTheirSearchesStayInOrder) {
  FairQueue queue({.max_length = 10, .worker_count = 1});
  std::map<Id, std::string> names;
  for (const char* name : {"a1", "a2", "a3", "b1", "b2", "c1"}) {
    ASSERT_OK_AND_ASSIGN(const auto added, queue.Add({std::string(name, 1), "lab"}));
    names[added.id] = name;
  }
  std::vector<std::string> order;
  while (const std::optional<Id> next = queue.Take()) {
    order.push_back(names[*next]);
    queue.End(*next);
  }
  EXPECT_THAT(order, ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

// The other holder may run no more searches, or runs more of them and so is not next.
TEST(FairQueue, ASearchComesNoLaterForBeingShared) {
  for (const int limit : {3, 0}) {
    FairQueue queue({.max_length = 10, .worker_count = 5, .max_running_of_holder = limit});
    for (int i = 0; i < 3; ++i) ASSERT_OK(queue.Add({"cn:many", "lab"}));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.Take().has_value());
    std::vector<Id> ids;
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto added, queue.Add({"cn:one", "lab"}));
      ids.push_back(added.id);
    }
    EXPECT_EQ(queue.Take(), ids[0]);
    queue.Share(ids[1], "cn:many");
    EXPECT_EQ(queue.Take(), ids[1]) << limit;
  }
}

// The other holder has an older search, or had its turn later.
TEST(FairQueue, ASearchThatIsNextStaysSoWhenItIsShared) {
  for (const bool has_older : {true, false}) {
    FairQueue queue({.max_length = 10, .worker_count = 5});
    std::vector<Id> others;
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto added, queue.Add({"cn:other", "lab"}));
      others.push_back(added.id);
    }
    std::vector<Id> ids;
    for (int i = 0; i < 6; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto added, queue.Add({"cn:many", "lab"}));
      ids.push_back(added.id);
    }
    EXPECT_EQ(queue.Take(), others[0]);
    if (!has_older) {
      EXPECT_EQ(queue.Take(), ids[0]);
      EXPECT_EQ(queue.Take(), others[1]);
    }
    queue.End(others[0]);
    const Id next = has_older ? ids[0] : ids[1];
    queue.Share(next, "cn:other");
    EXPECT_EQ(queue.Take(), next) << has_older;
  }
}

TEST(FairQueue, QuotasNameThemselvesTheirHolderAndTheirLimit) {
  FairQueue queue({.max_length = 100,
                   .worker_count = 2,
                   .max_waiting_of_holder = 2,
                   .max_waiting_of_cluster = 3});
  ASSERT_OK(queue.Add({"cn:me", "lab"}));
  ASSERT_OK(queue.Add({"cn:me", "lab"}));
  const absl::Status mine = queue.Add({"cn:me", "other"}).status();
  EXPECT_THAT(mine, StatusIs(absl::StatusCode::kResourceExhausted,
                             testing::HasSubstr("identity.queued_searches")));
  EXPECT_EQ(ReasonOf(mine), Reason::kQuotaExceeded);
  EXPECT_EQ(FactOf(mine, "quota"), "identity.queued_searches");
  EXPECT_EQ(FactOf(mine, "holder"), "cn:me");
  EXPECT_EQ(FactOf(mine, "limit"), "2");
  EXPECT_EQ(FactOf(mine, "value"), "3");
  EXPECT_EQ(GetRetryDelay(mine), absl::Seconds(1));
  ASSERT_OK(queue.Add({"cn:you", "lab"}));
  const absl::Status labs = queue.Add({"", "lab"}).status();
  EXPECT_EQ(FactOf(labs, "quota"), "cluster.queued_searches");
  EXPECT_EQ(FactOf(labs, "holder"), "lab");
  // Those without a holder have no quota of an identity.
  for (int i = 0; i < 3; ++i) EXPECT_OK(queue.Add({"", "other"}));
}

TEST(FairQueue, TheTimeToRetryGrowsWithTheQueueUpToHalfAMinute) {
  FairQueue queue({.max_length = 200, .worker_count = 4});
  for (int i = 0; i < 40; ++i) ASSERT_OK(queue.Add({"a", "lab"}));
  EXPECT_EQ(GetRetryDelay(queue.DisplacedError()), absl::Seconds(10));
  for (int i = 0; i < 160; ++i) ASSERT_OK(queue.Add({"a", "lab"}));
  const absl::Status full = queue.Add({"a", "lab"}).status();
  EXPECT_EQ(GetRetryDelay(full), absl::Seconds(30));
  EXPECT_EQ(FactOf(full, "queueLength"), "200");
}

TEST(FairQueue, WhatIsClearedIsGoneAndWhatRunsGoesOn) {
  FairQueue queue({.max_length = 5, .worker_count = 1});
  ASSERT_OK_AND_ASSIGN(const auto first, queue.Add({"a", "lab"}));
  ASSERT_OK_AND_ASSIGN(const auto second, queue.Add({"b", "lab"}));
  EXPECT_EQ(queue.Take(), first.id);
  EXPECT_THAT(queue.Clear(), ElementsAre(second.id));
  EXPECT_THAT(queue.Clear(), IsEmpty());
  EXPECT_EQ(queue.waiting(), 0);
  EXPECT_EQ(queue.running(), 1);
  queue.End(first.id);
  EXPECT_EQ(queue.running(), 0);
}

// Simulates callers and workers in steps. Every search takes `kSearchSteps` of a worker.
constexpr int kSearchSteps = 100;

struct Asker {
  std::string name;
  // Steps from an answer, or a refusal, to the next question. With 0, `burst` questions come at
  // each step, whatever became of the others.
  int pause = 0;
  int burst = 0;
};

struct Experience {
  int asked = 0;
  int refused = 0;  // Displaced ones included.
  std::vector<int> latencies;

  int Percentile(int percent) {
    std::sort(latencies.begin(), latencies.end());
    return latencies.at((latencies.size() - 1) * percent / 100);
  }
};

std::map<std::string, Experience> Simulate(const FairQueue::Bounds& bounds,
                                           const std::vector<Asker>& askers, int step_count) {
  FairQueue queue(bounds);
  std::map<std::string, Experience> experiences;
  std::map<std::string, int> next_question;
  std::map<Id, std::pair<std::string, int>> questions;  // Name of the asker, step of the question.
  std::map<Id, int> ends;                               // Of searches that run.
  // Quiet callers begin at different times.
  for (size_t i = 0; i < askers.size(); ++i) {
    next_question[askers[i].name] = static_cast<int>(i) * 37 % kSearchSteps;
  }
  for (int step = 0; step < step_count; ++step) {
    for (auto end = ends.begin(); end != ends.end();) {
      if (end->second > step) {
        ++end;
        continue;
      }
      const auto [name, asked] = questions.at(end->first);
      experiences[name].latencies.push_back(step - asked);
      queue.End(end->first);
      for (const Asker& asker : askers) {
        if (asker.name == name) next_question[name] = step + asker.pause;
      }
      end = ends.erase(end);
    }
    for (const Asker& asker : askers) {
      const bool is_quiet = asker.burst == 0;
      if (is_quiet && next_question[asker.name] != step) continue;
      for (int i = 0; i < (is_quiet ? 1 : asker.burst); ++i) {
        ++experiences[asker.name].asked;
        const auto added = queue.Add({asker.name, "lab"});
        if (!added.ok()) {
          ++experiences[asker.name].refused;
          next_question[asker.name] = step + std::max(asker.pause, 1);
          continue;
        }
        questions[added->id] = {asker.name, step};
        if (added->displaced.has_value()) ++experiences[added->displaced->holder].refused;
      }
    }
    while (static_cast<int>(ends.size()) < bounds.worker_count) {
      const std::optional<Id> next = queue.Take();
      if (!next.has_value()) break;
      ends[*next] = step + kSearchSteps;
    }
  }
  return experiences;
}

// Four workers and four identities: each one's share is a worker. Three use most of theirs; the
// fourth asks for ten times its share.
TEST(FairQueue, OneIdentityAtTenTimesItsShareLeavesTheOthersUnrefusedAndQuick) {
  const FairQueue::Bounds bounds = {
      .max_length = 16, .worker_count = 4, .max_running_of_holder = 3};
  std::vector<Asker> askers = {{"cn:a", 20}, {"cn:b", 31}, {"cn:c", 47}};
  constexpr int kSteps = 200 * kSearchSteps;
  std::map<std::string, Experience> alone = Simulate(bounds, askers, kSteps);
  // A question in ten steps is ten times what one worker answers.
  askers.push_back({.name = "cn:noisy", .pause = 0, .burst = 1});
  for (const int burst : {1, 20}) {
    askers.back().burst = burst;
    std::map<std::string, Experience> crowded = Simulate(bounds, askers, kSteps);
    for (const char* name : {"cn:a", "cn:b", "cn:c"}) {
      EXPECT_EQ(alone[name].refused, 0);
      EXPECT_EQ(crowded[name].refused, 0) << name;
      EXPECT_GT(crowded[name].latencies.size(), 90u) << name;
      EXPECT_EQ(alone[name].Percentile(99), kSearchSteps) << name;
      EXPECT_LT(crowded[name].Percentile(99), 2 * alone[name].Percentile(99)) << name;
    }
    EXPECT_GT(crowded["cn:noisy"].refused, 10 * kSteps / kSearchSteps);
    // What the others leave is used, but for moments in which the worker kept free waits for them.
    size_t answered = 0;
    for (const auto& [name, experience] : crowded) answered += experience.latencies.size();
    EXPECT_GT(answered, size_t{7} * kSteps / kSearchSteps / 2);
  }
}

// As many identities at ten times their shares as there are places in the queue.
TEST(FairQueue, ManyNoisyIdentitiesLeaveAPlaceForAQuietOne) {
  const FairQueue::Bounds bounds = {
      .max_length = 16, .worker_count = 2, .max_running_of_holder = 1};
  std::vector<Asker> askers = {{"cn:quiet", 50}};
  for (int i = 0; i < 15; ++i) {
    askers.push_back({.name = absl::StrCat("cn:noisy-", i), .pause = 0, .burst = 1});
  }
  std::map<std::string, Experience> crowded = Simulate(bounds, askers, 200 * kSearchSteps);
  EXPECT_EQ(crowded["cn:quiet"].refused, 0);
  EXPECT_GT(crowded["cn:quiet"].latencies.size(), 10u);
}

}  // namespace
}  // namespace parplan
