// The store of a single server: one SQLite database in the server's data
// directory, in WAL mode. One connection writes, a few read.

#ifndef PARPLAN_SERVER_STORE_SQLITE_STORE_H_
#define PARPLAN_SERVER_STORE_SQLITE_STORE_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/directory_lock.h"
#include "server/store/sqlite_connection.h"
#include "server/store/store.h"

namespace parplan {

struct SqliteStoreOptions {
  // Made (mode 0700) when absent; its parent must exist. Holds `parplan.db`, two
  // files of SQLite beside it, and `parplan.lock`, all of mode 0600. On a local
  // file system: WAL needs shared memory.
  std::string directory;

  // Calls that may read at the same time; others wait. At least 1.
  int reader_count = 4;

  // How long a call waits for another process that holds the database.
  absl::Duration busy_timeout = absl::Seconds(5);

  // For tests: the disk is "full" at so many pages of 4096 bytes; 0 for no limit.
  int64_t max_page_count = 0;

  // For benchmarks: false acknowledges before the disk has it.
  bool flush_every_commit = true;
};

// The name of the database in its directory.
inline constexpr char kSqliteFileName[] = "parplan.db";

class SqliteStore : public Store {
 public:
  // Opens the database, making and migrating it as needed. Besides the errors of
  // store.h, FAILED_PRECONDITION (STORE_UNAVAILABLE) when a newer server wrote it.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const SqliteStoreOptions& options);

  // No call may be in flight.
  ~SqliteStore() override = default;

  absl::StatusOr<ProfileRecord> PutProfile(ProfileRecord profile) override;
  absl::StatusOr<ProfileRecord> GetProfile(absl::string_view name) override;
  absl::StatusOr<Page<ProfileRecord>> ListProfiles(absl::string_view cluster,
                                                   std::optional<std::string> node,
                                                   const PageRequest& page) override;
  absl::Status DeleteProfile(absl::string_view name) override;
  absl::StatusOr<ProfileSet> SnapshotProfiles(absl::string_view cluster) override;
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

  absl::StatusOr<PlanRecord> PutPlan(PlanRecord plan) override;
  absl::StatusOr<PlanRecord> GetPlan(absl::string_view name) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByKey(absl::string_view cluster,
                                                          absl::string_view plan_key,
                                                          absl::string_view job_id,
                                                          absl::Time now) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByRequestId(
      absl::string_view cluster, absl::string_view request_id) override;
  absl::StatusOr<std::optional<PlanRecord>> FindPlanByAnswer(absl::string_view cluster,
                                                             absl::string_view answer_key) override;
  absl::StatusOr<Page<PlanRecord>> ListPlans(absl::string_view cluster,
                                             const PageRequest& page) override;
  absl::StatusOr<int64_t> CountPlans(absl::string_view cluster) override;
  absl::StatusOr<int64_t> DeleteExpiredPlans(absl::Time before, int64_t limit) override;

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
  absl::StatusOr<AppendResult> AppendWindows(absl::string_view execution,
                                             absl::Span<const WindowRecord> windows,
                                             int64_t max_window_count,
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

  // First to come, last to go.
  std::unique_ptr<DirectoryLock> lock_;

  // Writers wait here, in a queue of threads, rather than inside SQLite, which
  // would poll.
  std::mutex writer_mutex_;
  std::unique_ptr<SqliteConnection> writer_;  // Guarded by writer_mutex_.

  std::mutex readers_mutex_;
  std::condition_variable reader_returned_;
  std::vector<std::unique_ptr<SqliteConnection>> idle_readers_;  // Guarded by readers_mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_SQLITE_STORE_H_
