// The exceptions of libpqxx as `absl::Status`. `PostgresPool` and what uses it read them.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_FAILURE_H_
#define PARPLAN_SERVER_STORE_POSTGRES_FAILURE_H_

#include <exception>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// A failure of the database, read from an exception of libpqxx.
struct PostgresFailure {
  // UNAVAILABLE, DATA_LOSS, INTERNAL (all STORE_UNAVAILABLE) or RESOURCE_EXHAUSTED
  // (UPLOAD_TOO_LARGE), as store.h explains them; the message says what to do.
  absl::Status status;
  // Whether another transaction conflicted; the same transaction may succeed when begun again.
  bool is_conflict = false;
  // Whether the connection must be closed.
  bool is_broken = false;
  // Whether the server is read-only, perhaps because another one took over.
  bool is_of_standby = false;
};
// Returns the failure that `error` is: of libpqxx by its kind and SQLSTATE, INTERNAL for any other
// exception.
PostgresFailure ReadPostgresFailure(const std::exception& error);

// Returns UNAVAILABLE (STORE_UNAVAILABLE): `remedy` says what to do, and `what` what happened.
absl::Status StoreUnavailable(absl::string_view remedy, absl::string_view what);

// Returns a message as one line; those of libpq have several.
std::string OneLine(absl::string_view text);

// Returns whether `message` of a connection that failed is a refusal that waiting cannot change.
bool IsPostgresRefusal(absl::string_view message);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_FAILURE_H_
