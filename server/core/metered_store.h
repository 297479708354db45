// A store that reports duration and outcome of its methods to the observer. `ServerCore` wraps its
// store in it.

#ifndef PARPLAN_SERVER_CORE_METERED_STORE_H_
#define PARPLAN_SERVER_CORE_METERED_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/system/clock.h"
#include "server/core/observer.h"
#include "server/store/store.h"

namespace parplan {

// Hands every call to another store and changes nothing of it; remembers whether a change failed.
// Safe to use from any thread.
class MeteredStore : public Store {
 public:
  // `store` is not null; `clock` and `observer` outlive this object.
  MeteredStore(std::unique_ptr<Store> store, const Clock& clock, Observer& observer)
      : store_(std::move(store)), clock_(clock), observer_(observer) {}

  // Returns whether a change failed with UNAVAILABLE since the last time it was asked. `TryWrite`
  // is no change.
  bool TakeFailedChange() { return has_failed_change_.exchange(false); }

  // Returns the error of the last change, or of `TryWrite`, that failed because the disk is full;
  // OK if there was none, or if a change or `TryWrite` succeeded since.
  absl::Status room() const;

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
  absl::StatusOr<AppendResult> AppendWindows(absl::string_view execution,
                                             absl::Span<const WindowRecord> windows,
                                             const ExecutionLimits& limits,
                                             absl::Time report_time) override;
  absl::StatusOr<int64_t> WindowCount(absl::string_view execution) override;
  absl::StatusOr<std::vector<WindowRecord>> ListWindows(absl::string_view execution,
                                                        WindowParts parts) override;

 private:
  // Calls the store and reports the call to the observer.
  template <typename Call>
  auto Metered(StoreOperation operation, Call call);
  // Does so for a call that changes something.
  template <typename Call>
  auto MeteredChange(StoreOperation operation, Call call);

  const std::unique_ptr<Store> store_;
  const Clock& clock_;
  Observer& observer_;
  // Notes whether a change found the disk full.
  void NoteRoom(const absl::Status& status);

  std::atomic<bool> has_failed_change_ = false;
  std::atomic<bool> is_full_ = false;
  mutable std::mutex mutex_;
  absl::Status full_;  // Guarded by mutex_; the error while `is_full_`.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_METERED_STORE_H_
