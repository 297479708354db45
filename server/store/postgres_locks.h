// The advisory locks that transactions of the PostgreSQL store take. Each database has one set of
// them, which the turns of searches share (postgres_turns.h); their numbers are hashes.

#ifndef PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_
#define PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_

#include <cstdint>

namespace parplan {

// Held by a server that migrates. The number is "parplan" in ASCII.
inline constexpr int64_t kMigrationLock = 0x706172706c616e;
// Held by a server that deletes executions, one batch at a time.
inline constexpr int64_t kDeletionLock = kMigrationLock + 1;

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_POSTGRES_LOCKS_H_
