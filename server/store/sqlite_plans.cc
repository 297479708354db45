// Plans in the SQLite store.

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "server/store/page_token.h"
#include "server/store/sqlite_page.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

// Columns that `ReadPlan` reads, `sequence` first; those of lists, and of plans with their specs.
#define PARPLAN_LISTED_PLAN_COLUMNS                                  \
  "sequence, name, cluster, plan_id, plan_key, request_id, job_id, " \
  "topology_digest, profile_digest, create_time, expire_time, bytes, answer_key, owner"
#define PARPLAN_PLAN_COLUMNS  \
  PARPLAN_LISTED_PLAN_COLUMNS \
  ", (SELECT specs.bytes FROM specs WHERE specs.digest = plans.spec_digest)"

PlanRecord ReadListedPlan(const SqliteStatement& row) {
  return {.name = row.Text(1),
          .cluster = row.Text(2),
          .plan_id = row.Text(3),
          .plan_key = row.Text(4),
          .answer_key = row.Text(12),
          .owner = row.Text(13),
          .request_id = row.Text(5),
          .job_id = row.Text(6),
          .topology_digest = row.Text(7),
          .profile_digest = row.Text(8),
          .bytes = row.Blob(11),
          .create_time = row.Time(9),
          .expire_time = row.Time(10)};
}

PlanRecord ReadPlan(const SqliteStatement& row) {
  PlanRecord plan = ReadListedPlan(row);
  plan.spec = row.Blob(14);
  return plan;
}

// Returns the plan of the first row, if there is one.
absl::StatusOr<std::optional<PlanRecord>> ReadOne(SqliteStatement& rows) {
  PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
  if (!found) return std::nullopt;
  return ReadPlan(rows);
}

absl::StatusOr<std::optional<PlanRecord>> FindByName(SqliteConnection& connection,
                                                     absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement find, connection.Prepare("SELECT " PARPLAN_PLAN_COLUMNS
                                                                    " FROM plans WHERE name = ?1"));
  return ReadOne(find.Bind(1, name));
}

absl::StatusOr<std::optional<PlanRecord>> FindByRequest(SqliteConnection& connection,
                                                        absl::string_view cluster,
                                                        absl::string_view owner,
                                                        absl::string_view request_id) {
  if (request_id.empty()) return std::nullopt;
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_PLAN_COLUMNS " FROM plans "
                         "WHERE cluster = ?1 AND owner = ?2 AND request_id = ?3 "
                         "AND request_id <> ''"));
  return ReadOne(find.Bind(1, cluster).Bind(2, owner).Bind(3, request_id));
}

// Returns false, with nothing changed, if the job has had this number or a higher one.
absl::StatusOr<bool> Claim(SqliteConnection& connection, absl::string_view cluster,
                           absl::string_view job_id, const JobClaim& claim) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement set,
      connection.Prepare("INSERT INTO jobs (cluster, job_id, owner, generation) "
                         "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (cluster, job_id) DO UPDATE "
                         "SET owner = excluded.owner, generation = excluded.generation "
                         "WHERE generation < excluded.generation"));
  set.Bind(1, cluster).Bind(2, job_id).Bind(3, claim.owner).Bind(4, claim.generation);
  PARPLAN_RETURN_IF_ERROR(set.Run());
  return connection.ChangeCount() == 1;
}

// Stores the spec of a plan unless it is stored. Returns its digest; empty for a plan without one.
absl::StatusOr<std::string> PutSpec(SqliteConnection& connection, const PlanRecord& plan) {
  if (plan.spec.empty()) return std::string();
  std::string digest = Sha256Hex(plan.spec);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO specs (digest, cluster, owner, bytes) "
                         "VALUES (?1, ?2, ?3, ?4) ON CONFLICT (digest) DO NOTHING"));
  insert.Bind(1, digest).Bind(2, plan.cluster).Bind(3, plan.owner).BindBlob(4, plan.spec);
  PARPLAN_RETURN_IF_ERROR(insert.Run());
  return digest;
}

absl::Status Insert(SqliteConnection& connection, const PlanRecord& plan) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string spec_digest, PutSpec(connection, plan));
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO plans (name, cluster, plan_id, plan_key, request_id, job_id, "
                         "topology_digest, profile_digest, create_time, expire_time, bytes, "
                         "answer_key, owner, spec_digest) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
                         "nullif(?14, ''))"));
  insert.Bind(1, plan.name)
      .Bind(2, plan.cluster)
      .Bind(3, plan.plan_id)
      .Bind(4, plan.plan_key)
      .Bind(5, plan.request_id)
      .Bind(6, plan.job_id)
      .Bind(7, plan.topology_digest)
      .Bind(8, plan.profile_digest)
      .Bind(9, plan.create_time)
      .Bind(10, plan.expire_time)
      .BindBlob(11, plan.bytes)
      .Bind(12, plan.answer_key)
      .Bind(13, plan.owner)
      .Bind(14, spec_digest);
  return insert.Run();
}

}  // namespace

