// The database of profiles, calibrations, plans and executions. It stores records and does not
// interpret them.
//
//   PARPLAN_ASSIGN_OR_RETURN(const StoreAddress address,
//                            ParseStoreAddress("sqlite:/var/lib/parplan", "--store"));
//   PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(address));
//   PARPLAN_ASSIGN_OR_RETURN(const PlanRecord plan, store->PutPlan(record));  // now durable
//   PageRequest page;
//   do {  // newest first
//     PARPLAN_ASSIGN_OR_RETURN(const Page<PlanRecord> plans, store->ListPlans("lab", page));
//     Use(plans.records);
//     page.page_token = plans.next_page_token;
//   } while (!page.page_token.empty());
//
// Every change is one transaction. When the method returns OK, the change survives a kill of the
// process and a power loss. When it returns an error, nothing of the change is visible, now or
// later, with the exception named under UNAVAILABLE. Readers see whole records only and never wait
// for writers.
//
// Every method can return these errors as well as those it names:
// * UNAVAILABLE (STORE_UNAVAILABLE): the disk is full or fails, or the database is locked,
//   read-only or not reachable. The message says what to do; `IsDiskFullError` (store_errors.h)
//   knows a full disk, on which methods that only read still work. If a commit could not be flushed
//   or its answer was lost, the change may be there after a restart; request ids make it harmless
//   to repeat it.
// * DATA_LOSS (STORE_UNAVAILABLE): the database is damaged.
// * RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE): a record is larger than the store can hold (about 1 GB
//   for SQLite, half of that for PostgreSQL).
// * INTERNAL (STORE_UNAVAILABLE): a mistake of this program.
//
// Two implementations pass one suite of tests, tests/server/store/store_conformance.h: SQLite for
// one server, PostgreSQL for several. Lists are newest first: the reverse of the order in which the
// records were stored, whatever their times are.

#ifndef PARPLAN_SERVER_STORE_STORE_H_
#define PARPLAN_SERVER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/store/records.h"

namespace parplan {

// The part of a list to return.
struct PageRequest {
  // Records; 0 means `kDefaultPageSize`. More than `kMaxPageSize` means `kMaxPageSize`.
  int page_size = 0;
  // `next_page_token` of the previous page; empty for the first page.
  std::string page_token;
};
inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 500;
// Bytes of records after which a page ends early, so that 500 large profiles are never in memory at
// once; a page has at least one record. The value was not measured.
inline constexpr int64_t kMaxPageBytes = int64_t{16} << 20;
// Windows after which one deletion of executions ends, so that other writers wait briefly. The
// value was not measured.
inline constexpr int64_t kMaxDeletedWindowCount = 10000;

// Plans of one caller: those of the owner, unless it is empty, and those of the jobs, of which an
// empty id stands for none.
struct PlanScope {
  std::string owner;
  std::vector<std::string> job_ids;
};

// Records of one owner, of one cluster, or both; an empty text stands for all.
struct RecordScope {
  std::string owner;
  std::string cluster;
};

// The interface of both stores. Safe to use from any thread. Every method may wait for the disk, or
// for the network if the database is PostgreSQL.
class Store {
 public:
  // Returns whether a caller wants a profile, by `ProfileRecord::bytes`.
  using ProfileFilter = std::function<bool(absl::string_view bytes)>;

  virtual ~Store() = default;

  // Returns OK if changes can be stored now: changes something and changes it back. SQLite also
  // looks whether the disk has room for more; of PostgreSQL's disk only the change itself shows
  // something.
  virtual absl::Status TryWrite() = 0;

  // Stores a profile and raises the revision of its cluster. A second profile of a node with the
  // same non-empty `request_id` changes nothing: if `content_digest` is equal, the stored profile
  // is returned, else INVALID_ARGUMENT (REQUEST_ID_REUSED). ALREADY_EXISTS (SPEC_INVALID) if the
  // name is taken, which is looked at only after the `request_id`.
  //
  // With a `keep_count` above 0, the profiles of its node, `device_kind` and `kind` that are not
  // among the newest `keep_count`, this one included, are deleted in the same transaction, as by
  // `DeleteProfile` but without another revision. Those without a `kind` are a kind of their own.
  // 0 or less deletes none.
  virtual absl::StatusOr<ProfileRecord> PutProfile(ProfileRecord profile, int64_t keep_count) = 0;
  absl::StatusOr<ProfileRecord> PutProfile(ProfileRecord profile) {
    return PutProfile(std::move(profile), 0);
  }

