#include "server/backup/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "proto/wire/digest.h"
#include "server/backup/postgres_rows.h"
#include "server/backup/sqlite_rows.h"
#include "server/backup/table_rows.h"
#include "server/store/sqlite_connection.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_store.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

constexpr char kManifest[] =
    "CREATE TABLE backup_manifest (name TEXT PRIMARY KEY, columns TEXT NOT NULL, "
    "row_count INTEGER NOT NULL, last_number INTEGER NOT NULL, digest TEXT NOT NULL) STRICT";

absl::Status Refused(const std::string& what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStoreUnavailable, what);
}

absl::Status Damaged(const std::string& path, const std::string& what) {
  return MakeError(absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
                   absl::StrCat("backup ", path, ": ", what, "; use another backup"));
}

// A new file, removed with this object if `Make` made it.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)) {}
  ~NewFile() {
    for (const char* const suffix : {"", "-journal", "-wal", "-shm"}) {
      std::error_code unused;
      if (is_made_) std::filesystem::remove(path_ + suffix, unused);
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& path() const { return path_; }

  // Creates the empty file, for the owner alone. Leaves one that is there already as it is: it may
  // be that of another process.
  absl::Status Make() {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno == EEXIST) {
      return Refused(absl::StrCat(path_,
                                  " is there already; wait if another command is writing it, "
                                  "or remove it if a command that was ended has left it"));
    }
    if (file < 0) {
      return Refused(std::string(ErrnoToStatus(errno, "make", path_).message()));
    }
    is_made_ = true;
    close(file);
    return absl::OkStatus();
  }

  // Renames the file once it is on the disk. No other file may have the name.
  absl::Status Keep(const std::string& name) {
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const bool flushed = file >= 0 && fsync(file) == 0;
    if (file >= 0) close(file);
    if (!flushed || link(path_.c_str(), name.c_str()) != 0) {
      return Refused(absl::StrCat("cannot make ", name, ": ", ErrnoText(errno),
                                  "; name a file that is not there yet"));
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  bool is_made_ = false;
};

// Opens a backup, which is a single file; `kWriter` of the store would create a log beside it.
absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenBackup(const std::string& path) {
  return SqliteConnection::Open(path, Role::kReader, {});
}

// Copies all tables, and records their counts and digest.
absl::StatusOr<BackupSummary> CopyInto(SqliteConnection& file, RowSource& source) {
  BackupSummary summary;
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteRowSink> sink, SqliteRowSink::Begin(file));
  PARPLAN_RETURN_IF_ERROR(file.Execute(kManifest));
  std::string digests;
  for (const StoreTable& table : StoreTables()) {
    int64_t count = 0;
    RowDigest digest;
    PARPLAN_RETURN_IF_ERROR(source.ReadTable(table, [&](const TableRow& row) {
      ++count;
      digest.Add(row);
      return sink->Add(table, row);
    }));
    int64_t last_number = 0;
    if (table.is_numbered) {
      PARPLAN_ASSIGN_OR_RETURN(last_number, source.LastNumber(table));
      PARPLAN_RETURN_IF_ERROR(sink->SetLastNumber(table, last_number));
    }
    PARPLAN_ASSIGN_OR_RETURN(
        SqliteStatement note,
        file.Prepare("INSERT INTO backup_manifest (name, columns, row_count, last_number, digest) "
                     "VALUES (?1, ?2, ?3, ?4, ?5)"));
    const std::string columns = ColumnList(table);
    PARPLAN_RETURN_IF_ERROR(note.Bind(1, table.name)
                                .Bind(2, columns)
                                .Bind(3, count)
                                .Bind(4, last_number)
                                .Bind(5, digest.text())
                                .Run());
    summary.row_counts.emplace_back(table.name, count);
    absl::StrAppend(&digests, table.name, " ", digest.text(), "\n");
  }
  summary.digest = Sha256Hex(digests);
  PARPLAN_RETURN_IF_ERROR(sink->Commit());
  return summary;
}

absl::StatusOr<BackupSummary> WriteBackup(RowSource& source, const std::string& path) {
  NewFile staged(absl::StrCat(path, ".new"));
  PARPLAN_RETURN_IF_ERROR(staged.Make());
  BackupSummary summary;
  {
    PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> file,
                             SqliteConnection::Open(staged.path(), Role::kWriter, {}));
    // Uses no write-ahead log, so that the backup is a single file.
    PARPLAN_RETURN_IF_ERROR(file->Execute("PRAGMA journal_mode=DELETE"));
    PARPLAN_RETURN_IF_ERROR(MigrateSqlite(*file, absl::Now()));
    PARPLAN_ASSIGN_OR_RETURN(summary, CopyInto(*file, source));
  }
  PARPLAN_RETURN_IF_ERROR(staged.Keep(path));
  return summary;
}

