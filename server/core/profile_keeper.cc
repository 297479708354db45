#include "server/core/profile_keeper.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/measured_runtime.h"
#include "proto/wire/profile_coverage.h"
#include "proto/wire/resource_name.h"
#include "proto/wire/snapshot_builder.h"
#include "server/core/snapshot_report.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

// Reads the profiles of a cluster that count in a snapshot. Of those without a stored coverage and
// of one shape only the newest counts; the others are dropped while they are read, so that those of
// a year of a large cluster are never in memory together.
absl::StatusOr<ProfileSet> ReadCounting(Store& store, absl::string_view cluster) {
  std::set<std::string> shapes;
  return store.SnapshotProfiles(cluster, [&shapes](absl::string_view bytes) {
    std::optional<std::string> shape = StoredProfileShape(bytes);
    return !shape.has_value() || shapes.insert(*std::move(shape)).second;
  });
}

// Returns the options of an arena for stored profiles. It spares an allocation for each message of
// a profile: one of 100,000 timings has 300,000 of them.
google::protobuf::ArenaOptions ArenaOfProfiles() {
  google::protobuf::ArenaOptions options;
  options.max_block_size = size_t{1} << 20;
  return options;
}

}  // namespace

ProfileKeeper::ProfileKeeper(Store& store, const Clock& clock, Observer& observer,
                             const Limits& limits, CallGuard& guard, QuotaKeeper& quotas)
    : store_(store),
      clock_(clock),
      observer_(observer),
      limits_(limits),
      guard_(guard),
      quotas_(quotas),
      upload_memory_(limits.max_upload_memory_bytes) {}

std::unique_ptr<UploadSession> ProfileKeeper::StartUpload(std::shared_ptr<CallContext> context) {
  return std::unique_ptr<UploadSession>(new UploadSession(this, std::move(context)));
}

absl::StatusOr<v1::Profile> ProfileKeeper::Get(const v1::GetProfileRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ProfileName name, ProfileName::Parse(request.name()));
  PARPLAN_ASSIGN_OR_RETURN(const ProfileRecord record, store_.GetProfile(name.ToString()));
  return ParseStored<v1::Profile>(record.bytes, record.name);
}

absl::StatusOr<v1::ListProfilesResponse> ProfileKeeper::List(
    const v1::ListProfilesRequest& request) {
  std::string cluster;
  std::optional<std::string> node;
  if (const absl::StatusOr<NodeName> name = NodeName::Parse(request.parent()); name.ok()) {
    cluster = name->cluster;
    node = name->node;
  } else {
    PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
    cluster = parent.cluster;
  }
  PARPLAN_ASSIGN_OR_RETURN(
      const Page<ProfileRecord> page,
      store_.ListProfiles(cluster, node, PageRequest{request.page_size(), request.page_token()}));
  v1::ListProfilesResponse response;
  for (const ProfileRecord& record : page.records) {
    PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile,
                             ParseStored<v1::Profile>(record.bytes, record.name));
    profile.clear_layer_definitions();
    profile.clear_layer_timings();
    profile.clear_layer_memories();
    profile.clear_collective_timings();
    profile.clear_optimizer_timings();
    *response.add_profiles() = std::move(profile);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::Status ProfileKeeper::Delete(const v1::DeleteProfileRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ProfileName name, ProfileName::Parse(request.name()));
  return store_.DeleteProfile(name.ToString());
}

absl::StatusOr<int64_t> ProfileKeeper::Revision(absl::string_view cluster) {
  return store_.ProfileRevision(cluster);
}

absl::StatusOr<SnapshotHandle> ProfileKeeper::Snapshot(absl::string_view cluster,
                                                       absl::string_view device_kind,
                                                       int devices_per_node,
                                                       absl::string_view runtime_id) {
  const SnapshotKey key(std::string(cluster), std::string(device_kind), devices_per_node,
                        std::string(MeasuredRuntime(runtime_id)));
  {
    PARPLAN_ASSIGN_OR_RETURN(const int64_t revision, Revision(cluster));
    SnapshotHandle cached = FindCached(key, revision);
    observer_.CacheLookedUp(CacheKind::kSnapshot, cached.snapshot != nullptr);
    if (cached.snapshot != nullptr) return cached;
  }
  const std::lock_guard<std::mutex> load_lock(load_mutex_);
  // Another call may have loaded it while this one waited.
  PARPLAN_ASSIGN_OR_RETURN(const int64_t revision, Revision(cluster));
  SnapshotHandle cached = FindCached(key, revision);
  if (cached.snapshot != nullptr) return cached;
  PARPLAN_ASSIGN_OR_RETURN(const LoadedSnapshot loaded,
                           Load(cluster, device_kind, devices_per_node, runtime_id));
  Cache(key, loaded);
  observer_.SnapshotLoaded({std::string(cluster), std::string(device_kind), devices_per_node,
                            loaded.handle.newest_measurement,
                            BandwidthsOf(*loaded.handle.snapshot, devices_per_node)});
  return loaded.handle;
}

