// Stand-ins for the world around the core: a clock one can set, an observer that
// remembers, a planner that waits.

#ifndef PARPLAN_TESTS_SERVER_CORE_FAKES_H_
#define PARPLAN_TESTS_SERVER_CORE_FAKES_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "planner/find_plan.h"
#include "server/core/observer.h"

namespace parplan {

// Moves only when a test advances it.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }
  absl::Duration Steady() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return steady_;
  }

  // Time passes: both clocks go on.
  void Advance(absl::Duration duration) {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ += duration;
    steady_ += duration;
  }

  // Sets the time of day, forward or back, without passing time.
  void Jump(absl::Duration duration) {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ += duration;
  }

 private:
  mutable std::mutex mutex_;
  absl::Time now_ = absl::FromUnixSeconds(1800000000);
  absl::Duration steady_ = absl::Hours(1);
};

// Remembers everything.
class RecordingObserver : public Observer {
 public:
  void QueueChanged(int waiting, int running) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = waiting;
    running_ = running;
    changed_.notify_all();
  }
  void CacheLookedUp(CacheKind cache, bool hit) override {
    if (hit) ++hits[static_cast<int>(cache)];
  }
  void SearchShared() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++shared_;
    changed_.notify_all();
  }
  void SearchFinished(const SearchReport& report) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    searches_.push_back(report);
  }
  void PlanIssued(const PlanReport& report) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    plans_.push_back(report);
  }
  void UploadFinished(std::optional<Reason> reason, bool stored, int64_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    uploads_.emplace_back(stored, reason);
  }
  void PlanVerified(VerifyOutcome outcome) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    verdicts_.push_back(outcome);
  }
  void ProfileStored(const SnapshotReport& report) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    profiles_.push_back(report);
  }
  void SnapshotLoaded(const SnapshotReport& report) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshots_.push_back(report);
  }
  void ProfilesSeen(absl::string_view cluster, const std::vector<StoredKind>& kinds) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    stored_kinds_.emplace_back(std::string(cluster), kinds);
  }
  void CalibrationSeen(absl::string_view, std::optional<absl::Time> active_since) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    calibrations_.push_back(active_since);
  }
  void ExecutionClosed(absl::string_view, bool succeeded, std::optional<double> ratio) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_.emplace_back(succeeded, ratio);
  }
  void PhaseMeasured(int phase, double ratio) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    phase_ratios_.emplace_back(phase, ratio);
  }
  void MemoryItemMeasured(int kind, double ratio) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    item_ratios_.emplace_back(kind, ratio);
  }
  void WindowsStored(int64_t count) override { windows += count; }
  void AgentsChanged(int agent_count, int lease_count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    agents_ = agent_count;
    leases_ = lease_count;
  }
  void ClusterAgentsChanged(absl::string_view cluster, int agent_count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    cluster_agents_[std::string(cluster)] = agent_count;
  }
  void AgentHeard(absl::string_view cluster, absl::Time time) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_[std::string(cluster)] = time;
  }
  void LeaseEnded(LeaseOutcome outcome, absl::Duration) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    lease_ends_.push_back(outcome);
  }
  void StoreCalled(StoreOperation operation, absl::StatusCode code, absl::Duration) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++store_calls_[{operation, code}];
  }
  void SigningKeysSeen(absl::Time last_expiry) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    key_expiries_.push_back(last_expiry);
  }
  void StoreTried(bool can_write) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    store_tries_.push_back(can_write);
  }
  void SigningKeysCounted(int count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    signing_key_count_ = count;
  }

  std::vector<SearchReport> searches() const { return Copy(searches_); }
  std::vector<PlanReport> plans() const { return Copy(plans_); }
  std::vector<std::pair<bool, std::optional<Reason>>> uploads() const { return Copy(uploads_); }
  std::vector<VerifyOutcome> verdicts() const { return Copy(verdicts_); }
  std::vector<std::pair<bool, std::optional<double>>> closed() const { return Copy(closed_); }

  std::vector<std::pair<int, double>> phase_ratios() const { return Copy(phase_ratios_); }
  std::vector<std::pair<int, double>> item_ratios() const { return Copy(item_ratios_); }
  std::vector<LeaseOutcome> lease_ends() const { return Copy(lease_ends_); }
  std::vector<bool> store_tries() const { return Copy(store_tries_); }
  // -1 until it was counted.
  int signing_key_count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return signing_key_count_;
  }
  std::vector<SnapshotReport> profiles() const { return Copy(profiles_); }
  std::vector<SnapshotReport> snapshots() const { return Copy(snapshots_); }
  // Stored content of clusters, as reported.
  std::vector<std::pair<std::string, std::vector<StoredKind>>> stored_kinds() const {
    return Copy(stored_kinds_);
  }
  std::vector<std::optional<absl::Time>> calibrations() const { return Copy(calibrations_); }
  std::vector<absl::Time> key_expiries() const { return Copy(key_expiries_); }
  // Last reported number of agents of a cluster; -1 if there was none.
  int agents_of(const std::string& cluster) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = cluster_agents_.find(cluster);
    return found == cluster_agents_.end() ? -1 : found->second;
  }
  absl::Time heard(const std::string& cluster) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = heard_.find(cluster);
    return found == heard_.end() ? absl::InfinitePast() : found->second;
  }
  int store_calls(StoreOperation operation, absl::StatusCode code = absl::StatusCode::kOk) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = store_calls_.find({operation, code});
    return found == store_calls_.end() ? 0 : found->second;
  }
  int agents() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return agents_;
  }
  int leases() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return leases_;
  }

  // Waits until so many searches wait or run.
  void AwaitWaiting(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }
  void AwaitRunning(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return running_ == count; });
  }
  void AwaitShared(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return shared_ >= count; });
  }

  std::atomic<int> hits[kCacheKindCount] = {};
  std::atomic<int64_t> windows = 0;

 private:
  template <typename T>
  std::vector<T> Copy(const std::vector<T>& values) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return values;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int running_ = 0;
  int shared_ = 0;
  std::vector<std::pair<int, double>> phase_ratios_;
  std::vector<std::pair<int, double>> item_ratios_;
  int agents_ = 0;
  int leases_ = 0;
  std::vector<LeaseOutcome> lease_ends_;
  std::map<std::string, int> cluster_agents_;
  std::map<std::string, absl::Time> heard_;
  std::map<std::pair<StoreOperation, absl::StatusCode>, int> store_calls_;
  int signing_key_count_ = -1;
  std::vector<bool> store_tries_;
  std::vector<absl::Time> key_expiries_;
  std::vector<SnapshotReport> profiles_;
  std::vector<SnapshotReport> snapshots_;
  std::vector<std::pair<std::string, std::vector<StoredKind>>> stored_kinds_;
  std::vector<std::optional<absl::Time>> calibrations_;
  std::vector<SearchReport> searches_;
  std::vector<PlanReport> plans_;
  std::vector<std::pair<bool, std::optional<Reason>>> uploads_;
  std::vector<VerifyOutcome> verdicts_;
  std::vector<std::pair<bool, std::optional<double>>> closed_;
};

// Counts searches, and holds each at its start while the gate is shut: until the gate opens or the
// search is told to stop.
class GatedPlanner {
 public:
  absl::StatusOr<PlanningResult> operator()(const PlanningProblem& problem,
                                            absl::string_view planner,
                                            const SearchControl& control) {
    ++search_count;
    while (!is_open) {
      if (control.should_stop && control.should_stop()) {
        ++stopped_count;
        return PlanningResult(StoppedEmpty{});
      }
      std::this_thread::yield();
    }
    if (watch_control) watch_control(control);
    absl::StatusOr<PlanningResult> result =
        FindPlan(change_problem ? change_problem(problem) : problem, planner, control);
    if (result.ok() && change_found) change_found(std::get<PlanFound>(*result));
    if (result.ok() && change_result) change_result(*result);
    return result;
  }

  // Set before a question is asked; may be empty.
  std::function<void(const SearchControl&)> watch_control;
  std::function<PlanningProblem(const PlanningProblem&)> change_problem;
  std::function<void(PlanFound&)> change_found;
  std::function<void(PlanningResult&)> change_result;

  std::atomic<bool> is_open = true;
  std::atomic<int> search_count = 0;
  std::atomic<int> stopped_count = 0;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_CORE_FAKES_H_
