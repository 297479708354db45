// Profiles in the SQLite store.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite_page.h"
#include "server/store/sqlite_store.h"
#include "server/store/store_errors.h"

namespace parplan {
namespace {

using Role = SqliteConnection::Role;

// Columns that `ReadProfile` reads, `sequence` first.
#define PARPLAN_PROFILE_COLUMNS                                          \
  "sequence, name, cluster, node, profile_id, device_kind, request_id, " \
  "content_digest, create_time, bytes, owner, kind, coverage"
constexpr int kBytesColumn = 9;
constexpr int kCoverageColumn = 12;

ProfileRecord ReadProfile(const SqliteStatement& row) {
  return {.name = row.Text(1),
          .cluster = row.Text(2),
          .node = row.Text(3),
          .profile_id = row.Text(4),
          .device_kind = row.Text(5),
          .kind = row.Text(11),
          .coverage = row.Text(kCoverageColumn),
          .owner = row.Text(10),
          .request_id = row.Text(6),
          .content_digest = row.Text(7),
          .bytes = row.Blob(kBytesColumn),
          .create_time = row.Time(8)};
}

absl::StatusOr<std::optional<ProfileRecord>> FindByName(SqliteConnection& connection,
                                                        absl::string_view name) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles WHERE name = ?1"));
  PARPLAN_ASSIGN_OR_RETURN(const bool found, find.Bind(1, name).Step());
  if (!found) return std::nullopt;
  return ReadProfile(find);
}

absl::StatusOr<std::optional<ProfileRecord>> FindByRequest(SqliteConnection& connection,
                                                           const ProfileRecord& profile) {
  if (profile.request_id.empty()) return std::nullopt;
  // The condition on '' lets SQLite use the partial index.
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection.Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles "
                         "WHERE cluster = ?1 AND node = ?2 AND request_id = ?3 "
                         "AND request_id <> ''"));
  find.Bind(1, profile.cluster).Bind(2, profile.node).Bind(3, profile.request_id);
  PARPLAN_ASSIGN_OR_RETURN(const bool found, find.Step());
  if (!found) return std::nullopt;
  return ReadProfile(find);
}

absl::Status Insert(SqliteConnection& connection, const ProfileRecord& profile) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO profiles (name, cluster, node, profile_id, device_kind, "
                         "request_id, content_digest, create_time, bytes, owner, kind, coverage) "
                         "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"));
  insert.Bind(1, profile.name)
      .Bind(2, profile.cluster)
      .Bind(3, profile.node)
      .Bind(4, profile.profile_id)
      .Bind(5, profile.device_kind)
      .Bind(6, profile.request_id)
      .Bind(7, profile.content_digest)
      .Bind(8, profile.create_time)
      .BindBlob(9, profile.bytes)
      .Bind(10, profile.owner)
      .Bind(11, profile.kind)
      .Bind(12, profile.coverage);
  return insert.Run();
}

// The profiles that are alike, but for the newest ?5 of them. With `kind` equal to one value, the
// index `profiles_by_kind` has all that is read, in order.
constexpr char kOlderProfiles[] =
    "SELECT sequence FROM profiles WHERE cluster = ?1 AND node = ?2 AND device_kind = ?3 "
    "AND kind = ?4 ORDER BY sequence DESC LIMIT -1 OFFSET ?5";

SqliteStatement& BindOlder(SqliteStatement& statement, const ProfileRecord& profile,
                           int64_t keep_count) {
  return statement.Bind(1, profile.cluster)
      .Bind(2, profile.node)
      .Bind(3, profile.device_kind)
      .Bind(4, profile.kind)
      .Bind(5, keep_count);
}

// Deletes the profiles that are alike `profile` but for the newest `keep_count`, itself among them.
absl::Status EndOlder(SqliteConnection& connection, const ProfileRecord& profile,
                      int64_t keep_count) {
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement remove,
                           connection.Prepare(absl::StrCat(
                               "DELETE FROM profiles WHERE sequence IN (", kOlderProfiles, ")")));
  return BindOlder(remove, profile, keep_count).Run();
}