// Reads one number from a database.
absl::StatusOr<int64_t> ReadNumber(SqliteConnection& file, absl::string_view query) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement read, file.Prepare(query));
  PARPLAN_RETURN_IF_ERROR(read.Step().status());
  return read.Integer(0);
}

// Returns the tables as they were when the backup was made, perhaps by an older release: those of
// this release without the tables and columns that the backup does not have.
absl::StatusOr<std::vector<StoreTable>> TablesOf(SqliteConnection& file, const std::string& path) {
  std::vector<StoreTable> tables;
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t schema,
      ReadNumber(file, "SELECT coalesce(max(version), 0) FROM schema_version"));
  // Its tables may have changed in any way, so nothing can be said of its contents.
  if (schema > NewestSqliteSchema()) {
    return Refused(absl::StrCat("backup ", path, ": a newer release wrote it, with schema ", schema,
                                "; this one knows schemas up to ", NewestSqliteSchema(),
                                ": use the release that wrote it"));
  }
  for (StoreTable table : StoreTables()) {
    if (table.first_schema > schema) continue;
    PARPLAN_ASSIGN_OR_RETURN(SqliteStatement read,
                             file.Prepare("SELECT columns FROM backup_manifest WHERE name = ?1"));
    PARPLAN_ASSIGN_OR_RETURN(const bool found, read.Bind(1, table.name).Step());
    if (!found) return Damaged(path, absl::StrCat("it lacks the table ", table.name));
    const std::string columns = absl::StrCat(", ", read.Text(0), ",");
    std::erase_if(table.columns, [&columns](const TableColumn& column) {
      return columns.find(absl::StrCat(", ", column.name, ",")) == std::string::npos;
    });
    if (ColumnList(table) != read.Text(0)) {
      return Damaged(path, absl::StrCat("the table ", table.name, " has columns of no release"));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

absl::Status CheckTable(SqliteConnection& file, const std::string& path, const StoreTable& table,
                        int64_t count, const std::string& digest) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement read,
      file.Prepare("SELECT row_count, digest FROM backup_manifest WHERE name = ?1"));
  PARPLAN_RETURN_IF_ERROR(read.Bind(1, table.name).Step().status());
  if (read.Integer(0) == count && read.Text(1) == digest) return absl::OkStatus();
  return Damaged(path, absl::StrCat("the table ", table.name, " is not as it was written"));
}

absl::StatusOr<BackupSummary> CheckFile(SqliteConnection& file, const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t manifests,
      ReadNumber(file, "SELECT count(*) FROM sqlite_master WHERE name = 'backup_manifest'"));
  if (manifests == 0) return Damaged(path, "it is no backup of parplan");
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<StoreTable> tables, TablesOf(file, path));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteRowSource> rows,
                           SqliteRowSource::Begin(file));
  BackupSummary summary;
  std::string digests;
  for (const StoreTable& table : tables) {
    int64_t count = 0;
    RowDigest digest;
    PARPLAN_RETURN_IF_ERROR(rows->ReadTable(table, [&](const TableRow& row) {
      ++count;
      digest.Add(row);
      return absl::OkStatus();
    }));
    PARPLAN_RETURN_IF_ERROR(CheckTable(file, path, table, count, digest.text()));
    summary.row_counts.emplace_back(table.name, count);
    absl::StrAppend(&digests, table.name, " ", digest.text(), "\n");
  }
  summary.digest = Sha256Hex(digests);
  return summary;
}

absl::Status CheckEmpty(RowSink& sink, const StoreAddress& to, bool replace) {
  PARPLAN_ASSIGN_OR_RETURN(const bool is_empty, sink.IsEmpty());
  if (is_empty) return absl::OkStatus();
  if (!replace) {
    return Refused(absl::StrCat("the store ", to.ToString(),
                                " is not empty; name an empty one, or say --replace to lose what "
                                "it holds"));
  }
  return sink.Clear();
}

