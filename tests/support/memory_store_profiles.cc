// The profiles and calibrations of `MemoryStore`.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/store/store_errors.h"
#include "tests/support/memory_store.h"
#include "tests/support/memory_store_tables.h"

namespace parplan {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

absl::StatusOr<ProfileRecord> MemoryStore::PutProfile(ProfileRecord profile, int64_t keep_count) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  for (const auto& [position, stored] : state_->profiles) {
    if (profile.request_id.empty() || stored.request_id != profile.request_id ||
        stored.cluster != profile.cluster || stored.node != profile.node) {
      continue;
    }
    if (stored.content_digest == profile.content_digest) return stored;
    return RequestIdReusedError(profile.request_id, stored.name);
  }
  if (Find(state_->profiles, profile.name) != nullptr) return NameTakenError(profile.name);
  ++state_->revisions[profile.cluster];
  state_->profiles[state_->next_position++] = profile;
  if (keep_count == 0) return profile;
  int64_t count = 0;
  for (auto entry = state_->profiles.end(); entry != state_->profiles.begin();) {
    --entry;
    const ProfileRecord& other = entry->second;
    const bool is_alike = other.cluster == profile.cluster && other.node == profile.node &&
                          other.device_kind == profile.device_kind && other.kind == profile.kind;
    if (is_alike && ++count > keep_count) entry = state_->profiles.erase(entry);
  }
  return profile;
}

absl::StatusOr<int64_t> MemoryStore::ReplacedBytes(const ProfileRecord& profile, int64_t keep_count,
                                                   const RecordScope& scope) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  int64_t bytes = 0;
  int64_t count = 1;
  for (auto entry = state_->profiles.rbegin(); entry != state_->profiles.rend(); ++entry) {
    const ProfileRecord& other = entry->second;
    const bool is_alike = other.cluster == profile.cluster && other.node == profile.node &&
                          other.device_kind == profile.device_kind && other.kind == profile.kind;
    const bool goes = is_alike && keep_count > 0 && ++count > keep_count;
    if (goes && IsIn(other, scope)) bytes += static_cast<int64_t>(other.bytes.size());
  }
  return bytes;
}

absl::StatusOr<ProfileRecord> MemoryStore::GetProfile(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const ProfileRecord* profile = Find(state_->profiles, name);
  if (profile == nullptr) return NotStoredError("profile", name);
  return *profile;
}

absl::StatusOr<Page<ProfileRecord>> MemoryStore::ListProfiles(absl::string_view cluster,
                                                              std::optional<std::string> node,
                                                              const PageRequest& page) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return ListNewestFirst(
      state_->profiles, absl::StrCat("profiles/", cluster, "/", node.value_or("")), page,
      [&](const ProfileRecord& profile) {
        return profile.cluster == cluster && (!node.has_value() || profile.node == *node);
      });
}

absl::Status MemoryStore::DeleteProfile(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  for (auto entry = state_->profiles.begin(); entry != state_->profiles.end(); ++entry) {
    if (entry->second.name != name) continue;
    ++state_->revisions[entry->second.cluster];
    state_->profiles.erase(entry);
    return absl::OkStatus();
  }
  return NotStoredError("profile", name);
}

absl::StatusOr<ProfileSet> MemoryStore::SnapshotProfiles(absl::string_view cluster,
                                                         const ProfileFilter& is_wanted) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  ProfileSet set;
  set.revision = state_->revisions[std::string(cluster)];
  std::set<std::string> coverages;
  for (auto entry = state_->profiles.rbegin(); entry != state_->profiles.rend(); ++entry) {
    const std::string& coverage = entry->second.coverage;
    if (entry->second.cluster != cluster) continue;
    if (!coverage.empty() && !coverages.insert(coverage).second) continue;
    ++state_->snapshot_profile_count;
    if (!coverage.empty() || is_wanted(entry->second.bytes)) set.profiles.push_back(entry->second);
  }
  return set;
}

absl::StatusOr<std::vector<ProfileRecord>> MemoryStore::ProfilesWithoutCoverage() {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  std::vector<ProfileRecord> profiles;
  for (const auto& [position, profile] : state_->profiles) {
    if (static_cast<int>(profiles.size()) == kMaxPageSize) break;
    if (profile.coverage.empty()) profiles.push_back(profile);
  }
  return profiles;
}

absl::Status MemoryStore::SetCoverages(const std::map<std::string, std::string>& coverages) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  for (const auto& [name, coverage] : coverages) {
    if (ProfileRecord* profile = Find(state_->profiles, name)) profile->coverage = coverage;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryStore::ProfileRevision(absl::string_view cluster) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return state_->revisions[std::string(cluster)];
}

absl::StatusOr<std::map<std::string, int64_t>> MemoryStore::ProfileRevisions() {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  std::map<std::string, int64_t> revisions = state_->revisions;
  // Some were asked for only.
  std::erase_if(revisions, [](const auto& entry) { return entry.second == 0; });
  return revisions;
}

absl::StatusOr<CalibrationRecord> MemoryStore::PutCalibration(CalibrationRecord calibration) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  for (const auto& [position, stored] : state_->calibrations) {
    if (calibration.request_id.empty() || stored.request_id != calibration.request_id ||
        stored.cluster != calibration.cluster) {
      continue;
    }
    if (stored.content_digest == calibration.content_digest) return stored;
    return RequestIdReusedError(calibration.request_id, stored.name);
  }
  if (const CalibrationRecord* stored = Find(state_->calibrations, calibration.name)) {
    if (stored->content_digest == calibration.content_digest) return *stored;
    return NameTakenError(calibration.name);
  }
  state_->calibrations[state_->next_position++] = calibration;
  return calibration;
}

absl::StatusOr<CalibrationRecord> MemoryStore::GetCalibration(absl::string_view name) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const CalibrationRecord* calibration = Find(state_->calibrations, name);
  if (calibration == nullptr) return NotStoredError("calibration", name);
  return *calibration;
}

absl::StatusOr<Page<CalibrationRecord>> MemoryStore::ListCalibrations(absl::string_view cluster,
                                                                      const PageRequest& page) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  return ListNewestFirst(
      state_->calibrations, absl::StrCat("calibrations/", cluster), page,
      [&](const CalibrationRecord& calibration) { return calibration.cluster == cluster; });
}

absl::StatusOr<ActiveCalibrationRecord> MemoryStore::ActivateCalibration(absl::string_view cluster,
                                                                         absl::string_view name,
                                                                         absl::Time activate_time) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(BeginChange());
  ActiveCalibrationRecord next;
  if (!name.empty()) {
    const CalibrationRecord* calibration = Find(state_->calibrations, name);
    if (calibration == nullptr || calibration->cluster != cluster) {
      return NotStoredError("calibration", name);
    }
    next.name = calibration->name;
    next.content_digest = calibration->content_digest;
  }
  ActiveCalibrationRecord& active = state_->active_calibrations[std::string(cluster)];
  if (active.name == next.name) return active;
  next.activate_time = activate_time;
  return active = next;
}

absl::StatusOr<ActiveCalibrationRecord> MemoryStore::ActiveCalibration(absl::string_view cluster) {
  const Lock lock(state_->mutex);
  PARPLAN_RETURN_IF_ERROR(Begin());
  const auto found = state_->active_calibrations.find(std::string(cluster));
  if (found == state_->active_calibrations.end()) return ActiveCalibrationRecord();
  return found->second;
}

}  // namespace parplan
