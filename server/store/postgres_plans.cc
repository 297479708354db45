// Plans in the PostgreSQL store.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "server/store/page_token.h"
#include "server/store/postgres_locks.h"
#include "server/store/postgres_page.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_values.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Columns that `ReadPlan` reads: those of plans with their specs, and those of lists.
#define PARPLAN_PLAN_COLUMNS                                                          \
  "sequence, name, cluster, plan_id, plan_key, request_id, job_id, topology_digest, " \
  "profile_digest, create_time, expire_time, bytes, answer_key, owner, "
constexpr char kColumns[] = PARPLAN_PLAN_COLUMNS
    "coalesce((SELECT specs.bytes FROM specs WHERE specs.digest = plans.spec_digest), ''::bytea)";
constexpr char kListedColumns[] = PARPLAN_PLAN_COLUMNS "''::bytea";

// Condition of the list of own plans, for `PostgresList`. Each half finds the numbers of its plans
// by an index; no more than a page of each is needed.
constexpr char kOwnPlans[] =
    "sequence = ANY(ARRAY("
    "(SELECT sequence FROM plans WHERE cluster = $1 AND owner = $2::json ->> 'owner' "
    "AND owner <> '' AND sequence < $3 ORDER BY sequence DESC LIMIT $4 + 1) "
    "UNION (SELECT of_job.sequence FROM json_array_elements_text($2::json -> 'jobs') AS job (id) "
    "CROSS JOIN LATERAL (SELECT sequence FROM plans WHERE cluster = $1 AND job_id = job.id "
    "AND job_id <> '' AND sequence < $3 ORDER BY sequence DESC LIMIT $4 + 1) AS of_job)))";

PlanRecord ReadPlan(const pqxx::row& row) {
  return {.name = TextOf(row[1]),
          .cluster = TextOf(row[2]),
          .plan_id = TextOf(row[3]),
          .plan_key = TextOf(row[4]),
          .answer_key = TextOf(row[12]),
          .owner = TextOf(row[13]),
          .request_id = TextOf(row[5]),
          .job_id = TextOf(row[6]),
          .topology_digest = TextOf(row[7]),
          .profile_digest = TextOf(row[8]),
          .bytes = BytesOf(row[11]),
          .spec = BytesOf(row[14]),
          .create_time = TimeOf(row[9]),
          .expire_time = TimeOf(row[10])};
}

// Returns the plan of the first row, if there is one.
std::optional<PlanRecord> ReadOne(const pqxx::result& rows) {
  if (rows.empty()) return std::nullopt;
  return ReadPlan(rows.front());
}

std::optional<PlanRecord> FindByName(pqxx::transaction_base& transaction, const std::string& name) {
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns, " FROM plans WHERE name = $1"), name));
}

std::optional<PlanRecord> FindByRequest(pqxx::transaction_base& transaction,
                                        const std::string& cluster, const std::string& owner,
                                        const std::string& request_id) {
  if (request_id.empty()) return std::nullopt;
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns,
                   " FROM plans "
                   "WHERE cluster = $1 AND owner = $2 AND request_id = $3 AND request_id <> ''"),
      cluster, owner, request_id));
}

// Waits until another transaction that claims the job has ended. Returns false, with nothing
// changed, if the job has had this number or a higher one.
bool Claim(pqxx::transaction_base& transaction, const PlanRecord& plan, const JobClaim& claim) {
  return transaction
             .exec_params(
                 "INSERT INTO jobs AS known (cluster, job_id, owner, generation) "
                 "VALUES ($1, $2, $3, $4) ON CONFLICT (cluster, job_id) DO UPDATE "
                 "SET owner = excluded.owner, generation = excluded.generation "
                 "WHERE known.generation < excluded.generation",
                 plan.cluster, plan.job_id, claim.owner, claim.generation)
             .affected_rows() == 1;
}

// Stores the spec of a plan unless it is stored. Returns its digest; empty for a plan without one.
std::string PutSpec(pqxx::transaction_base& transaction, const PlanRecord& plan) {
  if (plan.spec.empty()) return "";
  std::string digest = Sha256Hex(plan.spec);
  transaction.exec_params(
      "INSERT INTO specs (digest, cluster, owner, bytes) VALUES ($1, $2, $3, $4) "
      "ON CONFLICT (digest) DO NOTHING",
      digest, plan.cluster, plan.owner, ToBytea(plan.spec));
  return digest;
}

void Insert(pqxx::transaction_base& transaction, const PlanRecord& plan) {
  const std::string spec_digest = PutSpec(transaction, plan);
  transaction.exec_params(
      "INSERT INTO plans (name, cluster, plan_id, plan_key, answer_key, request_id, job_id, "
      "topology_digest, profile_digest, create_time, expire_time, bytes, owner, spec_digest) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, nullif($14, ''))",
      plan.name, plan.cluster, plan.plan_id, plan.plan_key, plan.answer_key, plan.request_id,
      plan.job_id, plan.topology_digest, plan.profile_digest, ToStoredTime(plan.create_time),
      ToStoredTime(plan.expire_time), ToBytea(plan.bytes), plan.owner, spec_digest);
}

}  // namespace