absl::StatusOr<PlanRecord> SqliteStore::PutPlan(PlanRecord plan, std::optional<JobClaim> claim) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::optional<PlanRecord> stored,
                           FindByRequest(*writer_, plan.cluster, plan.owner, plan.request_id));
  if (stored.has_value()) {
    if (stored->plan_key != plan.plan_key || stored->job_id != plan.job_id) {
      return RequestIdReusedError(plan.request_id, stored->name);
    }
    return *std::move(stored);
  }
  PARPLAN_ASSIGN_OR_RETURN(stored, FindByName(*writer_, plan.name));
  if (stored.has_value()) return NameTakenError(plan.name);
  if (claim.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(const bool is_claimed,
                             Claim(*writer_, plan.cluster, plan.job_id, *claim));
    if (!is_claimed) return JobClaimedError(plan.job_id, claim->generation);
  }
  PARPLAN_RETURN_IF_ERROR(Insert(*writer_, plan));
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return plan;
}

absl::StatusOr<std::optional<JobRecord>> SqliteStore::FindJob(absl::string_view cluster,
                                                              absl::string_view job_id,
                                                              absl::Time now) {
  const Reader reader(this);
  // The conditions on '' let SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      reader->Prepare(
          "SELECT owner, generation, "
          "EXISTS (SELECT 1 FROM plans WHERE cluster = ?1 AND job_id = ?2 AND job_id <> '' "
          "AND expire_time > ?3) OR "
          "EXISTS (SELECT 1 FROM plans CROSS JOIN executions ON executions.plan = plans.name "
          "AND executions.state = ?4 WHERE plans.cluster = ?1 AND plans.job_id = ?2 "
          "AND plans.job_id <> '') "
          "FROM jobs WHERE cluster = ?1 AND job_id = ?2"));
  find.Bind(1, cluster)
      .Bind(2, job_id)
      .Bind(3, now)
      .Bind(4, static_cast<int64_t>(ExecutionState::kRunning));
  PARPLAN_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return std::nullopt;
  return JobRecord{
      .owner = find.Text(0), .generation = find.Integer(1), .is_held = find.Integer(2) != 0};
}

absl::StatusOr<PlanRecord> SqliteStore::GetPlan(absl::string_view name) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(std::optional<PlanRecord> plan, FindByName(*reader, name));
  if (!plan.has_value()) return NotStoredError("plan", name);
  return *std::move(plan);
}

absl::StatusOr<std::optional<PlanRecord>> SqliteStore::FindPlanByKey(absl::string_view cluster,
                                                                     absl::string_view plan_key,
                                                                     absl::string_view job_id,
                                                                     absl::Time now) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      reader->Prepare("SELECT " PARPLAN_PLAN_COLUMNS " FROM plans "
                      "WHERE cluster = ?1 AND plan_key = ?2 AND job_id = ?3 AND expire_time > ?4 "
                      "ORDER BY sequence DESC LIMIT 1"));
  return ReadOne(find.Bind(1, cluster).Bind(2, plan_key).Bind(3, job_id).Bind(4, now));
}

absl::StatusOr<std::optional<PlanRecord>> SqliteStore::FindPlanByRequestId(
    absl::string_view cluster, absl::string_view owner, absl::string_view request_id) {
  const Reader reader(this);
  return FindByRequest(*reader, cluster, owner, request_id);
}

absl::StatusOr<std::optional<PlanRecord>> SqliteStore::FindPlanOfJob(absl::string_view cluster,
                                                                     absl::string_view job_id) {
  const Reader reader(this);
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement find,
                           reader->Prepare("SELECT " PARPLAN_PLAN_COLUMNS " FROM plans "
                                           "WHERE cluster = ?1 AND job_id = ?2 AND job_id <> '' "
                                           "ORDER BY sequence DESC LIMIT 1"));
  return ReadOne(find.Bind(1, cluster).Bind(2, job_id));
}

absl::StatusOr<std::optional<PlanRecord>> SqliteStore::FindPlanByAnswer(
    absl::string_view cluster, absl::string_view answer_key) {
  const Reader reader(this);
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      reader->Prepare("SELECT " PARPLAN_PLAN_COLUMNS " FROM plans "
                      "WHERE cluster = ?1 AND answer_key = ?2 AND answer_key <> '' "
                      "ORDER BY sequence DESC LIMIT 1"));
  return ReadOne(find.Bind(1, cluster).Bind(2, answer_key));
}

