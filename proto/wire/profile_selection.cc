#include "proto/wire/profile_selection.h"

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/model/measured_runtime.h"

namespace parplan {
namespace {

// Releases by library, from the newest profile of a runtime that names the library.
using Releases = std::map<std::string, std::string>;

// Nodes of a kind often have different kernels, which compute nothing.
bool IsCompared(const v1::LibraryVersion& library) { return library.library() != "linux"; }

// Returns whether `profile` names no other release than `releases`, and adds those that it names
// first.
bool AgreesWith(const v1::Profile& profile, Releases& releases) {
  for (const v1::LibraryVersion& library : profile.provenance().library_versions()) {
    if (!IsCompared(library)) continue;
    const auto found = releases.find(library.library());
    if (found != releases.end() && found->second != library.version()) return false;
  }
  for (const v1::LibraryVersion& library : profile.provenance().library_versions()) {
    if (!IsCompared(library)) continue;
    releases.emplace(library.library(), library.version());
  }
  return true;
}

v1::Profile CollectivesOf(const v1::Profile& profile) {
  v1::Profile collectives;
  *collectives.mutable_provenance() = profile.provenance();
  collectives.set_device_kind(profile.device_kind());
  collectives.set_devices_per_node(profile.devices_per_node());
  *collectives.mutable_collective_timings() = profile.collective_timings();
  return collectives;
}

}  // namespace

absl::StatusOr<std::vector<v1::Profile>> ProfilesForRuntime(
    absl::Span<const v1::Profile* const> newest_first, absl::string_view device_kind,
    absl::string_view runtime_id) {
  const std::string measured(MeasuredRuntime(runtime_id));
  const bool shares_collectives = !absl::StartsWith(device_kind, "CPU");
  std::map<std::string, Releases> releases;
  std::set<std::string> others;
  std::vector<v1::Profile> chosen;
  // Collectives of other runtimes come after all of the same.
  std::vector<v1::Profile> collectives;
  bool any_of_kind = false;
  for (const v1::Profile* profile : newest_first) {
    if (profile->device_kind() != device_kind) {
      chosen.push_back(*profile);
      continue;
    }
    const std::string& runtime = profile->runtime_id();
    if (!runtime.empty() && !AgreesWith(*profile, releases[runtime])) continue;
    if (runtime.empty() || runtime == measured) {
      any_of_kind = true;
      chosen.push_back(*profile);
      continue;
    }
    others.insert(absl::StrCat("`", runtime, "`"));
    if (shares_collectives && !profile->collective_timings().empty()) {
      any_of_kind = true;
      collectives.push_back(CollectivesOf(*profile));
    }
  }
  if (!any_of_kind && !others.empty()) {
    const std::string missing =
        absl::StrCat("a profile of `", device_kind, "` measured with the runtime `", measured, "`");
    return MakeError(
        absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
        absl::StrCat("there is no ", missing.substr(2), ", only with ", absl::StrJoin(others, ", "),
                     ", whose times do not hold for it. Measure with `",
                     measured == "torch" ? "parplan-torch profile" : "parplan-agent",
                     "`, or plan for a runtime that was measured (`--runtime`)"),
        {{"count", "1"}, {"missing0", missing}});
  }
  chosen.insert(chosen.end(), std::make_move_iterator(collectives.begin()),
                std::make_move_iterator(collectives.end()));
  return chosen;
}

}  // namespace parplan