absl::Status Fill(SqliteConnection& file, RowSink& sink, const StoreAddress& to, bool replace) {
  PARPLAN_RETURN_IF_ERROR(CheckEmpty(sink, to, replace));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteRowSource> source,
                           SqliteRowSource::Begin(file));
  for (const StoreTable& table : StoreTables()) {
    PARPLAN_RETURN_IF_ERROR(
        source->ReadTable(table, [&](const TableRow& row) { return sink.Add(table, row); }));
    if (!table.is_numbered) continue;
    PARPLAN_ASSIGN_OR_RETURN(const int64_t number, source->LastNumber(table));
    PARPLAN_RETURN_IF_ERROR(sink.SetLastNumber(table, number));
  }
  return sink.Commit();
}

absl::Status FillSqlite(SqliteConnection& file, const StoreAddress& to, bool replace) {
  // Creates the tables, and locks out servers as long as it lives.
  SqliteStoreOptions options;
  options.directory = to.directory;
  options.reader_count = 1;
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteStore> store, SqliteStore::Open(options));
  PARPLAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<SqliteConnection> writer,
      SqliteConnection::Open(absl::StrCat(to.directory, "/", kSqliteFileName), Role::kWriter, {}));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteRowSink> sink,
                           SqliteRowSink::Begin(*writer));
  return Fill(file, *sink, to, replace);
}

absl::Status FillPostgres(SqliteConnection& file, const StoreAddress& to, bool replace) {
  PARPLAN_RETURN_IF_ERROR(OpenStore(to).status());
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RowSink> sink, BeginPostgresRowSink(to.uri));
  return Fill(file, *sink, to, replace);
}

absl::Status CheckFileExists(const std::string& path) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                   ErrnoToStatus(errno, "read", path).message());
}

}  // namespace

absl::StatusOr<BackupSummary> BackUpStore(const StoreAddress& from, const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return Refused(absl::StrCat(path, " is there already; name a new file"));
  }
  if (from.kind == StoreAddress::Kind::kPostgres) {
    PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source,
                             BeginPostgresRowSource(from.uri));
    return WriteBackup(*source, path);
  }
  const std::string database = absl::StrCat(from.directory, "/", kSqliteFileName);
  PARPLAN_RETURN_IF_ERROR(CheckFileExists(database));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection,
                           SqliteConnection::Open(database, Role::kReader, {}));
  PARPLAN_ASSIGN_OR_RETURN(
      const int64_t version,
      ReadNumber(*connection, "SELECT coalesce(max(version), 0) FROM schema_version"));
  if (version != NewestSqliteSchema()) {
    return Refused(absl::StrCat("the store has schema ", version, ", this release writes ",
                                NewestSqliteSchema(),
                                "; bring it up to date with `parplan-server store migrate`"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteRowSource> source,
                           SqliteRowSource::Begin(*connection));
  return WriteBackup(*source, path);
}

absl::StatusOr<BackupSummary> CheckBackup(const std::string& path) {
  PARPLAN_RETURN_IF_ERROR(CheckFileExists(path));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> file, OpenBackup(path));
  return CheckFile(*file, path);
}

absl::StatusOr<BackupSummary> RestoreStore(const std::string& path, const StoreAddress& to,
                                           bool replace) {
  PARPLAN_ASSIGN_OR_RETURN(const BackupSummary summary, CheckBackup(path));
  // A copy that may be migrated to the newest schema.
  NewFile copy(absl::StrCat(path, ".restoring"));
  PARPLAN_RETURN_IF_ERROR(copy.Make());
  std::error_code error;
  std::filesystem::copy_file(path, copy.path(), std::filesystem::copy_options::overwrite_existing,
                             error);
  if (error) return Refused(absl::StrCat("cannot copy ", path, ": ", error.message()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> file,
                           SqliteConnection::Open(copy.path(), Role::kWriter, {}));
  PARPLAN_RETURN_IF_ERROR(MigrateSqlite(*file, absl::Now()));
  PARPLAN_RETURN_IF_ERROR(to.kind == StoreAddress::Kind::kPostgres
                              ? FillPostgres(*file, to, replace)
                              : FillSqlite(*file, to, replace));
  return summary;
}

}  // namespace parplan
