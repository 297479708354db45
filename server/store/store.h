// Keeps profiles, calibrations, plans and executions. It stores; it does not think.
//
// A method that changes something does so in one transaction: when it returns OK
// the change survives a kill of the process and a power loss, when it returns an
// error nothing of it is visible, now or later; but see UNAVAILABLE below.
// Readers see whole records only and never wait for writers.
//
// Errors of every method, besides those it names:
// * UNAVAILABLE (STORE_UNAVAILABLE): disk full, input or output failed, locked,
//   read-only or away. Says what to do. Where it comes from a commit that could not be
//   flushed or whose answer was lost, the change may yet be found after a restart; request ids make
//   repeating it harmless.
// * DATA_LOSS (STORE_UNAVAILABLE): the database is damaged.
// * RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE): a record is larger than the store can
//   hold (SQLite about 1 GB, PostgreSQL half of that).
// * INTERNAL: our mistake.
//
// Two implementations pass one suite, tests/server/store/store_conformance.h: SQLite for
// one server, PostgreSQL for several. Lists are newest first: the reverse of the
// order in which their records were stored, whatever their times say.

#ifndef PARPLAN_SERVER_STORE_STORE_H_
#define PARPLAN_SERVER_STORE_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/records.h"

namespace parplan {

// Which part of a list is wanted.
struct PageRequest {
  // 0 stands for `kDefaultPageSize`; more than `kMaxPageSize` for that.
  int page_size = 0;
  // `next_page_token` of the page before; empty for the first.
  std::string page_token;
};
inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 500;
// A page ends early, after at least one record, once its bytes add up to this.
inline constexpr int64_t kMaxPageBytes = int64_t{16} << 20;

// Safe to use from any thread. Every method may wait for the disk.
class Store {
 public:
  virtual ~Store() = default;

  // Stores a profile and raises its cluster's revision. A second profile with the
  // node's `request_id` changes nothing: with an equal `content_digest` the stored
  // one is returned, with another INVALID_ARGUMENT (REQUEST_ID_REUSED).
  // ALREADY_EXISTS (SPEC_INVALID) when the name is taken.
  virtual absl::StatusOr<ProfileRecord> PutProfile(ProfileRecord profile) = 0;

  // NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ProfileRecord> GetProfile(absl::string_view name) = 0;

  // Profiles of a cluster, or of one node of it. What is stored while somebody
  // pages neither shifts nor repeats a record. INVALID_ARGUMENT (SPEC_INVALID)
  // for a negative page size or a token that another list gave.
  virtual absl::StatusOr<Page<ProfileRecord>> ListProfiles(absl::string_view cluster,
                                                           std::optional<std::string> node,
                                                           const PageRequest& page) = 0;

  // Raises the cluster's revision; forgets the `request_id` as well. NOT_FOUND
  // (RESOURCE_NOT_FOUND).
  virtual absl::Status DeleteProfile(absl::string_view name) = 0;

  // All profiles of a cluster and the revision they make up, as of one moment.
  virtual absl::StatusOr<ProfileSet> SnapshotProfiles(absl::string_view cluster) = 0;

  // Grows by one with every profile stored or deleted in the cluster; 0 before the
  // first. Never goes back. Cheap.
  virtual absl::StatusOr<int64_t> ProfileRevision(absl::string_view cluster) = 0;

  // Those of all clusters that ever had a profile, by name, as of one moment. Cheap.
  virtual absl::StatusOr<std::map<std::string, int64_t>> ProfileRevisions() = 0;

  // Stores a calibration. A second one with the cluster's `request_id`, if not
  // empty, or with the name of a stored one changes nothing: with an equal
  // `content_digest` the stored one is returned, with another INVALID_ARGUMENT
  // (REQUEST_ID_REUSED) or ALREADY_EXISTS (SPEC_INVALID).
  virtual absl::StatusOr<CalibrationRecord> PutCalibration(CalibrationRecord calibration) = 0;

  // NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<CalibrationRecord> GetCalibration(absl::string_view name) = 0;

  // As `ListProfiles`.
  virtual absl::StatusOr<Page<CalibrationRecord>> ListCalibrations(absl::string_view cluster,
                                                                   const PageRequest& page) = 0;

  // Makes a calibration of the cluster its active one, or none where `name` is
  // empty, and returns what is active now. What is active already stays so since
  // it became so. NOT_FOUND (RESOURCE_NOT_FOUND) when the cluster has none of that
  // name.
  virtual absl::StatusOr<ActiveCalibrationRecord> ActivateCalibration(absl::string_view cluster,
                                                                      absl::string_view name,
                                                                      absl::Time activate_time) = 0;