absl::StatusOr<PlanRecord> PostgresStore::PutPlan(PlanRecord plan, std::optional<JobClaim> claim) {
  PARPLAN_RETURN_IF_ERROR(CheckRecordSize(plan.bytes));
  PARPLAN_RETURN_IF_ERROR(CheckRecordSize(plan.spec));
  std::optional<PlanRecord> stored;
  PARPLAN_RETURN_IF_ERROR(
      pool_->Write([&plan, &claim, &stored](pqxx::transaction_base& transaction) -> absl::Status {
        stored = FindByRequest(transaction, plan.cluster, plan.owner, plan.request_id);
        if (!stored.has_value()) {
          if (FindByName(transaction, plan.name).has_value()) return NameTakenError(plan.name);
          if (claim.has_value() && !Claim(transaction, plan, *claim)) {
            // The server that was first may have had the same request.
            stored = FindByRequest(transaction, plan.cluster, plan.owner, plan.request_id);
            if (!stored.has_value()) return JobClaimedError(plan.job_id, claim->generation);
          }
        }
        if (stored.has_value()) {
          if (stored->plan_key != plan.plan_key || stored->job_id != plan.job_id) {
            return RequestIdReusedError(plan.request_id, stored->name);
          }
          return absl::OkStatus();
        }
        Insert(transaction, plan);
        return absl::OkStatus();
      }));
  return stored.has_value() ? *std::move(stored) : std::move(plan);
}

absl::StatusOr<std::optional<JobRecord>> PostgresStore::FindJob(absl::string_view cluster,
                                                                absl::string_view job_id,
                                                                absl::Time now) {
  std::optional<JobRecord> job;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result rows = transaction.exec_params(
        "SELECT owner, generation, "
        "(EXISTS (SELECT 1 FROM plans WHERE cluster = $1 AND job_id = $2 AND job_id <> '' "
        "AND expire_time > $3) OR "
        "EXISTS (SELECT 1 FROM plans JOIN executions ON executions.plan = plans.name "
        "WHERE plans.cluster = $1 AND plans.job_id = $2 AND plans.job_id <> '' "
        "AND executions.state = $4))::int "
        "FROM jobs WHERE cluster = $1 AND job_id = $2",
        std::string(cluster), std::string(job_id), ToStoredTime(now),
        static_cast<int64_t>(ExecutionState::kRunning));
    job.reset();
    if (!rows.empty()) {
      job = JobRecord{.owner = TextOf(rows[0][0]),
                      .generation = IntegerOf(rows[0][1]),
                      .is_held = IntegerOf(rows[0][2]) != 0};
    }
    return absl::OkStatus();
  }));
  return job;
}

absl::StatusOr<PlanRecord> PostgresStore::GetPlan(absl::string_view name) {
  std::optional<PlanRecord> plan;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&plan, name](pqxx::transaction_base& transaction) {
    plan = FindByName(transaction, std::string(name));
    return absl::OkStatus();
  }));
  if (!plan.has_value()) return NotStoredError("plan", name);
  return *std::move(plan);
}

absl::StatusOr<std::optional<PlanRecord>> PostgresStore::FindPlanByKey(absl::string_view cluster,
                                                                       absl::string_view plan_key,
                                                                       absl::string_view job_id,
                                                                       absl::Time now) {
  std::optional<PlanRecord> plan;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    plan = ReadOne(transaction.exec_params(
        absl::StrCat("SELECT ", kColumns,
                     " FROM plans "
                     "WHERE cluster = $1 AND plan_key = $2 AND job_id = $3 AND expire_time > $4 "
                     "ORDER BY sequence DESC LIMIT 1"),
        std::string(cluster), std::string(plan_key), std::string(job_id), ToStoredTime(now)));
    return absl::OkStatus();
  }));
  return plan;
}

absl::StatusOr<std::optional<PlanRecord>> PostgresStore::FindPlanByRequestId(
    absl::string_view cluster, absl::string_view owner, absl::string_view request_id) {
  std::optional<PlanRecord> plan;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    plan = FindByRequest(transaction, std::string(cluster), std::string(owner),
                         std::string(request_id));
    return absl::OkStatus();
  }));
  return plan;
}

absl::StatusOr<std::optional<PlanRecord>> PostgresStore::FindPlanOfJob(absl::string_view cluster,
                                                                       absl::string_view job_id) {
  std::optional<PlanRecord> plan;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    plan = ReadOne(transaction.exec_params(
        absl::StrCat("SELECT ", kColumns,
                     " FROM plans WHERE cluster = $1 AND job_id = $2 AND job_id <> '' "
                     "ORDER BY sequence DESC LIMIT 1"),
        std::string(cluster), std::string(job_id)));
    return absl::OkStatus();
  }));
  return plan;
}

