// The store of a single server: one SQLite database in the server's data directory, in WAL mode,
// with one connection for writing and a few for reading. `OpenStore` (store_address.h) makes it;
// each kind of record has a source file, for example sqlite_plans.cc.

#ifndef PARPLAN_SERVER_STORE_SQLITE_STORE_H_
#define PARPLAN_SERVER_STORE_SQLITE_STORE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/directory_lock.h"
#include "server/store/sqlite_connection.h"
#include "server/store/store.h"

namespace parplan {

// The folder of the database, and how calls share it.
struct SqliteStoreOptions {
  // Directory of `parplan.db`, the two other files of SQLite and `parplan.lock`, all of mode 0600.
  // Created (mode 0700) if absent; its parent must exist. Must be on a local file system, since WAL
  // needs shared memory.
  std::string directory;

  // Number of calls that may read at the same time, at least 1 (PARPLAN_CHECK); others wait,
  // without a limit. The default was not measured.
  int reader_count = 4;

  // Time that a call waits for another process that has locked the database.
  absl::Duration busy_timeout = absl::Seconds(5);

  // Size at which the disk counts as full, in pages of 4096 bytes; 0 for no limit. For tests.
  int64_t max_page_count = 0;

  // Whether a commit waits for the disk. False is for benchmarks only.
  bool flush_every_commit = true;
};

// Name of the database file in its directory.
inline constexpr char kSqliteFileName[] = "parplan.db";

// Safe to use from any thread. `Store` documents the inherited methods. Calls that change something
// wait for each other without a limit, and are not repeated after an error.
class SqliteStore : public Store {
 public:
  // Opens the database; creates or migrates it as needed. One whose tables are those of this
  // release also opens on a full disk, and is then closed to other processes, backups among them,
  // until `TryWrite` finds room. Errors, all STORE_UNAVAILABLE, are
  // UNAVAILABLE (also if another server has the directory), DATA_LOSS, INTERNAL, and
  // FAILED_PRECONDITION if a newer server wrote the database.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const SqliteStoreOptions& options);

  // REQUIRES: no call is in progress; not checked.
  ~SqliteStore() override = default;

  // Does what `Store` says; the disk counts as full below 1 MiB of room. The first success of a
  // store that was opened on a full disk opens all its connections anew, for which it waits for the
  // calls in progress and others wait for it; aborts if that fails for 30 s.
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
  // A reading connection on loan from the pool.
  class Reader {
   public:
    explicit Reader(SqliteStore* store);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    SqliteConnection& operator*() const { return *connection_; }
    SqliteConnection* operator->() const { return connection_.get(); }

   private:
    SqliteStore* store_;
    std::unique_ptr<SqliteConnection> connection_;
  };

  SqliteStore() = default;

  // Opens all connections; on an error changes nothing. REQUIRES: none is open.
  absl::Status OpenConnections(bool is_exclusive);

  // Opens the connections of an exclusive store anew, so that other processes may read it. Waits
  // for the calls in progress.
  void OpenShared();

  SqliteStoreOptions options_;

  // Created first and destroyed last.
  std::unique_ptr<DirectoryLock> lock_;

  // Writers wait for this mutex and not inside SQLite, which would poll.
  std::mutex writer_mutex_;
  std::unique_ptr<SqliteConnection> writer_;  // Guarded by writer_mutex_.
  bool is_exclusive_ = false;                 // Guarded by writer_mutex_.

  std::mutex readers_mutex_;
  std::condition_variable reader_returned_;
  std::vector<std::unique_ptr<SqliteConnection>> idle_readers_;  // Guarded by readers_mutex_.
  bool is_reopening_ = false;                                    // Guarded by readers_mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_STORE_H_
