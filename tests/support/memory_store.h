// A store in memory that implements server/store/store.h and can be made to fail.

#ifndef PARPLAN_TESTS_SUPPORT_MEMORY_STORE_H_
#define PARPLAN_TESTS_SUPPORT_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/store.h"

namespace parplan {

// Records live as long as one of the stores over them.
class MemoryStore : public Store {
 public:
  // Empty.
  MemoryStore();

  // Another store over the same records: a server that ends and starts again.
  std::unique_ptr<MemoryStore> OpenAgain() const;

  // Makes every call return UNAVAILABLE and change nothing, until it is called with false.
  void SetBroken(bool broken);

  // The first `count` calls from now on still work.
  void BreakAfter(int count);

  // Makes every call that changes something fail as on a full disk, until it is called with false.
  void SetFull(bool full);

  // Calls `before` at the beginning of every `PutPlan`, except of those that it makes itself: what
  // another server does in the meantime. Null for nothing.
  void BeforePutPlan(std::function<void()> before);

  // Plans put so far, those that changed nothing included.
  int put_plan_count() const;

  // Profiles that were read for snapshots so far.
  int64_t snapshot_profile_count() const;

  absl::Status TryWrite() override;
  using Store::PutProfile;
  absl::StatusOr<ProfileRecord> PutProfile(ProfileRecord profile, int64_t keep_count) override;
  absl::StatusOr<ProfileRecord> GetProfile(absl::string_view name) override;
  absl::StatusOr<Page<ProfileRecord>> ListProfiles(absl::string_view cluster,
                                                   std::optional<std::string> node,
                                                   const PageRequest& page) override;
  absl::Status DeleteProfile(absl::string_view name) override;
  using Store::SnapshotProfiles;
  absl::StatusOr<ProfileSet> SnapshotProfiles(absl::string_view cluster,
                                              const ProfileFilter& is_wanted) override;
  absl::StatusOr<std::vector<ProfileRecord>> ProfilesWithoutCoverage() override;
  absl::Status SetCoverages(const std::map<std::string, std::string>& coverages) override;
  absl::StatusOr<int64_t> ProfileRevision(absl::string_view cluster) override;
  absl::StatusOr<std::map<std::string, int64_t>> ProfileRevisions() override;
  absl::StatusOr<CalibrationRecord> PutCalibration(CalibrationRecord calibration) override;
  absl::StatusOr<CalibrationRecord> GetCalibration(absl::string_view name) override;
  absl::StatusOr<Page<CalibrationRecord>> ListCalibrations(absl::string_view cluster,
                                                           const PageRequest& page) override;
  absl::StatusOr<ActiveCalibrationRecord> ActivateCalibration(absl::string_view cluster,
                                                              absl::string_view name,
                                                              absl::Time activate_time) override;
  absl::StatusOr<ActiveCalibrationRecord> ActiveCalibration(absl::string_view cluster) override;
  using Store::PutPlan;
  absl::StatusOr<PlanRecord> PutPlan(PlanRecord plan, std::optional<JobClaim> claim) override;
  absl::StatusOr<std::optional<JobRecord>> FindJob(absl::string_view cluster,
                                                   absl::string_view job_id,
                                                   absl::Time now) override;
  absl::StatusOr<PlanRecord> GetPlan(absl::string_view name) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByKey(absl::string_view cluster,
                                                          absl::string_view plan_key,
                                                          absl::string_view job_id,
                                                          absl::Time now) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByRequestId(
      absl::string_view cluster, absl::string_view owner, absl::string_view request_id) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanOfJob(absl::string_view cluster,
                                                          absl::string_view job_id) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByAnswer(absl::string_view cluster,
                                                             absl::string_view answer_key) override;
  absl::StatusOr<Page<PlanRecord>> ListPlans(absl::string_view cluster,
                                             const PageRequest& page) override;
  absl::StatusOr<Page<PlanRecord>> ListOwnPlans(absl::string_view cluster, const PlanScope& scope,
                                                const PageRequest& page) override;
  absl::StatusOr<int64_t> CountPlans(absl::string_view cluster) override;
  using Store::DeleteExpiredPlans;
  absl::StatusOr<int64_t> DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                             int64_t limit, const RecordScope& scope) override;
  absl::StatusOr<StoredUsage> Usage(const RecordScope& scope) override;
  absl::StatusOr<int64_t> ReplacedBytes(const ProfileRecord& profile, int64_t keep_count,
                                        const RecordScope& scope) override;
  absl::StatusOr<bool> HasSpec(absl::string_view spec) override;
  absl::StatusOr<ExecutionRecord> CreateExecution(ExecutionRecord execution) override;
  absl::StatusOr<ExecutionRecord> GetExecution(absl::string_view name) override;
  absl::StatusOr<Page<ExecutionRecord>> ListExecutions(absl::string_view plan,
                                                       const PageRequest& page) override;
  absl::StatusOr<ExecutionRecord> SetExecutionState(absl::string_view name, ExecutionState expected,
                                                    ExecutionState state, absl::Time end_time,
                                                    absl::string_view failure_reason) override;
  absl::StatusOr<std::vector<ExecutionRecord>> FailSilentExecutions(
      absl::Time before, absl::Time end_time, absl::string_view failure_reason,
      int64_t limit) override;
  absl::StatusOr<int64_t> DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                              int64_t limit) override;
  absl::StatusOr<AppendResult> AppendWindows(absl::string_view name,
                                             absl::Span<const WindowRecord> windows,
                                             const ExecutionLimits& limits,
                                             absl::Time report_time) override;
  absl::StatusOr<int64_t> WindowCount(absl::string_view name) override;
  absl::StatusOr<std::vector<WindowRecord>> ListWindows(absl::string_view name,
                                                        WindowParts parts) override;

 private:
  // Records by the order in which they were stored.
  template <typename Record>
  using Table = std::map<int64_t, Record>;
  using Windows = std::map<std::pair<int32_t, int64_t>, WindowRecord>;

  struct State {
    std::mutex mutex;
    // All guarded by mutex.
    bool broken = false;
    bool full = false;
    std::optional<int> calls_left;
    int put_plan_count = 0;
    int64_t snapshot_profile_count = 0;
    std::function<void()> before_put_plan;
    int64_t next_position = 1;
    Table<ProfileRecord> profiles;
    Table<CalibrationRecord> calibrations;
    std::map<std::string, ActiveCalibrationRecord> active_calibrations;
    // Without their specs.
    Table<PlanRecord> plans;
    // Specs, each with the first plan that had it.
    std::map<std::string, PlanRecord> specs;
    std::map<std::string, std::string> spec_of_plan;               // By name.
    std::map<std::pair<std::string, std::string>, JobClaim> jobs;  // By cluster and id.
    Table<ExecutionRecord> executions;
    std::set<std::string> abandoned;  // Names of executions.
    std::map<std::string, Windows> windows;
    std::map<std::string, int64_t> revisions;
  };

  explicit MemoryStore(std::shared_ptr<State> state);

  // Whether this call may work, and whether it may change something. Under the lock, first.
  absl::Status Begin();
  absl::Status BeginChange();

  // Returns a stored plan with its spec.
  PlanRecord Whole(const PlanRecord& plan) const;

  // Null where there is none.
  template <typename Record>
  static Record* Find(Table<Record>& table, absl::string_view name);

  // Returns the records for which `is_wanted` is true, newest first. `scope` distinguishes lists in
  // page tokens.
  template <typename Record, typename Predicate>
  static absl::StatusOr<Page<Record>> ListNewestFirst(const Table<Record>& table,
                                                      const std::string& scope,
                                                      const PageRequest& page,
                                                      const Predicate& is_wanted);

  const std::shared_ptr<State> state_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_MEMORY_STORE_H_