absl::StatusOr<std::optional<PlanRecord>> PostgresStore::FindPlanByAnswer(
    absl::string_view cluster, absl::string_view answer_key) {
  std::optional<PlanRecord> plan;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    plan = ReadOne(transaction.exec_params(
        absl::StrCat("SELECT ", kColumns,
                     " FROM plans "
                     "WHERE cluster = $1 AND answer_key = $2 AND answer_key <> '' "
                     "ORDER BY sequence DESC LIMIT 1"),
        std::string(cluster), std::string(answer_key)));
    return absl::OkStatus();
  }));
  return plan;
}

absl::StatusOr<Page<PlanRecord>> PostgresStore::ListPlans(absl::string_view cluster,
                                                          const PageRequest& page) {
  const std::string list = absl::StrCat("plans/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  return ReadPostgresPage<PlanRecord>(
      *pool_, {"plans", kListedColumns, "cluster = $1 AND $2 = ''", std::string(cluster), "", list},
      position, ReadPlan);
}

absl::StatusOr<Page<PlanRecord>> PostgresStore::ListOwnPlans(absl::string_view cluster,
                                                             const PlanScope& scope,
                                                             const PageRequest& page) {
  const std::string list = OwnPlansList(cluster, scope);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const nlohmann::json wanted = {{"owner", scope.owner}, {"jobs", scope.job_ids}};
  return ReadPostgresPage<PlanRecord>(
      *pool_, {"plans", kListedColumns, kOwnPlans, std::string(cluster), wanted.dump(), list},
      position, ReadPlan);
}

absl::StatusOr<int64_t> PostgresStore::CountPlans(absl::string_view cluster) {
  int64_t count = 0;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    count = IntegerOf(transaction.exec_params("SELECT count(*) FROM plans WHERE cluster = $1",
                                              std::string(cluster))[0][0]);
    return absl::OkStatus();
  }));
  return count;
}

absl::StatusOr<int64_t> PostgresStore::DeleteExpiredPlans(absl::Time now, absl::Duration retention,
                                                          int64_t limit, const RecordScope& scope) {
  if (limit <= 0) return 0;
  int64_t deleted = 0;
  // If an execution of a plan is created meanwhile, its foreign key makes the statement fail; it
  // runs again without that plan. The array is evaluated once, so that `limit` holds.
  const bool waits = !scope.owner.empty() || !scope.cluster.empty();
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) {
    deleted = 0;
    const std::optional<absl::Time> database_now = TakeDeletionTurn(transaction, waits);
    if (!database_now.has_value()) return absl::OkStatus();
    const absl::Time before = std::min(now, *database_now) - retention;
    deleted = static_cast<int64_t>(
        transaction
            .exec_params("DELETE FROM plans WHERE sequence = ANY(ARRAY("
                         "SELECT sequence FROM plans WHERE expire_time <= $1 "
                         "AND ($3 = '' OR owner = $3) AND ($4 = '' OR cluster = $4) "
                         "AND NOT EXISTS ("
                         "SELECT 1 FROM executions WHERE executions.plan = plans.name) "
                         "ORDER BY expire_time, sequence LIMIT $2 FOR UPDATE SKIP LOCKED))",
                         ToStoredTime(before), limit, scope.owner, scope.cluster)
            .affected_rows());
    return absl::OkStatus();
  }));
  return deleted;
}

absl::StatusOr<bool> PostgresStore::HasSpec(absl::string_view spec) {
  bool has_spec = false;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    has_spec =
        !transaction.exec_params("SELECT 1 FROM specs WHERE digest = $1", Sha256Hex(spec)).empty();
    return absl::OkStatus();
  }));
  return has_spec;
}

absl::StatusOr<StoredUsage> PostgresStore::Usage(const RecordScope& scope) {
  StoredUsage usage;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result sums = transaction.exec_params(
        "SELECT coalesce(sum(plan_count), 0)::bigint, coalesce(sum(byte_count), 0)::bigint, "
        "(SELECT coalesce(sum(byte_count), 0)::bigint FROM execution_usage "
        " WHERE ($1 = '' OR owner = $1) AND ($2 = '' OR cluster = $2)) "
        "FROM stored_usage WHERE ($1 = '' OR owner = $1) AND ($2 = '' OR cluster = $2)",
        scope.owner, scope.cluster);
    usage = {.plan_count = IntegerOf(sums[0][0]),
             .byte_count = IntegerOf(sums[0][1]),
             .execution_byte_count = IntegerOf(sums[0][2])};
    return absl::OkStatus();
  }));
  return usage;
}

}  // namespace parplan
