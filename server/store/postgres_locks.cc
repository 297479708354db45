#include "server/store/postgres_locks.h"

#include "server/store/postgres_values.h"

namespace parplan {

std::optional<absl::Time> TakeDeletionTurn(pqxx::transaction_base& transaction, bool waits) {
  if (waits) {
    transaction.exec_params("SELECT pg_advisory_xact_lock($1)", kDeletionLock);
  } else if (!transaction.exec_params("SELECT pg_try_advisory_xact_lock($1)", kDeletionLock)[0][0]
                  .as<bool>()) {
    return std::nullopt;
  }
  // The time after the wait.
  return TimeOf(transaction.exec_params(
      "SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint")[0][0]);
}

}  // namespace parplan