absl::StatusOr<Page<PlanRecord>> SqliteStore::ListPlans(absl::string_view cluster,
                                                        const PageRequest& page) {
  const std::string list = absl::StrCat("plans/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT " PARPLAN_LISTED_PLAN_COLUMNS " FROM plans "
                      "WHERE cluster = ?1 AND sequence < ?2 ORDER BY sequence DESC"));
  rows.Bind(1, cluster).Bind(2, position.before_sequence);
  return ReadPage<PlanRecord>(rows, list, position.page_size, ReadListedPlan);
}

absl::StatusOr<Page<PlanRecord>> SqliteStore::ListOwnPlans(absl::string_view cluster,
                                                           const PlanScope& scope,
                                                           const PageRequest& page) {
  const std::string list = OwnPlansList(cluster, scope);
  // The statement keeps a view of it.
  const std::string job_ids = nlohmann::json(scope.job_ids).dump();
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const Reader reader(this);
  // Each half finds the numbers of its plans by an index, so that only the rows of the page are
  // read.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT " PARPLAN_LISTED_PLAN_COLUMNS " FROM plans "
                      "WHERE sequence IN ("
                      "SELECT sequence FROM (SELECT sequence FROM plans WHERE cluster = ?1 "
                      "AND owner = ?3 AND owner <> '' AND sequence < ?2 "
                      "ORDER BY sequence DESC LIMIT ?5) "
                      "UNION SELECT sequence FROM (SELECT plans.sequence FROM json_each(?4) AS job "
                      "CROSS JOIN plans ON plans.cluster = ?1 AND plans.job_id = job.value "
                      "AND plans.job_id <> '' AND plans.sequence < ?2 "
                      "ORDER BY plans.sequence DESC LIMIT ?5)) ORDER BY sequence DESC"));
  // The row after a full page shows that there is a next one.
  rows.Bind(1, cluster)
      .Bind(2, position.before_sequence)
      .Bind(3, scope.owner)
      .Bind(4, job_ids)
      .Bind(5, int64_t{position.page_size} + 1);
  return ReadPage<PlanRecord>(rows, list, position.page_size, ReadListedPlan);
}

absl::StatusOr<int64_t> SqliteStore::CountPlans(absl::string_view cluster) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement count,
                           reader->Prepare("SELECT count(*) FROM plans WHERE cluster = ?1"));
  PARPLAN_RETURN_IF_ERROR(count.Bind(1, cluster).Step().status());
  return count.Integer(0);
}

absl::StatusOr<int64_t> SqliteStore::DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                                        int64_t limit, const RecordScope& scope) {
  // A negative LIMIT means none to SQLite.
  if (limit <= 0) return 0;
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  {
    PARPLAN_ASSIGN_OR_RETURN(
        SqliteStatement remove,
        writer_->Prepare("DELETE FROM plans WHERE sequence IN ("
                         "SELECT sequence FROM plans WHERE expire_time <= ?1 "
                         "AND (?3 = '' OR owner = ?3) AND (?4 = '' OR cluster = ?4) "
                         "AND NOT EXISTS ("
                         "SELECT 1 FROM executions WHERE executions.plan = plans.name) "
                         "ORDER BY expire_time, sequence LIMIT ?2)"));
    remove.Bind(1, now - retention).Bind(2, limit).Bind(3, scope.owner).Bind(4, scope.cluster);
    PARPLAN_RETURN_IF_ERROR(remove.Run());
  }
  const int64_t deleted = writer_->ChangeCount();
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return deleted;
}

absl::StatusOr<bool> SqliteStore::HasSpec(absl::string_view spec) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement find,
                           reader->Prepare("SELECT 1 FROM specs WHERE digest = ?1"));
  const std::string digest = Sha256Hex(spec);
  return find.Bind(1, digest).Step();
}

absl::StatusOr<StoredUsage> SqliteStore::Usage(const RecordScope& scope) {
  const Reader reader(this);
  // Statements of their own, so that each uses an index.
  const char* const rows = !scope.owner.empty()     ? "owner = ?1 AND (?2 = '' OR cluster = ?2)"
                           : !scope.cluster.empty() ? "?1 = '' AND cluster = ?2"
                                                    : "?1 = '' AND ?2 = ''";
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement sum,
                           reader->Prepare(absl::StrCat(
                               "SELECT coalesce(sum(plan_count), 0), "
                               "coalesce(sum(byte_count), 0), "
                               "(SELECT coalesce(sum(byte_count), 0) FROM execution_usage WHERE ",
                               rows, ") FROM stored_usage WHERE ", rows)));
  PARPLAN_RETURN_IF_ERROR(sum.Bind(1, scope.owner).Bind(2, scope.cluster).Step().status());
  return StoredUsage{.plan_count = sum.Integer(0),
                     .byte_count = sum.Integer(1),
                     .execution_byte_count = sum.Integer(2)};
}

}  // namespace parplan