  // Returns a profile by name. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ProfileRecord> GetProfile(absl::string_view name) = 0;

  // Lists profiles of a cluster, or of one node of it. A cluster or node that has none, or is not
  // known, has an empty page. Records that are stored or deleted between two pages neither shift
  // nor repeat others. INVALID_ARGUMENT (SPEC_INVALID) for a negative page size or a token of
  // another list.
  virtual absl::StatusOr<Page<ProfileRecord>> ListProfiles(absl::string_view cluster,
                                                           std::optional<std::string> node,
                                                           const PageRequest& page) = 0;

  // Deletes a profile and its `request_id`, and raises the revision of the cluster. NOT_FOUND
  // (RESOURCE_NOT_FOUND).
  virtual absl::Status DeleteProfile(absl::string_view name) = 0;

  // Returns the profiles of a cluster that count in a snapshot, and its revision, as of one moment:
  // those without a `coverage`, and of those with the same one the newest. Reads no other profile,
  // though an entry of an index for each. Those without a `coverage` for which `is_wanted` returns
  // false are left out, and take no memory with SQLite; it is called once for each of them, newest
  // first, with bytes that live as long as the call, and must not call a store.
  virtual absl::StatusOr<ProfileSet> SnapshotProfiles(absl::string_view cluster,
                                                      const ProfileFilter& is_wanted) = 0;
  absl::StatusOr<ProfileSet> SnapshotProfiles(absl::string_view cluster) {
    return SnapshotProfiles(cluster, [](absl::string_view /*bytes*/) { return true; });
  }

  // Returns some profiles of any cluster that have no `coverage`, newest first, as many as a page
  // has (`kMaxPageSize`, `kMaxPageBytes`); none if all have one. Reads no other.
  virtual absl::StatusOr<std::vector<ProfileRecord>> ProfilesWithoutCoverage() = 0;

  // Sets the `coverage` of profiles, by name, in one transaction; those that are no longer stored
  // are passed over. Changes no revision, since the profiles stay what they are.
  virtual absl::Status SetCoverages(const std::map<std::string, std::string>& coverages) = 0;

  // Returns the revision of a cluster: 0 before its first profile, one more for every profile
  // stored or deleted since. It never decreases. Reads one row.
  virtual absl::StatusOr<int64_t> ProfileRevision(absl::string_view cluster) = 0;

  // Returns the revisions, by name, of all clusters that ever had a profile, as of one moment.
  // Reads one row per cluster.
  virtual absl::StatusOr<std::map<std::string, int64_t>> ProfileRevisions() = 0;

  // Stores a calibration. A second one of a cluster with the same non-empty `request_id`, or with
  // the name of a stored one, changes nothing: if `content_digest` is equal, the stored one is
  // returned, else INVALID_ARGUMENT (REQUEST_ID_REUSED) or ALREADY_EXISTS (SPEC_INVALID).
  virtual absl::StatusOr<CalibrationRecord> PutCalibration(CalibrationRecord calibration) = 0;

  // Returns a calibration by name. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<CalibrationRecord> GetCalibration(absl::string_view name) = 0;

  // Lists calibrations of a cluster, with the rules and errors of `ListProfiles`.
  virtual absl::StatusOr<Page<CalibrationRecord>> ListCalibrations(absl::string_view cluster,
                                                                   const PageRequest& page) = 0;

  // Makes a calibration of the cluster its active one, or none if `name` is empty, and returns the
  // active one. Activating the active one again, or none while none is, changes nothing, the
  // `activate_time` included. NOT_FOUND (RESOURCE_NOT_FOUND) if the cluster has no calibration of
  // that name.
  virtual absl::StatusOr<ActiveCalibrationRecord> ActivateCalibration(absl::string_view cluster,
                                                                      absl::string_view name,
                                                                      absl::Time activate_time) = 0;

  // Returns the active calibration of a cluster; its name is empty if none is active. Reads one
  // row.
  virtual absl::StatusOr<ActiveCalibrationRecord> ActiveCalibration(absl::string_view cluster) = 0;

