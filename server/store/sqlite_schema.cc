#include "server/store/sqlite_schema.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

struct Migration {
  absl::string_view description;
  absl::string_view statements;
};

// Migration i changes schema i to i + 1. A released one is never edited; new ones
// are added at the end.
//
// `sequence` numbers records in the order in which they are stored. AUTOINCREMENT never
// reuses the number of a deleted record, so page tokens stay valid. Large columns are last:
// SQLite reads a row from the front and stops early.
constexpr Migration kMigrations[] = {
    {"profiles, plans, executions and their windows", R"sql(
CREATE TABLE profiles (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  node TEXT NOT NULL,
  profile_id TEXT NOT NULL,
  device_kind TEXT NOT NULL,
  request_id TEXT NOT NULL,
  content_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX profiles_by_request ON profiles (cluster, node, request_id)
  WHERE request_id <> '';
CREATE INDEX profiles_by_cluster ON profiles (cluster, sequence);
CREATE INDEX profiles_by_node ON profiles (cluster, node, sequence);

CREATE TABLE profile_revisions (
  cluster TEXT PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  plan_id TEXT NOT NULL,
  plan_key TEXT NOT NULL,
  request_id TEXT NOT NULL,
  job_id TEXT NOT NULL,
  topology_digest TEXT NOT NULL,
  profile_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  expire_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX plans_by_request ON plans (cluster, request_id) WHERE request_id <> '';
CREATE INDEX plans_by_key ON plans (cluster, plan_key, job_id, sequence);
CREATE INDEX plans_by_cluster ON plans (cluster, sequence);
CREATE INDEX plans_by_expiry ON plans (expire_time);

CREATE TABLE executions (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  plan TEXT NOT NULL REFERENCES plans (name),
  execution_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  state INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  window_count INTEGER NOT NULL,
  failure_reason TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX executions_by_request ON executions (plan, request_id)
  WHERE request_id <> '';
CREATE INDEX executions_by_plan ON executions (plan, sequence);

CREATE TABLE windows (
  execution INTEGER NOT NULL REFERENCES executions (sequence),
  rank INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  median_step_nanoseconds INTEGER NOT NULL,
  peak_memory_bytes INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (execution, rank, first_step)
) STRICT;
)sql"},
    {"calibrations and which of them are active", R"sql(
CREATE TABLE calibrations (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  cluster TEXT NOT NULL,
  calibration_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  content_digest TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX calibrations_by_request ON calibrations (cluster, request_id)
  WHERE request_id <> '';
CREATE INDEX calibrations_by_cluster ON calibrations (cluster, sequence);

-- A null calibration: none is active any more.
CREATE TABLE active_calibrations (
  cluster TEXT PRIMARY KEY,
  calibration TEXT REFERENCES calibrations (name),
  activate_time INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
)sql"},
    // The table is created again because an added column would come last, after `bytes`.
    {"what a window says of phases and memory items", R"sql(
CREATE TABLE new_windows (
  execution INTEGER NOT NULL REFERENCES executions (sequence),
  rank INTEGER NOT NULL,
  first_step INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  median_step_nanoseconds INTEGER NOT NULL,
  peak_memory_bytes INTEGER NOT NULL,
  items BLOB NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (execution, rank, first_step)
) STRICT;
INSERT INTO new_windows
  SELECT execution, rank, first_step, step_count, median_step_nanoseconds, peak_memory_bytes,
         x'', bytes
  FROM windows;
DROP TABLE windows;
ALTER TABLE new_windows RENAME TO windows;
)sql"},
    // Every reader of this key reads the bytes of the plan too, so it may come after them.
    {"plans by what they answer", R"sql(
ALTER TABLE plans ADD COLUMN answer_key TEXT NOT NULL DEFAULT '';
CREATE INDEX plans_by_answer ON plans (cluster, answer_key, sequence) WHERE answer_key <> '';
)sql"},
    // The last reports of running executions are unknown, so their silence starts now.
    {"when an execution last reported", R"sql(
ALTER TABLE executions ADD COLUMN report_time INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET report_time =
  CASE state WHEN 1 THEN CAST(strftime('%s', 'now') AS INTEGER) * 1000000000 ELSE end_time END;
CREATE INDEX executions_by_silence ON executions (report_time, sequence) WHERE state = 1;
)sql"},
    // Before this schema only the reason distinguished them.
    {"executions that were failed for their silence", R"sql(
ALTER TABLE executions ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET abandoned = 1
  WHERE state = 3 AND failure_reason LIKE 'abandoned: nobody reported for %';
)sql"},
    {"who asked for a plan", R"sql(
ALTER TABLE plans ADD COLUMN owner TEXT NOT NULL DEFAULT '';
DROP INDEX plans_by_request;
CREATE UNIQUE INDEX plans_by_request ON plans (cluster, owner, request_id)
  WHERE request_id <> '';
CREATE INDEX plans_by_job ON plans (cluster, job_id, sequence) WHERE job_id <> '';
)sql"},
    // Numbers of plans are only in their bytes; a plan's number is at most its `sequence`, since
    // every plan of its job before it took one of both. The first to own a plan of a job owns it.
    {"jobs, with their owners and the highest numbers of their plans", R"sql(
CREATE TABLE jobs (
  cluster TEXT NOT NULL,
  job_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  generation INTEGER NOT NULL,
  PRIMARY KEY (cluster, job_id)
) STRICT, WITHOUT ROWID;
INSERT INTO jobs
  SELECT cluster, job_id,
         coalesce((SELECT earlier.owner FROM plans AS earlier
                   WHERE earlier.cluster = plans.cluster AND earlier.job_id = plans.job_id
                     AND earlier.job_id <> '' AND earlier.owner <> ''
                   ORDER BY earlier.sequence LIMIT 1), ''),
         max(sequence)
  FROM plans WHERE job_id <> '' GROUP BY cluster, job_id;
CREATE INDEX plans_by_owner ON plans (cluster, owner, sequence) WHERE owner <> '';
)sql"},
    // Counted by triggers, so that no change of a record can forget it. Rows without records go, or
    // invented clusters would leave them behind.
    {"who uploaded a profile, and what owners and clusters use", R"sql(
ALTER TABLE profiles ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE TABLE stored_usage (
  cluster TEXT NOT NULL,
  owner TEXT NOT NULL,
  plan_count INTEGER NOT NULL,
  byte_count INTEGER NOT NULL,
  PRIMARY KEY (cluster, owner)
) STRICT, WITHOUT ROWID;
CREATE INDEX stored_usage_by_owner ON stored_usage (owner, plan_count, byte_count);
INSERT INTO stored_usage
  SELECT cluster, owner, sum(plan_count), sum(byte_count)
  FROM (SELECT cluster, owner, 1 AS plan_count, length(bytes) AS byte_count FROM plans
        UNION ALL SELECT cluster, owner, 0, length(bytes) FROM profiles)
  GROUP BY cluster, owner;
CREATE TRIGGER plan_added AFTER INSERT ON plans BEGIN
  INSERT INTO stored_usage VALUES (NEW.cluster, NEW.owner, 1, length(NEW.bytes))
    ON CONFLICT (cluster, owner) DO UPDATE SET plan_count = plan_count + 1,
      byte_count = byte_count + excluded.byte_count;
END;
CREATE TRIGGER plan_removed AFTER DELETE ON plans BEGIN
  UPDATE stored_usage SET plan_count = plan_count - 1,
      byte_count = byte_count - length(OLD.bytes)
    WHERE cluster = OLD.cluster AND owner = OLD.owner;
  DELETE FROM stored_usage WHERE cluster = OLD.cluster AND owner = OLD.owner
    AND plan_count = 0 AND byte_count = 0;
END;
CREATE TRIGGER profile_added AFTER INSERT ON profiles BEGIN
  INSERT INTO stored_usage VALUES (NEW.cluster, NEW.owner, 0, length(NEW.bytes))
    ON CONFLICT (cluster, owner) DO UPDATE SET byte_count = byte_count + excluded.byte_count;
END;
CREATE TRIGGER profile_removed AFTER DELETE ON profiles BEGIN
  UPDATE stored_usage SET byte_count = byte_count - length(OLD.bytes)
    WHERE cluster = OLD.cluster AND owner = OLD.owner;
  DELETE FROM stored_usage WHERE cluster = OLD.cluster AND owner = OLD.owner
    AND plan_count = 0 AND byte_count = 0;
END;
)sql"},
    // Profiles of before have no kind, and no new one replaces them. The index has all that the
    // search for older profiles reads.
    {"kinds of profiles that replace each other", R"sql(
ALTER TABLE profiles ADD COLUMN kind TEXT NOT NULL DEFAULT '';
CREATE INDEX profiles_by_kind ON profiles (cluster, node, device_kind, kind, sequence);
)sql"},
    // Plans of before keep their specs in `bytes`. A spec goes with the last plan that has it.
    {"specs of plans, each stored once", R"sql(
CREATE TABLE specs (
  digest TEXT PRIMARY KEY,
  cluster TEXT NOT NULL,
  owner TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;
ALTER TABLE plans ADD COLUMN spec_digest TEXT REFERENCES specs (digest);
CREATE INDEX plans_by_spec ON plans (spec_digest) WHERE spec_digest IS NOT NULL;
CREATE TRIGGER spec_added AFTER INSERT ON specs BEGIN
  INSERT INTO stored_usage VALUES (NEW.cluster, NEW.owner, 0, length(NEW.bytes))
    ON CONFLICT (cluster, owner) DO UPDATE SET byte_count = byte_count + excluded.byte_count;
END;
CREATE TRIGGER spec_removed AFTER DELETE ON specs BEGIN
  UPDATE stored_usage SET byte_count = byte_count - length(OLD.bytes)
    WHERE cluster = OLD.cluster AND owner = OLD.owner;
  DELETE FROM stored_usage WHERE cluster = OLD.cluster AND owner = OLD.owner
    AND plan_count = 0 AND byte_count = 0;
END;
CREATE TRIGGER spec_released AFTER DELETE ON plans WHEN OLD.spec_digest IS NOT NULL BEGIN
  DELETE FROM specs WHERE digest = OLD.spec_digest
    AND NOT EXISTS (SELECT 1 FROM plans WHERE spec_digest = OLD.spec_digest);
END;
)sql"},
    // Executions of before count for the owners of their plans. `byte_count` is that of the
    // execution with its windows; records.h says why rows count for 4096 and 64 bytes. They have a
    // table of their own, since they have a quota of their own.
    {"what executions and their windows use", R"sql(
ALTER TABLE executions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE executions ADD COLUMN byte_count INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET
  owner = (SELECT plans.owner FROM plans WHERE plans.name = executions.plan),
  byte_count = 4096 + length(bytes) + coalesce(
    (SELECT sum(64 + length(windows.items) + length(windows.bytes)) FROM windows
     WHERE windows.execution = executions.sequence), 0);
CREATE TABLE execution_usage (
  cluster TEXT NOT NULL,
  owner TEXT NOT NULL,
  byte_count INTEGER NOT NULL,
  PRIMARY KEY (cluster, owner)
) STRICT, WITHOUT ROWID;
CREATE INDEX execution_usage_by_owner ON execution_usage (owner, byte_count);
INSERT INTO execution_usage
  SELECT plans.cluster, executions.owner, sum(executions.byte_count)
  FROM executions JOIN plans ON plans.name = executions.plan
  GROUP BY plans.cluster, executions.owner;
CREATE TRIGGER execution_added AFTER INSERT ON executions BEGIN
  INSERT INTO execution_usage
    SELECT cluster, NEW.owner, NEW.byte_count FROM plans WHERE name = NEW.plan
    ON CONFLICT (cluster, owner) DO UPDATE SET byte_count = byte_count + excluded.byte_count;
END;
CREATE TRIGGER execution_grown AFTER UPDATE OF byte_count ON executions BEGIN
  UPDATE execution_usage SET byte_count = byte_count + NEW.byte_count - OLD.byte_count
    WHERE cluster = (SELECT cluster FROM plans WHERE name = NEW.plan) AND owner = NEW.owner;
END;
CREATE TRIGGER execution_removed AFTER DELETE ON executions BEGIN
  UPDATE execution_usage SET byte_count = byte_count - OLD.byte_count
    WHERE cluster = (SELECT cluster FROM plans WHERE name = OLD.plan) AND owner = OLD.owner;
  DELETE FROM execution_usage
    WHERE cluster = (SELECT cluster FROM plans WHERE name = OLD.plan) AND owner = OLD.owner
    AND byte_count = 0;
END;
)sql"},
    // Profiles of before have no coverage until the server has read them, and all of them count.
    {"what profiles measure", R"sql(
ALTER TABLE profiles ADD COLUMN coverage TEXT NOT NULL DEFAULT '';
CREATE INDEX profiles_by_coverage ON profiles (cluster, coverage, sequence);
CREATE INDEX profiles_without_coverage ON profiles (sequence) WHERE coverage = '';
)sql"},
    {"executions by their ends", R"sql(
CREATE INDEX executions_by_end ON executions (end_time, sequence) WHERE state <> 1;
)sql"},
};

absl::StatusOr<int64_t> ReadVersion(SqliteConnection& connection) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement read,
      connection.Prepare("SELECT coalesce(max(version), 0) FROM schema_version"));
  PARPLAN_RETURN_IF_ERROR(read.Step().status());
  return read.Integer(0);
}

absl::Status Apply(SqliteConnection& connection, int version, absl::Time now) {
  const Migration& migration = kMigrations[version - 1];
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(connection, SqliteConnection::Role::kWriter));
  PARPLAN_RETURN_IF_ERROR(connection.Execute(std::string(migration.statements)));
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement record,
      connection.Prepare(
          "INSERT INTO schema_version (version, description, apply_time) VALUES (?1, ?2, ?3)"));
  record.Bind(1, int64_t{version}).Bind(2, migration.description).Bind(3, now);
  PARPLAN_RETURN_IF_ERROR(record.Run());
  return transaction.Commit();
}

}  // namespace

int NewestSqliteSchema() { return static_cast<int>(std::size(kMigrations)); }

absl::Status MigrateSqlite(SqliteConnection& connection, absl::Time now, int schema) {
  PARPLAN_RETURN_IF_ERROR(
      connection.Execute("CREATE TABLE IF NOT EXISTS schema_version ("
                         "version INTEGER PRIMARY KEY, description TEXT NOT NULL, "
                         "apply_time INTEGER NOT NULL) STRICT"));
  PARPLAN_ASSIGN_OR_RETURN(const int64_t version, ReadVersion(connection));
  if (version > NewestSqliteSchema()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable,
                     absl::StrCat("store: the database has schema ", version,
                                  ", this server knows schemas up to ", NewestSqliteSchema(),
                                  "; start the newer server that wrote it, or restore a backup "
                                  "from before the upgrade"));
  }
  for (int next = static_cast<int>(version) + 1; next <= schema; ++next) {
    PARPLAN_RETURN_IF_ERROR(Apply(connection, next, now));
  }
  return absl::OkStatus();
}

}  // namespace parplan