absl::Status RaiseRevision(SqliteConnection& connection, absl::string_view cluster) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement raise,
      connection.Prepare("INSERT INTO profile_revisions (cluster, revision) VALUES (?1, 1) "
                         "ON CONFLICT (cluster) DO UPDATE SET revision = revision + 1"));
  return raise.Bind(1, cluster).Run();
}

absl::StatusOr<int64_t> ReadRevision(SqliteConnection& connection, absl::string_view cluster) {
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement read,
      connection.Prepare("SELECT revision FROM profile_revisions WHERE cluster = ?1"));
  PARPLAN_ASSIGN_OR_RETURN(const bool found, read.Bind(1, cluster).Step());
  return found ? read.Integer(0) : 0;
}

}  // namespace

absl::StatusOr<ProfileRecord> SqliteStore::PutProfile(ProfileRecord profile, int64_t keep_count) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  PARPLAN_ASSIGN_OR_RETURN(std::optional<ProfileRecord> stored, FindByRequest(*writer_, profile));
  if (stored.has_value()) {
    if (stored->content_digest != profile.content_digest) {
      return RequestIdReusedError(profile.request_id, stored->name);
    }
    return *std::move(stored);
  }
  PARPLAN_ASSIGN_OR_RETURN(stored, FindByName(*writer_, profile.name));
  if (stored.has_value()) return NameTakenError(profile.name);
  PARPLAN_RETURN_IF_ERROR(Insert(*writer_, profile));
  if (keep_count > 0) PARPLAN_RETURN_IF_ERROR(EndOlder(*writer_, profile, keep_count));
  PARPLAN_RETURN_IF_ERROR(RaiseRevision(*writer_, profile.cluster));
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return profile;
}

absl::StatusOr<int64_t> SqliteStore::ReplacedBytes(const ProfileRecord& profile, int64_t keep_count,
                                                   const RecordScope& scope) {
  if (keep_count <= 0) return 0;
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement sum,
      reader->Prepare(absl::StrCat("SELECT coalesce(sum(length(bytes)), 0) FROM profiles ",
                                   "WHERE sequence IN (", kOlderProfiles, ") ",
                                   "AND (?6 = '' OR owner = ?6) AND (?7 = '' OR cluster = ?7)")));
  BindOlder(sum, profile, keep_count - 1).Bind(6, scope.owner).Bind(7, scope.cluster);
  PARPLAN_RETURN_IF_ERROR(sum.Step().status());
  return sum.Integer(0);
}

absl::StatusOr<ProfileRecord> SqliteStore::GetProfile(absl::string_view name) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(std::optional<ProfileRecord> profile, FindByName(*reader, name));
  if (!profile.has_value()) return NotStoredError("profile", name);
  return *std::move(profile);
}

absl::StatusOr<Page<ProfileRecord>> SqliteStore::ListProfiles(absl::string_view cluster,
                                                              std::optional<std::string> node,
                                                              const PageRequest& page) {
  const std::string list = node.has_value() ? absl::StrCat("profiles/", cluster, "/", *node)
                                            : absl::StrCat("profiles/", cluster);
  PARPLAN_ASSIGN_OR_RETURN(const PagePosition position, ReadPageRequest(list, page));
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      node.has_value()
          ? reader->Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles "
                            "WHERE cluster = ?1 AND sequence < ?2 AND node = ?3 "
                            "ORDER BY sequence DESC")
          : reader->Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles "
                            "WHERE cluster = ?1 AND sequence < ?2 ORDER BY sequence DESC"));
  rows.Bind(1, cluster).Bind(2, position.before_sequence);
  if (node.has_value()) rows.Bind(3, *node);
  return ReadPage<ProfileRecord>(rows, list, position.page_size, ReadProfile);
}

