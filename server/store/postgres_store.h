// The store of several servers: one PostgreSQL database, which all of them read and write. A change
// that one server acknowledged is visible to the next call on any other. `OpenStore`
// (store_address.h) makes it; each kind of record has a source file, for example postgres_plans.cc.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_STORE_H_
#define PARPLAN_SERVER_STORE_POSTGRES_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/store.h"

namespace parplan {

class PostgresPool;

// The address of the database, and how calls share it.
struct PostgresStoreOptions {
  // `postgres://...` or `postgresql://...`, without a password, which libpq takes from PGPASSFILE,
  // ~/.pgpass or PGPASSWORD.
  std::string uri;
  // Number of calls that may use the database at the same time, at least 1 (PARPLAN_CHECK). Others
  // wait, for at most 30 s, and then get UNAVAILABLE.
  int max_connection_count = 8;
  // Time for which a call, `Open` included, tries again to connect to a database that cannot be
  // reached. The last attempt may end later, by the `connect_timeout` of the URI for each host (5 s
  // if it has none). A refusal (wrong user or database) is returned at once. During an
  // outage longer than `PostgresPool` tolerates (25 s), every call fails at once.
  absl::Duration patience = absl::Seconds(5);
};

// Safe to use from any thread. `Store` documents the inherited methods. A transaction that takes 30
// s is cut off with UNAVAILABLE. One that meets a conflict or a broken connection is begun again,
// at most 20 times in all, each of which may wait for a connection and for `patience` anew.
class PostgresStore : public Store {
 public:
  // Connects, and creates or migrates the tables as needed; several servers may do so at once, and
  // then wait for each other without a limit. The tables are in the first schema of the user's
  // search path. Errors, all STORE_UNAVAILABLE, are UNAVAILABLE, DATA_LOSS, INTERNAL, and
  // FAILED_PRECONDITION if a newer server wrote the tables or the database is not in UTF-8.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> Open(const PostgresStoreOptions& options);

  // REQUIRES, unchecked: no call is in progress.
  ~PostgresStore() override;

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
  explicit PostgresStore(std::unique_ptr<PostgresPool> pool);

  const std::unique_ptr<PostgresPool> pool_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_STORE_H_