absl::StatusOr<ProfileKeeper::LoadedSnapshot> ProfileKeeper::Load(absl::string_view cluster,
                                                                  absl::string_view device_kind,
                                                                  int devices_per_node,
                                                                  absl::string_view runtime_id) {
  PARPLAN_ASSIGN_OR_RETURN(ProfileSet set, ReadCounting(store_, cluster));
  const bool any = std::any_of(
      set.profiles.begin(), set.profiles.end(),
      [device_kind](const ProfileRecord& record) { return record.device_kind == device_kind; });
  SnapshotBuilder builder(device_kind, devices_per_node, runtime_id);
  std::map<int, absl::Time> newest;  // By devices per node.
  // One message at a time: those of a year of a large cluster would not fit.
  google::protobuf::Arena arena(ArenaOfProfiles());
  for (ProfileRecord& record : set.profiles) {
    // All profiles if none is of this kind: the error lists the kinds there are.
    if (any && record.device_kind != device_kind) continue;
    arena.Reset();
    v1::Profile& profile = *google::protobuf::Arena::CreateMessage<v1::Profile>(&arena);
    PARPLAN_RETURN_IF_ERROR(ParseStoredInto(record.bytes, record.name, profile));
    const std::string name = record.name;
    record = ProfileRecord();
    const absl::StatusOr<bool> is_used = builder.Add(profile);
    if (!is_used.ok()) {
      return MakeError(absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
                       absl::StrCat("this server does not understand what is stored as ", name,
                                    " (", is_used.status().message(),
                                    "); start the server that stored it, or delete the profile"));
    }
    if (!*is_used) continue;
    const absl::Time time = MeasureTime(profile);
    const auto [entry, is_new] = newest.try_emplace(profile.devices_per_node(), time);
    if (!is_new) entry->second = std::max(entry->second, time);
  }
  PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot snapshot, builder.Finish());
  LoadedSnapshot loaded;
  loaded.revision = set.revision;
  loaded.handle.snapshot = std::make_shared<const ProfileSnapshot>(std::move(snapshot));
  const auto found = newest.find(builder.measured_size());
  loaded.handle.newest_measurement = found == newest.end() ? absl::InfinitePast() : found->second;
  return loaded;
}

absl::Status ProfileKeeper::ReportKinds() {
  const std::lock_guard<std::mutex> lock(report_mutex_);
  PARPLAN_ASSIGN_OR_RETURN(const auto revisions, store_.ProfileRevisions());
  absl::Status first;
  for (const auto& [cluster, revision] : revisions) {
    int64_t& reported = reported_revisions_[cluster];
    if (reported == revision) continue;
    const absl::StatusOr<std::vector<StoredKind>> kinds = KindsOf(cluster);
    first.Update(kinds.status());
    if (!kinds.ok()) continue;
    observer_.ProfilesSeen(cluster, *kinds);
    // Profiles stored since have raised the revision; the next round reports them.
    reported = revision;
  }
  return first;
}

absl::StatusOr<std::vector<StoredKind>> ProfileKeeper::KindsOf(const std::string& cluster) {
  PARPLAN_ASSIGN_OR_RETURN(ProfileSet set, ReadCounting(store_, cluster));
  std::map<std::pair<std::string, int>, absl::Time> newest;
  v1::Profile profile;
  for (ProfileRecord& record : set.profiles) {
    PARPLAN_RETURN_IF_ERROR(ParseStoredInto(record.bytes, record.name, profile));
    record = ProfileRecord();
    const auto [entry, is_new] = newest.try_emplace(
        {profile.device_kind(), profile.devices_per_node()}, MeasureTime(profile));
    if (!is_new) entry->second = std::max(entry->second, MeasureTime(profile));
  }
  std::vector<StoredKind> kinds;
  for (const auto& [kind, time] : newest) kinds.push_back({kind.first, kind.second, time});
  return kinds;
}

absl::StatusOr<bool> ProfileKeeper::CoverOldProfiles() {
  // Lets a question that reads profiles have the disk and the processors first. It does not wait
  // for this.
  { const std::lock_guard<std::mutex> no_load(load_mutex_); }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ProfileRecord> profiles,
                           store_.ProfilesWithoutCoverage());
  if (profiles.empty()) return false;
  std::map<std::string, std::string> coverages;
  std::map<std::string, std::string> coverage_of_shape;
  for (const ProfileRecord& record : profiles) {
    const std::optional<std::string> shape = StoredProfileShape(record.bytes);
    std::string& coverage = coverages[record.name];
    if (shape.has_value()) coverage = coverage_of_shape[*shape];
    if (!coverage.empty()) continue;
    absl::StatusOr<v1::Profile> profile = ParseStored<v1::Profile>(record.bytes, record.name);
    if (!profile.ok()) {
      // It replaces no other, so its coverage is one of its own.
      coverage = record.name;
      continue;
    }
    coverage = ProfileCoverage(*std::move(profile));
    if (shape.has_value()) coverage_of_shape[*shape] = coverage;
  }
  PARPLAN_RETURN_IF_ERROR(store_.SetCoverages(coverages));
  return true;
}

SnapshotHandle ProfileKeeper::FindCached(const SnapshotKey& key, int64_t revision) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = snapshots_.find(key);
  if (found == snapshots_.end() || found->second.revision != revision) return SnapshotHandle();
  found->second.last_use = ++use_count_;
  return found->second.handle;
}

void ProfileKeeper::Cache(const SnapshotKey& key, const LoadedSnapshot& loaded) {
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshots_[key] = CachedSnapshot{loaded.revision, ++use_count_, loaded.handle};
  while (snapshots_.size() > limits_.max_snapshot_count) {
    snapshots_.erase(std::min_element(
        snapshots_.begin(), snapshots_.end(),
        [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; }));
  }
}

}  // namespace parplan