  // Cheap.
  virtual absl::StatusOr<ActiveCalibrationRecord> ActiveCalibration(absl::string_view cluster) = 0;

  // Stores a plan. A second plan with the cluster's `request_id`, if not empty,
  // changes nothing: with equal `plan_key` and `job_id` the stored one is returned,
  // else INVALID_ARGUMENT (REQUEST_ID_REUSED). ALREADY_EXISTS (SPEC_INVALID) when
  // the name is taken.
  virtual absl::StatusOr<PlanRecord> PutPlan(PlanRecord plan) = 0;

  // NOT_FOUND (RESOURCE_NOT_FOUND). Also finds expired plans.
  virtual absl::StatusOr<PlanRecord> GetPlan(absl::string_view name) = 0;

  // The newest plan of the cluster for this key and job that expires after `now`.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByKey(absl::string_view cluster,
                                                                  absl::string_view plan_key,
                                                                  absl::string_view job_id,
                                                                  absl::Time now) = 0;

  // The plan of the cluster stored under this `request_id`, which is not empty.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByRequestId(
      absl::string_view cluster, absl::string_view request_id) = 0;

  // The newest plan of the cluster with this `answer_key`, which is not empty, whoever it is
  // for. Also finds expired plans.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByAnswer(
      absl::string_view cluster, absl::string_view answer_key) = 0;

  // As `ListProfiles`.
  virtual absl::StatusOr<Page<PlanRecord>> ListPlans(absl::string_view cluster,
                                                     const PageRequest& page) = 0;

  // Plans of the cluster, expired ones included.
  virtual absl::StatusOr<int64_t> CountPlans(absl::string_view cluster) = 0;

  // Deletes at most `limit` plans that expire at or before `before`, soonest
  // expired first, and says how many. Plans that were executed stay: what was
  // measured under them is worth more than the room.
  virtual absl::StatusOr<int64_t> DeleteExpiredPlans(absl::Time before, int64_t limit) = 0;

  // Stores an execution. A second one with the plan's `request_id`, if not empty,
  // changes nothing and returns the stored one. NOT_FOUND (RESOURCE_NOT_FOUND) when
  // the plan is not stored; ALREADY_EXISTS (SPEC_INVALID) when the name is taken.
  virtual absl::StatusOr<ExecutionRecord> CreateExecution(ExecutionRecord execution) = 0;

  // NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ExecutionRecord> GetExecution(absl::string_view name) = 0;

  // Executions of a plan; as `ListProfiles`.
  virtual absl::StatusOr<Page<ExecutionRecord>> ListExecutions(absl::string_view plan,
                                                               const PageRequest& page) = 0;

  // Moves an execution from `expected` to `state` and returns it; `kAbandoned` makes it `kFailed`
  // until windows come. What was abandoned moves as if it ran. When it stands elsewhere nothing
  // changes: FAILED_PRECONDITION (EXECUTION_STATE). NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ExecutionRecord> SetExecutionState(absl::string_view name,
                                                            ExecutionState expected,
                                                            ExecutionState state,
                                                            absl::Time end_time,
                                                            absl::string_view failure_reason) = 0;

  // Abandons at most `limit` running executions whose `report_time` is not after `before`, those
  // silent longest first: they are failed until windows come. Returns them as they are now.
  virtual absl::StatusOr<std::vector<ExecutionRecord>> FailSilentExecutions(
      absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) = 0;

  // Adds windows that came at `report_time` to an execution that runs, or was abandoned and runs
  // again with the first new one: all that are new, or on an error none. A window whose rank and
  // first step are stored is counted as a duplicate. FAILED_PRECONDITION (EXECUTION_STATE) when
  // it is closed; NOT_FOUND (RESOURCE_NOT_FOUND); RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) when it
  // would hold more than `max_window_count`.
  virtual absl::StatusOr<AppendResult> AppendWindows(absl::string_view execution,
                                                     absl::Span<const WindowRecord> windows,
                                                     int64_t max_window_count,
                                                     absl::Time report_time) = 0;

  // NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<int64_t> WindowCount(absl::string_view execution) = 0;

  // All windows by rank, then first step. `kFigures` leaves `bytes` empty and does
  // not read them from disk. NOT_FOUND (RESOURCE_NOT_FOUND).
  enum class WindowParts { kAll, kFigures };
  virtual absl::StatusOr<std::vector<WindowRecord>> ListWindows(
      absl::string_view execution, WindowParts parts = WindowParts::kAll) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORE_H_
