#include "server/store/postgres_store.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "server/store/postgres_pool.h"
#include "server/store/postgres_schema.h"

namespace parplan {

PostgresStore::PostgresStore(std::unique_ptr<PostgresPool> pool) : pool_(std::move(pool)) {}

PostgresStore::~PostgresStore() = default;

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::Open(
    const PostgresStoreOptions& options) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PostgresPool> pool,
                           PostgresPool::Open({.uri = options.uri,
                                               .max_connection_count = options.max_connection_count,
                                               .patience = options.patience}));
  PARPLAN_RETURN_IF_ERROR(MigratePostgres(*pool, absl::Now()));
  return std::unique_ptr<PostgresStore>(new PostgresStore(std::move(pool)));
}

absl::Status PostgresStore::TryWrite() {
  return pool_->Write([](pqxx::transaction_base& transaction) {
    // No cluster has this name.
    transaction.exec(
        "INSERT INTO profile_revisions (cluster, revision) VALUES ('', 0) "
        "ON CONFLICT (cluster) DO NOTHING");
    transaction.exec("DELETE FROM profile_revisions WHERE cluster = '' AND revision = 0");
    return absl::OkStatus();
  });
}

}  // namespace parplan
