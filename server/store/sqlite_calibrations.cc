// Calibrations in the SQLite store.

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite_page.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

// Columns that `ReadCalibration` reads, `sequence` first.
#define PARPLAN_CALIBRATION_COLUMNS \
  "sequence, name, cluster, calibration_id, request_id, content_digest, create_time, bytes"

CalibrationRecord ReadCalibration(const SqliteStatement& row) {
  return {.name = row.Text(1),
          .cluster = row.Text(2),
          .calibration_id = row.Text(3),
          .request_id = row.Text(4),
          .content_digest = row.Text(5),
          .bytes = row.Blob(7),
          .create_time = row.Time(6)};
}

absl::StatusOr<std::optional<CalibrationRecord>> ReadOne(SqliteStatement& rows) {
  PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
  if (!found) return std::nullopt;
  return ReadCalibration(rows);
}

absl::StatusOr<std::optional<CalibrationRecord>> FindByName(SqliteConnection& connection,
                                                            absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement find,
                           connection.Prepare("SELECT " PARPLAN_CALIBRATION_COLUMNS
                                              " FROM calibrations WHERE name = ?1"));
  return ReadOne(find.Bind(1, name));
}

absl::StatusOr<std::optional<CalibrationRecord>> FindByRequest(
    SqliteConnection& connection, const CalibrationRecord& calibration) {
  if (calibration.request_id.empty()) return std::nullopt;
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_CALIBRATION_COLUMNS " FROM calibrations "
                         "WHERE cluster = ?1 AND request_id = ?2 AND request_id <> ''"));
  return ReadOne(find.Bind(1, calibration.cluster).Bind(2, calibration.request_id));
}

absl::Status Insert(SqliteConnection& connection, const CalibrationRecord& calibration) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO calibrations (name, cluster, calibration_id, request_id, "
                         "content_digest, create_time, bytes) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
  insert.Bind(1, calibration.name)
      .Bind(2, calibration.cluster)
      .Bind(3, calibration.calibration_id)
      .Bind(4, calibration.request_id)
      .Bind(5, calibration.content_digest)
      .Bind(6, calibration.create_time)
      .BindBlob(7, calibration.bytes);
  return insert.Run();
}

absl::StatusOr<ActiveCalibrationRecord> ReadActive(SqliteConnection& connection,
                                                   absl::string_view cluster) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement read,
      connection.Prepare("SELECT coalesce(c.name, ''), coalesce(c.content_digest, ''), "
                         "a.activate_time FROM active_calibrations AS a "
                         "LEFT JOIN calibrations AS c ON c.name = a.calibration "
                         "WHERE a.cluster = ?1"));
  PARPLAN_ASSIGN_OR_RETURN(const bool found, read.Bind(1, cluster).Step());
  if (!found) return ActiveCalibrationRecord();
  return ActiveCalibrationRecord{
      .name = read.Text(0), .content_digest = read.Text(1), .activate_time = read.Time(2)};
}

}  // namespace

absl::StatusOr<CalibrationRecord> SqliteStore::PutCalibration(CalibrationRecord calibration) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::optional<CalibrationRecord> stored,
                           FindByRequest(*writer_, calibration));
  if (stored.has_value()) {
    if (stored->content_digest != calibration.content_digest) {
      return RequestIdReusedError(calibration.request_id, stored->name);
    }
    return *std::move(stored);
  }
  PARPLAN_ASSIGN_OR_RETURN(stored, FindByName(*writer_, calibration.name));
  if (stored.has_value()) {
    if (stored->content_digest != calibration.content_digest) {
      return NameTakenError(calibration.name);
    }
    return *std::move(stored);
  }
  PARPLAN_RETURN_IF_ERROR(Insert(*writer_, calibration));
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return calibration;
}

absl::StatusOr<CalibrationRecord> SqliteStore::GetCalibration(absl::string_view name) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(std::optional<CalibrationRecord> calibration, FindByName(*reader, name));
  if (!calibration.has_value()) return NotStoredError("calibration", name);
  return *std::move(calibration);
}

absl::StatusOr<Page<CalibrationRecord>> SqliteStore::ListCalibrations(absl::string_view cluster,
                                                                      const PageRequest& page) {
  const std::string list = absl::StrCat("calibrations/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT " PARPLAN_CALIBRATION_COLUMNS " FROM calibrations "
                      "WHERE cluster = ?1 AND sequence < ?2 ORDER BY sequence DESC"));
  rows.Bind(1, cluster).Bind(2, position.before_sequence);
  return ReadPage<CalibrationRecord>(rows, list, position.page_size, ReadCalibration);
}

absl::StatusOr<ActiveCalibrationRecord> SqliteStore::ActivateCalibration(absl::string_view cluster,
                                                                         absl::string_view name,
                                                                         absl::Time activate_time) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  ActiveCalibrationRecord next;
  if (!name.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(std::optional<CalibrationRecord> calibration,
                             FindByName(*writer_, name));
    if (!calibration.has_value() || calibration->cluster != cluster) {
      return NotStoredError("calibration", name);
    }
    next.name = std::move(calibration->name);
    next.content_digest = std::move(calibration->content_digest);
  }
  PARPLAN_ASSIGN_OR_RETURN(ActiveCalibrationRecord active, ReadActive(*writer_, cluster));
  if (active.name == next.name) return active;
  next.activate_time = activate_time;
  {
    PARPLAN_ASSIGN_OR_RETURN(
        SqliteStatement activate,
        writer_->Prepare("INSERT INTO active_calibrations (cluster, calibration, activate_time) "
                         "VALUES (?1, nullif(?2, ''), ?3) ON CONFLICT (cluster) DO UPDATE SET "
                         "calibration = excluded.calibration, "
                         "activate_time = excluded.activate_time"));
    activate.Bind(1, cluster).Bind(2, next.name).Bind(3, next.activate_time);
    PARPLAN_RETURN_IF_ERROR(activate.Run());
  }
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return next;
}

absl::StatusOr<ActiveCalibrationRecord> SqliteStore::ActiveCalibration(absl::string_view cluster) {
  const Reader reader(this);
  return ReadActive(*reader, cluster);
}

}  // namespace parplan
