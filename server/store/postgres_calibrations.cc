// Calibrations in the PostgreSQL store.

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/postgres_page.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_store.h"
#include "server/store/postgres_values.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

// Columns that `ReadCalibration` reads.
constexpr char kColumns[] =
    "sequence, name, cluster, calibration_id, request_id, content_digest, create_time, bytes";

CalibrationRecord ReadCalibration(const pqxx::row& row) {
  return {.name = TextOf(row[1]),
          .cluster = TextOf(row[2]),
          .calibration_id = TextOf(row[3]),
          .request_id = TextOf(row[4]),
          .content_digest = TextOf(row[5]),
          .bytes = BytesOf(row[7]),
          .create_time = TimeOf(row[6])};
}

std::optional<CalibrationRecord> ReadOne(const pqxx::result& rows) {
  if (rows.empty()) return std::nullopt;
  return ReadCalibration(rows.front());
}

std::optional<CalibrationRecord> FindByName(pqxx::transaction_base& transaction,
                                            const std::string& name) {
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns, " FROM calibrations WHERE name = $1"), name));
}

std::optional<CalibrationRecord> FindByRequest(pqxx::transaction_base& transaction,
                                               const CalibrationRecord& calibration) {
  if (calibration.request_id.empty()) return std::nullopt;
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns,
                   " FROM calibrations "
                   "WHERE cluster = $1 AND request_id = $2 AND request_id <> ''"),
      calibration.cluster, calibration.request_id));
}

void Insert(pqxx::transaction_base& transaction, const CalibrationRecord& calibration) {
  transaction.exec_params(
      "INSERT INTO calibrations (name, cluster, calibration_id, request_id, content_digest, "
      "create_time, bytes) VALUES ($1, $2, $3, $4, $5, $6, $7)",
      calibration.name, calibration.cluster, calibration.calibration_id, calibration.request_id,
      calibration.content_digest, ToStoredTime(calibration.create_time),
      ToBytea(calibration.bytes));
}

ActiveCalibrationRecord ReadActive(pqxx::transaction_base& transaction,
                                   const std::string& cluster) {
  const pqxx::result rows = transaction.exec_params(
      "SELECT coalesce(c.name, ''), coalesce(c.content_digest, ''), a.activate_time "
      "FROM active_calibrations AS a LEFT JOIN calibrations AS c ON c.name = a.calibration "
      "WHERE a.cluster = $1",
      cluster);
  if (rows.empty()) return ActiveCalibrationRecord();
  return {.name = TextOf(rows[0][0]),
          .content_digest = TextOf(rows[0][1]),
          .activate_time = TimeOf(rows[0][2])};
}

}  // namespace

absl::StatusOr<CalibrationRecord> PostgresStore::PutCalibration(CalibrationRecord calibration) {
  PARPLAN_RETURN_IF_ERROR(CheckRecordSize(calibration.bytes));
  std::optional<CalibrationRecord> stored;
  PARPLAN_RETURN_IF_ERROR(
      pool_->Write([&calibration, &stored](pqxx::transaction_base& transaction) -> absl::Status {
        stored = FindByRequest(transaction, calibration);
        if (stored.has_value()) {
          if (stored->content_digest == calibration.content_digest) return absl::OkStatus();
          return RequestIdReusedError(calibration.request_id, stored->name);
        }
        stored = FindByName(transaction, calibration.name);
        if (stored.has_value()) {
          if (stored->content_digest == calibration.content_digest) return absl::OkStatus();
          return NameTakenError(calibration.name);
        }
        Insert(transaction, calibration);
        return absl::OkStatus();
      }));
  return stored.has_value() ? *std::move(stored) : std::move(calibration);
}

absl::StatusOr<CalibrationRecord> PostgresStore::GetCalibration(absl::string_view name) {
  std::optional<CalibrationRecord> calibration;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    calibration = FindByName(transaction, std::string(name));
    return absl::OkStatus();
  }));
  if (!calibration.has_value()) return NotStoredError("calibration", name);
  return *std::move(calibration);
}

absl::StatusOr<Page<CalibrationRecord>> PostgresStore::ListCalibrations(absl::string_view cluster,
                                                                        const PageRequest& page) {
  const std::string list = absl::StrCat("calibrations/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  return ReadPostgresPage<CalibrationRecord>(
      *pool_,
      {"calibrations", kColumns, "cluster = $1 AND $2 = ''", std::string(cluster), "", list},
      position, ReadCalibration);
}

absl::StatusOr<ActiveCalibrationRecord> PostgresStore::ActivateCalibration(
    absl::string_view cluster_name, absl::string_view name, absl::Time activate_time) {
  const std::string cluster(cluster_name);
  ActiveCalibrationRecord result;
  PARPLAN_RETURN_IF_ERROR(pool_->Write([&](pqxx::transaction_base& transaction) -> absl::Status {
    ActiveCalibrationRecord next;
    if (!name.empty()) {
      const std::optional<CalibrationRecord> calibration =
          FindByName(transaction, std::string(name));
      if (!calibration.has_value() || calibration->cluster != cluster) {
        return NotStoredError("calibration", name);
      }
      next.name = calibration->name;
      next.content_digest = calibration->content_digest;
    }
    // Creates the row if there is none, so that it can be locked.
    transaction.exec_params(
        "INSERT INTO active_calibrations (cluster, calibration, activate_time) "
        "VALUES ($1, NULL, $2) ON CONFLICT (cluster) DO NOTHING",
        cluster, ToStoredTime(absl::InfinitePast()));
    transaction.exec_params("SELECT 1 FROM active_calibrations WHERE cluster = $1 FOR UPDATE",
                            cluster);
    result = ReadActive(transaction, cluster);
    if (result.name == next.name) return absl::OkStatus();
    next.activate_time = activate_time;
    transaction.exec_params(
        "UPDATE active_calibrations SET calibration = nullif($2, ''), activate_time = $3 "
        "WHERE cluster = $1",
        cluster, next.name, ToStoredTime(next.activate_time));
    result = std::move(next);
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<ActiveCalibrationRecord> PostgresStore::ActiveCalibration(
    absl::string_view cluster) {
  ActiveCalibrationRecord active;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    active = ReadActive(transaction, std::string(cluster));
    return absl::OkStatus();
  }));
  return active;
}

}  // namespace parplan
