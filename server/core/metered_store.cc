#include "server/core/metered_store.h"

#include "server/store/store_errors.h"

namespace parplan {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }

template <typename Value>
const absl::Status& StatusOf(const absl::StatusOr<Value>& result) {
  return result.status();
}

template <typename Result>
absl::StatusCode CodeOf(const Result& result) {
  return StatusOf(result).code();
}

}  // namespace

template <typename Call>
auto MeteredStore::Metered(StoreOperation operation, Call call) {
  const absl::Duration start = clock_.Steady();
  auto result = call(*store_);
  observer_.StoreCalled(operation, CodeOf(result), clock_.Steady() - start);
  return result;
}

template <typename Call>
auto MeteredStore::MeteredChange(StoreOperation operation, Call call) {
  auto result = Metered(operation, std::move(call));
  if (CodeOf(result) == absl::StatusCode::kUnavailable) has_failed_change_ = true;
  NoteRoom(StatusOf(result));
  return result;
}

absl::Status MeteredStore::room() const {
  if (!is_full_) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  return full_;
}

void MeteredStore::NoteRoom(const absl::Status& status) {
  const bool is_full = IsDiskFullError(status);
  // Most changes find room where there was some.
  if (!is_full && !is_full_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Refusals for another reason say nothing of the disk.
  if (!is_full && !status.ok()) return;
  full_ = status;
  is_full_ = is_full;
}

absl::Status MeteredStore::TryWrite() {
  const absl::Status status = Metered("try_write", [](Store& store) { return store.TryWrite(); });
  NoteRoom(status);
  return status;
}

absl::StatusOr<ProfileRecord> MeteredStore::PutProfile(ProfileRecord profile, int64_t keep_count) {
  return MeteredChange("put_profile", [&](Store& store) {
    return store.PutProfile(std::move(profile), keep_count);
  });
}

absl::StatusOr<ProfileRecord> MeteredStore::GetProfile(absl::string_view name) {
  return Metered("get_profile", [&](Store& store) { return store.GetProfile(name); });
}

absl::StatusOr<Page<ProfileRecord>> MeteredStore::ListProfiles(absl::string_view cluster,
                                                               std::optional<std::string> node,
                                                               const PageRequest& page) {
  return Metered("list_profiles",
                 [&](Store& store) { return store.ListProfiles(cluster, std::move(node), page); });
}

absl::Status MeteredStore::DeleteProfile(absl::string_view name) {
  return MeteredChange("delete_profile", [&](Store& store) { return store.DeleteProfile(name); });
}

absl::StatusOr<ProfileSet> MeteredStore::SnapshotProfiles(absl::string_view cluster,
                                                          const ProfileFilter& is_wanted) {
  return Metered("snapshot_profiles",
                 [&](Store& store) { return store.SnapshotProfiles(cluster, is_wanted); });
}

absl::StatusOr<std::vector<ProfileRecord>> MeteredStore::ProfilesWithoutCoverage() {
  return Metered("profiles_without_coverage",
                 [](Store& store) { return store.ProfilesWithoutCoverage(); });
}

absl::Status MeteredStore::SetCoverages(const std::map<std::string, std::string>& coverages) {
  return MeteredChange("set_coverages",
                       [&](Store& store) { return store.SetCoverages(coverages); });
}

absl::StatusOr<int64_t> MeteredStore::ProfileRevision(absl::string_view cluster) {
  return Metered("profile_revision", [&](Store& store) { return store.ProfileRevision(cluster); });
}

absl::StatusOr<std::map<std::string, int64_t>> MeteredStore::ProfileRevisions() {
  return Metered("profile_revisions", [](Store& store) { return store.ProfileRevisions(); });
}

absl::StatusOr<CalibrationRecord> MeteredStore::PutCalibration(CalibrationRecord calibration) {
  return MeteredChange("put_calibration",
                       [&](Store& store) { return store.PutCalibration(std::move(calibration)); });
}

absl::StatusOr<CalibrationRecord> MeteredStore::GetCalibration(absl::string_view name) {
  return Metered("get_calibration", [&](Store& store) { return store.GetCalibration(name); });
}

absl::StatusOr<Page<CalibrationRecord>> MeteredStore::ListCalibrations(absl::string_view cluster,
                                                                       const PageRequest& page) {
  return Metered("list_calibrations",
                 [&](Store& store) { return store.ListCalibrations(cluster, page); });
}

absl::StatusOr<ActiveCalibrationRecord> MeteredStore::ActivateCalibration(
    absl::string_view cluster, absl::string_view name, absl::Time activate_time) {
  return MeteredChange("activate_calibration", [&](Store& store) {
    return store.ActivateCalibration(cluster, name, activate_time);
  });
}

absl::StatusOr<ActiveCalibrationRecord> MeteredStore::ActiveCalibration(absl::string_view cluster) {
  return Metered("active_calibration",
                 [&](Store& store) { return store.ActiveCalibration(cluster); });
}

absl::StatusOr<PlanRecord> MeteredStore::PutPlan(PlanRecord plan, std::optional<JobClaim> claim) {
  return MeteredChange(
      "put_plan", [&](Store& store) { return store.PutPlan(std::move(plan), std::move(claim)); });
}

absl::StatusOr<std::optional<JobRecord>> MeteredStore::FindJob(absl::string_view cluster,
                                                               absl::string_view job_id,
                                                               absl::Time now) {
  return Metered("find_job", [&](Store& store) { return store.FindJob(cluster, job_id, now); });
}

absl::StatusOr<PlanRecord> MeteredStore::GetPlan(absl::string_view name) {
  return Metered("get_plan", [&](Store& store) { return store.GetPlan(name); });
}

absl::StatusOr<std::optional<PlanRecord>> MeteredStore::FindPlanByKey(absl::string_view cluster,
                                                                      absl::string_view plan_key,
                                                                      absl::string_view job_id,
                                                                      absl::Time now) {
  return Metered("find_plan_by_key",
                 [&](Store& store) { return store.FindPlanByKey(cluster, plan_key, job_id, now); });
}

absl::StatusOr<std::optional<PlanRecord>> MeteredStore::FindPlanByRequestId(
    absl::string_view cluster, absl::string_view owner, absl::string_view request_id) {
  return Metered("find_plan_by_request_id", [&](Store& store) {
    return store.FindPlanByRequestId(cluster, owner, request_id);
  });
}

absl::StatusOr<std::optional<PlanRecord>> MeteredStore::FindPlanOfJob(absl::string_view cluster,
                                                                      absl::string_view job_id) {
  return Metered("find_plan_of_job",
                 [&](Store& store) { return store.FindPlanOfJob(cluster, job_id); });
}

absl::StatusOr<std::optional<PlanRecord>> MeteredStore::FindPlanByAnswer(
    absl::string_view cluster, absl::string_view answer_key) {
  return Metered("find_plan_by_answer",
                 [&](Store& store) { return store.FindPlanByAnswer(cluster, answer_key); });
}

absl::StatusOr<Page<PlanRecord>> MeteredStore::ListPlans(absl::string_view cluster,
                                                         const PageRequest& page) {
  return Metered("list_plans", [&](Store& store) { return store.ListPlans(cluster, page); });
}

absl::StatusOr<Page<PlanRecord>> MeteredStore::ListOwnPlans(absl::string_view cluster,
                                                            const PlanScope& scope,
                                                            const PageRequest& page) {
  return Metered("list_own_plans",
                 [&](Store& store) { return store.ListOwnPlans(cluster, scope, page); });
}

absl::StatusOr<int64_t> MeteredStore::CountPlans(absl::string_view cluster) {
  return Metered("count_plans", [&](Store& store) { return store.CountPlans(cluster); });
}

absl::StatusOr<int64_t> MeteredStore::DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                                         int64_t limit, const RecordScope& scope) {
  return MeteredChange("delete_expired_plans", [&](Store& store) {
    return store.DeleteExpiredPlans(now, retention, limit, scope);
  });
}

