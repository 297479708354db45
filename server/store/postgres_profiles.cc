// Profiles in the PostgreSQL store, and the revisions they make up.

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Columns that `ReadProfile` reads.
constexpr char kColumns[] =
    "sequence, name, cluster, node, profile_id, device_kind, request_id, content_digest, "
    "create_time, bytes, owner, kind, coverage";

ProfileRecord ReadProfile(const pqxx::row& row) {
  return {.name = TextOf(row[1]),
          .cluster = TextOf(row[2]),
          .node = TextOf(row[3]),
          .profile_id = TextOf(row[4]),
          .device_kind = TextOf(row[5]),
          .kind = TextOf(row[11]),
          .coverage = TextOf(row[12]),
          .owner = TextOf(row[10]),
          .request_id = TextOf(row[6]),
          .content_digest = TextOf(row[7]),
          .bytes = BytesOf(row[9]),
          .create_time = TimeOf(row[8])};
}

std::optional<ProfileRecord> ReadOne(const pqxx::result& rows) {
  if (rows.empty()) return std::nullopt;
  return ReadProfile(rows.front());
}

std::optional<ProfileRecord> FindByName(pqxx::transaction_base& transaction,
                                        const std::string& name) {
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns, " FROM profiles WHERE name = $1"), name));
}

std::optional<ProfileRecord> FindByRequest(pqxx::transaction_base& transaction,
                                           const ProfileRecord& profile) {
  if (profile.request_id.empty()) return std::nullopt;
  return ReadOne(transaction.exec_params(
      absl::StrCat("SELECT ", kColumns,
                   " FROM profiles "
                   "WHERE cluster = $1 AND node = $2 AND request_id = $3 AND request_id <> ''"),
      profile.cluster, profile.node, profile.request_id));
}

void Insert(pqxx::transaction_base& transaction, const ProfileRecord& profile) {
  transaction.exec_params(
      "INSERT INTO profiles (name, cluster, node, profile_id, device_kind, request_id, "
      "content_digest, create_time, bytes, owner, kind, coverage) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
      profile.name, profile.cluster, profile.node, profile.profile_id, profile.device_kind,
      profile.request_id, profile.content_digest, ToStoredTime(profile.create_time),
      ToBytea(profile.bytes), profile.owner, profile.kind, profile.coverage);
}

// Deletes the profiles that are alike `profile` but for the newest `keep_count`, itself among them.
void EndOlder(pqxx::transaction_base& transaction, const ProfileRecord& profile,
              int64_t keep_count) {
  transaction.exec_params(
      "DELETE FROM profiles WHERE sequence = ANY(ARRAY("
      "SELECT sequence FROM profiles WHERE cluster = $1 AND node = $2 AND device_kind = $3 "
      "AND kind = $4 ORDER BY sequence DESC OFFSET $5))",
      profile.cluster, profile.node, profile.device_kind, profile.kind, keep_count);
}

// Raises the revision of a cluster, whose row stays locked until the commit: transactions that
// change its profiles run one after the other, and revisions and the changes that they count become
// visible together, in order.
void RaiseRevision(pqxx::transaction_base& transaction, const std::string& cluster) {
  transaction.exec_params(
      "INSERT INTO profile_revisions AS r (cluster, revision) VALUES ($1, 1) "
      "ON CONFLICT (cluster) DO UPDATE SET revision = r.revision + 1",
      cluster);
}

}  // namespace

absl::StatusOr<ProfileRecord> PostgresStore::PutProfile(ProfileRecord profile, int64_t keep_count) {
  PARPLAN_RETURN_IF_ERROR(CheckRecordSize(profile.bytes));
  std::optional<ProfileRecord> stored;
  PARPLAN_RETURN_IF_ERROR(pool_->Write(
      [&profile, &stored, keep_count](pqxx::transaction_base& transaction) -> absl::Status {
        stored = FindByRequest(transaction, profile);
        if (stored.has_value()) {
          if (stored->content_digest == profile.content_digest) return absl::OkStatus();
          return RequestIdReusedError(profile.request_id, stored->name);
        }
        if (FindByName(transaction, profile.name).has_value()) return NameTakenError(profile.name);
        RaiseRevision(transaction, profile.cluster);
        Insert(transaction, profile);
        if (keep_count > 0) EndOlder(transaction, profile, keep_count);
        return absl::OkStatus();
      }));
  return stored.has_value() ? *std::move(stored) : std::move(profile);
}

absl::StatusOr<int64_t> PostgresStore::ReplacedBytes(const ProfileRecord& profile,
                                                     int64_t keep_count, const RecordScope& scope) {
  if (keep_count <= 0) return 0;
  int64_t bytes = 0;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result sums = transaction.exec_params(
        "SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM profiles "
        "WHERE sequence = ANY(ARRAY("
        "SELECT sequence FROM profiles WHERE cluster = $1 AND node = $2 AND device_kind = $3 "
        "AND kind = $4 ORDER BY sequence DESC OFFSET $5)) "
        "AND ($6 = '' OR owner = $6) AND ($7 = '' OR cluster = $7)",
        profile.cluster, profile.node, profile.device_kind, profile.kind, keep_count - 1,
        scope.owner, scope.cluster);
    bytes = IntegerOf(sums[0][0]);
    return absl::OkStatus();
  }));
  return bytes;
}

absl::StatusOr<ProfileRecord> PostgresStore::GetProfile(absl::string_view name) {
  std::optional<ProfileRecord> profile;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    profile = FindByName(transaction, std::string(name));
    return absl::OkStatus();
  }));
  if (!profile.has_value()) return NotStoredError("profile", name);
  return *std::move(profile);
}