  // Stores a plan. A second plan of a cluster and owner with the same non-empty `request_id`
  // changes nothing: if `plan_key` and `job_id` are equal, the stored plan is returned, else
  // INVALID_ARGUMENT (REQUEST_ID_REUSED). ALREADY_EXISTS (SPEC_INVALID) if the name is taken.
  //
  // With a `claim`, for which the plan needs a job (not checked), its job gets that owner and
  // number in the same transaction. ABORTED (STORE_UNAVAILABLE) if the job has had this number or a
  // higher one, which another server may have given it a moment ago: find the job again and number
  // the plan anew. Without a claim the job's owner and number stay. The errors come in this order:
  // `request_id`, name, claim.
  virtual absl::StatusOr<PlanRecord> PutPlan(PlanRecord plan, std::optional<JobClaim> claim) = 0;
  absl::StatusOr<PlanRecord> PutPlan(PlanRecord plan) {
    return PutPlan(std::move(plan), std::nullopt);
  }

  // Finds a job of the cluster, whose id is not empty, that a plan ever claimed; `is_held` is as of
  // `now`. The time it takes grows with the plans of the job, not with those of the cluster.
  virtual absl::StatusOr<std::optional<JobRecord>> FindJob(absl::string_view cluster,
                                                           absl::string_view job_id,
                                                           absl::Time now) = 0;

  // Returns a plan by name, expired or not. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<PlanRecord> GetPlan(absl::string_view name) = 0;

  // Finds the newest plan of the cluster for this key and job that expires after `now`. An empty
  // `job_id` finds plans without a job only.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByKey(absl::string_view cluster,
                                                                  absl::string_view plan_key,
                                                                  absl::string_view job_id,
                                                                  absl::Time now) = 0;