absl::Status SqliteStore::DeleteProfile(absl::string_view name) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  std::string cluster;
  {
    PARPLAN_ASSIGN_OR_RETURN(SqliteStatement remove,
                             writer_->Prepare("DELETE FROM profiles WHERE name = ?1 "
                                              "RETURNING cluster"));
    PARPLAN_ASSIGN_OR_RETURN(const bool found, remove.Bind(1, name).Step());
    if (!found) return NotStoredError("profile", name);
    cluster = remove.Text(0);
  }
  PARPLAN_RETURN_IF_ERROR(RaiseRevision(*writer_, cluster));
  return transaction.Commit();
}

absl::StatusOr<ProfileSet> SqliteStore::SnapshotProfiles(absl::string_view cluster,
                                                         const ProfileFilter& is_wanted) {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*reader, Role::kReader));
  ProfileSet set;
  PARPLAN_ASSIGN_OR_RETURN(set.revision, ReadRevision(*reader, cluster));
  {
    PARPLAN_ASSIGN_OR_RETURN(
        SqliteStatement rows,
        reader->Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles WHERE sequence IN ("
                        "SELECT max(sequence) FROM profiles WHERE cluster = ?1 AND coverage > '' "
                        "GROUP BY coverage "
                        "UNION ALL "
                        "SELECT sequence FROM profiles WHERE cluster = ?1 AND coverage = '') "
                        "ORDER BY sequence DESC"));
    rows.Bind(1, cluster);
    while (true) {
      PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
      if (!found) break;
      const bool is_covered = !rows.Text(kCoverageColumn).empty();
      if (!is_covered && !is_wanted(rows.BlobView(kBytesColumn))) continue;
      set.profiles.push_back(ReadProfile(rows));
    }
  }
  PARPLAN_RETURN_IF_ERROR(transaction.Commit());
  return set;
}

absl::StatusOr<std::vector<ProfileRecord>> SqliteStore::ProfilesWithoutCoverage() {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(
      SqliteStatement rows,
      reader->Prepare("SELECT " PARPLAN_PROFILE_COLUMNS " FROM profiles WHERE coverage = '' "
                      "ORDER BY sequence DESC"));
  PARPLAN_ASSIGN_OR_RETURN(
      Page<ProfileRecord> page,
      ReadPage<ProfileRecord>(rows, "profiles without coverage", kMaxPageSize, ReadProfile));
  return std::move(page.records);
}

absl::Status SqliteStore::SetCoverages(const std::map<std::string, std::string>& coverages) {
  const std::lock_guard<std::mutex> lock(writer_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                           SqliteTransaction::Begin(*writer_, Role::kWriter));
  for (const auto& [name, coverage] : coverages) {
    PARPLAN_ASSIGN_OR_RETURN(SqliteStatement update,
                             writer_->Prepare("UPDATE profiles SET coverage = ?2 WHERE name = ?1"));
    PARPLAN_RETURN_IF_ERROR(update.Bind(1, name).Bind(2, coverage).Run());
  }
  return transaction.Commit();
}

absl::StatusOr<int64_t> SqliteStore::ProfileRevision(absl::string_view cluster) {
  const Reader reader(this);
  return ReadRevision(*reader, cluster);
}

absl::StatusOr<std::map<std::string, int64_t>> SqliteStore::ProfileRevisions() {
  const Reader reader(this);
  PARPLAN_ASSIGN_OR_RETURN(SqliteStatement rows,
                           reader->Prepare("SELECT cluster, revision FROM profile_revisions"));
  std::map<std::string, int64_t> revisions;
  while (true) {
    PARPLAN_ASSIGN_OR_RETURN(const bool found, rows.Step());
    if (!found) return revisions;
    revisions[rows.Text(0)] = rows.Integer(1);
  }
}

}  // namespace parplan