absl::StatusOr<StoredUsage> MeteredStore::Usage(const RecordScope& scope) {
  return Metered("usage", [&](Store& store) { return store.Usage(scope); });
}

absl::StatusOr<int64_t> MeteredStore::ReplacedBytes(const ProfileRecord& profile,
                                                    int64_t keep_count, const RecordScope& scope) {
  return Metered("replaced_bytes",
                 [&](Store& store) { return store.ReplacedBytes(profile, keep_count, scope); });
}

absl::StatusOr<bool> MeteredStore::HasSpec(absl::string_view spec) {
  return Metered("has_spec", [&](Store& store) { return store.HasSpec(spec); });
}

absl::StatusOr<ExecutionRecord> MeteredStore::CreateExecution(ExecutionRecord execution) {
  return MeteredChange("create_execution",
                       [&](Store& store) { return store.CreateExecution(std::move(execution)); });
}

absl::StatusOr<ExecutionRecord> MeteredStore::GetExecution(absl::string_view name) {
  return Metered("get_execution", [&](Store& store) { return store.GetExecution(name); });
}

absl::StatusOr<Page<ExecutionRecord>> MeteredStore::ListExecutions(absl::string_view plan,
                                                                   const PageRequest& page) {
  return Metered("list_executions", [&](Store& store) { return store.ListExecutions(plan, page); });
}

absl::StatusOr<ExecutionRecord> MeteredStore::SetExecutionState(absl::string_view name,
                                                                ExecutionState expected,
                                                                ExecutionState state,
                                                                absl::Time end_time,
                                                                absl::string_view failure_reason) {
  return MeteredChange("set_execution_state", [&](Store& store) {
    return store.SetExecutionState(name, expected, state, end_time, failure_reason);
  });
}

absl::StatusOr<std::vector<ExecutionRecord>> MeteredStore::FailSilentExecutions(
    absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) {
  return MeteredChange("fail_silent_executions", [&](Store& store) {
    return store.FailSilentExecutions(before, end_time, failure_reason, limit);
  });
}

absl::StatusOr<int64_t> MeteredStore::DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                                          int64_t limit) {
  return MeteredChange("delete_old_executions", [&](Store& store) {
    return store.DeleteOldExecutions(now, retention, limit);
  });
}

absl::StatusOr<AppendResult> MeteredStore::AppendWindows(absl::string_view execution,
                                                         absl::Span<const WindowRecord> windows,
                                                         const ExecutionLimits& limits,
                                                         absl::Time report_time) {
  return MeteredChange("append_windows", [&](Store& store) {
    return store.AppendWindows(execution, windows, limits, report_time);
  });
}

absl::StatusOr<int64_t> MeteredStore::WindowCount(absl::string_view execution) {
  return Metered("window_count", [&](Store& store) { return store.WindowCount(execution); });
}

absl::StatusOr<std::vector<WindowRecord>> MeteredStore::ListWindows(absl::string_view execution,
                                                                    WindowParts parts) {
  return Metered("list_windows", [&](Store& store) { return store.ListWindows(execution, parts); });
}

}  // namespace parplan
