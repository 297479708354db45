// The advisory locks that transactions of the PostgreSQL store take. Each database has one set of
// them, which the turns of searches share (postgres_turns.h); their numbers are hashes.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_
#define PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_

#include <cstdint>
#include <optional>
#include <pqxx/pqxx>

#include "absl/time/time.h"

namespace parplan {

// Held by a server that migrates. The number is "parplan" in ASCII.
inline constexpr int64_t kMigrationLock = 0x706172706c616e;
// Held by a server that deletes executions or expired plans, one batch at a time.
inline constexpr int64_t kDeletionLock = kMigrationLock + 1;

// Takes `kDeletionLock` until the transaction ends, and returns the time of the database then.
// Nothing if another server has it and `waits` is false; if it is true, waits for at most the limit
// of the session on locks (15 s). Throws exceptions of libpqxx, also at that limit, which
// `PostgresPool` reads. Two servers that delete the same records would lock them in different
// orders, and wait for each other.
std::optional<absl::Time> TakeDeletionTurn(pqxx::transaction_base& transaction, bool waits);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_