  // Finds the plan of the cluster and owner that was stored with this `request_id`, expired or not;
  // none for an empty one.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByRequestId(
      absl::string_view cluster, absl::string_view owner, absl::string_view request_id) = 0;

  // Finds the newest plan of the cluster for this job, whose id is not empty, expired or not.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanOfJob(absl::string_view cluster,
                                                                  absl::string_view job_id) = 0;

  // Finds the newest plan of the cluster with this `answer_key`, which is not empty, for any job,
  // expired or not.
  virtual absl::StatusOr<std::optional<PlanRecord>> FindPlanByAnswer(
      absl::string_view cluster, absl::string_view answer_key) = 0;

  // Lists plans of a cluster without their specs, with the rules and errors of `ListProfiles`.
  virtual absl::StatusOr<Page<PlanRecord>> ListPlans(absl::string_view cluster,
                                                     const PageRequest& page) = 0;

  // Lists the plans of a cluster that are in a scope, as `ListPlans` does. A token is good for the
  // same owner and the same jobs in the same order. The time it takes grows with the plans of the
  // jobs in the scope and the length of the page.
  virtual absl::StatusOr<Page<PlanRecord>> ListOwnPlans(absl::string_view cluster,
                                                        const PlanScope& scope,
                                                        const PageRequest& page) = 0;

  // Counts the plans of the cluster, expired ones included.
  virtual absl::StatusOr<int64_t> CountPlans(absl::string_view cluster) = 0;

  // Deletes at most `limit` plans of the scope that expire at or before `now - retention`, those
  // that expired first first, and returns how many; a `limit` of 0 or less deletes none. Plans with
  // executions stay, since their measurements are worth more than the space. The time it takes
  // grows with the plans of all scopes that have expired. A database that several servers share
  // takes its own time if that is before `now`, so that none whose clock is ahead deletes what is
  // valid to the others. One server deletes at a time: for a scope that names an owner or a cluster
  // this waits for another's batch, else it returns 0 meanwhile.
  virtual absl::StatusOr<int64_t> DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                                     int64_t limit, const RecordScope& scope) = 0;
  absl::StatusOr<int64_t> DeleteExpiredPlans(absl::Time now, int64_t limit,
                                             const RecordScope& scope = {}) {
    return DeleteExpiredPlans(now, absl::ZeroDuration(), limit, scope);
  }

  // Returns what the profiles, plans, executions and windows of the scope take up; calibrations do
  // not count. Reads two rows for each pair of an owner and a cluster in the scope, of PostgreSQL
  // some more if several transactions change its records at once.
  virtual absl::StatusOr<StoredUsage> Usage(const RecordScope& scope) = 0;

  // Returns the bytes of the profiles of the scope that `PutProfile` would delete, if it stored
  // this one as a new one with this `keep_count`.
  virtual absl::StatusOr<int64_t> ReplacedBytes(const ProfileRecord& profile, int64_t keep_count,
                                                const RecordScope& scope) = 0;

  // Returns whether a plan of any cluster in the store has this spec, which is then not stored
  // again.
  virtual absl::StatusOr<bool> HasSpec(absl::string_view spec) = 0;

  // Stores an execution. A second one of a plan with the same non-empty `request_id` changes
  // nothing and returns the stored one, whose contents are not compared. NOT_FOUND
  // (RESOURCE_NOT_FOUND) if the plan is not stored; ALREADY_EXISTS (SPEC_INVALID) if the name is
  // taken.
  virtual absl::StatusOr<ExecutionRecord> CreateExecution(ExecutionRecord execution) = 0;

  // Returns an execution by name. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ExecutionRecord> GetExecution(absl::string_view name) = 0;

  // Lists executions of a plan, with the rules and errors of `ListProfiles`.
  virtual absl::StatusOr<Page<ExecutionRecord>> ListExecutions(absl::string_view plan,
                                                               const PageRequest& page) = 0;

  // Moves an execution from `expected` to `state`, with this end and reason, and returns it. The
  // state `kAbandoned` makes it `kFailed` until windows are appended. An abandoned execution counts
  // as running for `expected`. FAILED_PRECONDITION (EXECUTION_STATE), with nothing changed, if its
  // state is another than `expected`. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<ExecutionRecord> SetExecutionState(absl::string_view name,
                                                            ExecutionState expected,
                                                            ExecutionState state,
                                                            absl::Time end_time,
                                                            absl::string_view failure_reason) = 0;

  // Abandons at most `limit` (above 0) running executions whose `report_time` is not after
  // `before`, those silent longest first: they are `kFailed` until windows are appended. Their end
  // is `end_time`, or their start if that is later. Returns them as they are now. In a database
  // that several servers share those that another transaction changes are passed over.
  virtual absl::StatusOr<std::vector<ExecutionRecord>> FailSilentExecutions(
      absl::Time before, absl::Time end_time, absl::string_view failure_reason, int64_t limit) = 0;

  // Appends windows that arrived at `report_time` to a running execution: all new ones or, on an
  // error, none. An abandoned execution runs again with its first new window. A window whose rank
  // and first step are stored, or are those of an earlier one in `windows`, counts as a duplicate,
  // whatever else it has; duplicates alone change nothing, the `report_time` included, which else
  // becomes that of the call, unless it is later already. NOT_FOUND (RESOURCE_NOT_FOUND);
  // FAILED_PRECONDITION (EXECUTION_STATE) if the execution is closed; RESOURCE_EXHAUSTED
  // (UPLOAD_TOO_LARGE) if it would have more windows or bytes than `limits`.
  virtual absl::StatusOr<AppendResult> AppendWindows(absl::string_view execution,
                                                     absl::Span<const WindowRecord> windows,
                                                     const ExecutionLimits& limits,
                                                     absl::Time report_time) = 0;

  // Deletes at most `limit` executions with their windows that do not run and whose last report and
  // end are not after `now - retention`, those that ended first first, and returns how many; a
  // `limit` of 0 or less deletes none. Ends early once the executions had `kMaxDeletedWindowCount`
  // windows, but not before the first. A database that several servers share takes its own time if
  // that is before `now`, so that none whose clock is ahead deletes what is young to the others; it
  // returns 0 while another server deletes.
  virtual absl::StatusOr<int64_t> DeleteOldExecutions(absl::Time now, absl::Duration retention,
                                                      int64_t limit) = 0;

  // Returns the number of windows of an execution. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<int64_t> WindowCount(absl::string_view execution) = 0;

  // Parts of windows to read; `kFigures` leaves `bytes` empty and does not read them from disk.
  enum class WindowParts { kAll, kFigures };

  // Lists all windows of an execution by rank, then first step, in one answer without pages: as
  // many as its `ExecutionLimits` allowed. NOT_FOUND (RESOURCE_NOT_FOUND).
  virtual absl::StatusOr<std::vector<WindowRecord>> ListWindows(
      absl::string_view execution, WindowParts parts = WindowParts::kAll) = 0;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_STORE_H_
