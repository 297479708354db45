// Conversions between values of libpqxx and of records. The lists and records of the PostgreSQL
// store are read by them, within `PostgresPool`, because some throw.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_VALUES_H_
#define PARPLAN_SERVER_STORE_POSTGRES_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <pqxx/pqxx>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/store/stored_time.h"

namespace parplan {

// Largest record. PostgreSQL sends bytes as text of twice their length, and no text above 1 GiB.
inline constexpr size_t kMaxPostgresBytes = size_t{500} << 20;

// Return the value of a column of text, of an integer, of a time (stored_time.h) or of bytes.
// REQUIRES: the column is of that type and not null; `IntegerOf` and `TimeOf` throw an exception of
// libpqxx otherwise, `TextOf` returns what the database sent, the empty text for a null.
inline std::string TextOf(const pqxx::field& field) { return std::string(field.c_str()); }
inline int64_t IntegerOf(const pqxx::field& field) { return field.as<int64_t>(); }
inline absl::Time TimeOf(const pqxx::field& field) { return FromStoredTime(IntegerOf(field)); }
inline std::string BytesOf(const pqxx::field& field) { return pqxx::binarystring(field).str(); }

// Returns `bytes` as the parameter of a statement.
inline pqxx::binarystring ToBytea(const std::string& bytes) { return pqxx::binarystring(bytes); }

// Returns RESOURCE_EXHAUSTED (UPLOAD_TOO_LARGE) for bytes that could be stored but never read.
inline absl::Status CheckRecordSize(absl::string_view bytes) {
  if (bytes.size() <= kMaxPostgresBytes) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                   absl::StrCat("store: the record has ", bytes.size(), " bytes, PostgreSQL takes ",
                                kMaxPostgresBytes, ": send it in several parts"));
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_VALUES_H_