absl::StatusOr<Page<ProfileRecord>> PostgresStore::ListProfiles(absl::string_view cluster,
                                                                std::optional<std::string> node,
                                                                const PageRequest& page) {
  const std::string list = node.has_value() ? absl::StrCat("profiles/", cluster, "/", *node)
                                            : absl::StrCat("profiles/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  return ReadPostgresPage<ProfileRecord>(
      *pool_,
      {"profiles", kColumns,
       node.has_value() ? "cluster = $1 AND node = $2" : "cluster = $1 AND $2 = ''",
       std::string(cluster), node.value_or(""), list},
      position, ReadProfile);
}

absl::Status PostgresStore::DeleteProfile(absl::string_view name) {
  return pool_->Write([name](pqxx::transaction_base& transaction) -> absl::Status {
    const pqxx::result stored =
        transaction.exec_params("SELECT cluster FROM profiles WHERE name = $1", std::string(name));
    if (stored.empty()) return NotStoredError("profile", name);
    // First, as `PutProfile` does, so that neither waits for the other while it holds a lock.
    RaiseRevision(transaction, TextOf(stored[0][0]));
    const auto removed =
        transaction.exec_params("DELETE FROM profiles WHERE name = $1", std::string(name));
    return removed.affected_rows() == 0 ? NotStoredError("profile", name) : absl::OkStatus();
  });
}

absl::StatusOr<ProfileSet> PostgresStore::SnapshotProfiles(absl::string_view cluster,
                                                           const ProfileFilter& is_wanted) {
  ProfileSet set;
  // One statement sees one moment. Its first row has the revision only. The array is evaluated
  // once, and its rows are found by their numbers.
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result rows = transaction.exec_params(
        absl::StrCat("SELECT NULL AS sequence, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
                     "coalesce((SELECT revision FROM profile_revisions WHERE cluster = $1), 0), "
                     "NULL, NULL, NULL, NULL UNION ALL SELECT ",
                     kColumns,
                     " FROM profiles WHERE sequence = ANY(ARRAY("
                     "SELECT max(sequence) FROM profiles WHERE cluster = $1 AND coverage > '' "
                     "GROUP BY coverage UNION ALL "
                     "SELECT sequence FROM profiles WHERE cluster = $1 AND coverage = '')) "
                     "ORDER BY sequence DESC NULLS FIRST"),
        std::string(cluster));
    set = ProfileSet();
    for (const pqxx::row& row : rows) {
      if (row[0].is_null()) {
        set.revision = IntegerOf(row[8]);
      } else {
        set.profiles.push_back(ReadProfile(row));
      }
    }
    return absl::OkStatus();
  }));
  // The statement may have run twice, and the filter sees each profile once.
  size_t kept = 0;
  for (size_t i = 0; i < set.profiles.size(); ++i) {
    const ProfileRecord& profile = set.profiles[i];
    if (profile.coverage.empty() && !is_wanted(profile.bytes)) continue;
    if (kept != i) set.profiles[kept] = std::move(set.profiles[i]);
    ++kept;
  }
  set.profiles.resize(kept);
  return set;
}

absl::StatusOr<std::vector<ProfileRecord>> PostgresStore::ProfilesWithoutCoverage() {
  PARPLAN_ASSIGN_OR_RETURN(
      Page<ProfileRecord> page,
      ReadPostgresPage<ProfileRecord>(
          *pool_,
          {"profiles", kColumns, "coverage = $1 AND $2 = ''", "", "", "profiles without coverage"},
          {std::numeric_limits<int64_t>::max(), kMaxPageSize}, ReadProfile));
  return std::move(page.records);
}

absl::Status PostgresStore::SetCoverages(const std::map<std::string, std::string>& coverages) {
  return pool_->Write([&coverages](pqxx::transaction_base& transaction) {
    // One statement, which locks the rows in the order of their numbers: neither two servers that
    // do this wait for each other, nor one of them and `EndOlder`, whose index has that order.
    transaction.exec_params(
        "WITH locked AS (SELECT profiles.sequence, given.coverage "
        "FROM profiles JOIN json_each_text($1::json) AS given (name, coverage) "
        "ON given.name = profiles.name ORDER BY profiles.sequence "
        "FOR NO KEY UPDATE OF profiles) "
        "UPDATE profiles SET coverage = locked.coverage FROM locked "
        "WHERE profiles.sequence = locked.sequence",
        nlohmann::json(coverages).dump());
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> PostgresStore::ProfileRevision(absl::string_view cluster) {
  int64_t revision = 0;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&](pqxx::transaction_base& transaction) {
    const pqxx::result rows = transaction.exec_params(
        "SELECT revision FROM profile_revisions WHERE cluster = $1", std::string(cluster));
    revision = rows.empty() ? 0 : IntegerOf(rows[0][0]);
    return absl::OkStatus();
  }));
  return revision;
}

absl::StatusOr<std::map<std::string, int64_t>> PostgresStore::ProfileRevisions() {
  std::map<std::string, int64_t> revisions;
  PARPLAN_RETURN_IF_ERROR(pool_->Read([&revisions](pqxx::transaction_base& transaction) {
    revisions.clear();
    for (const pqxx::row& row :
         transaction.exec("SELECT cluster, revision FROM profile_revisions")) {
      revisions[TextOf(row[0])] = IntegerOf(row[1]);
    }
    return absl::OkStatus();
  }));
  return revisions;
}

}  // namespace parplan
