#include "proto/wire/profile_selection.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "planner/model/measured_runtime.h"

namespace parplan {

// Nodes of a kind often have different kernels, which compute nothing.
bool RuntimeSelection::IsCompared(const v1::LibraryVersion& library) {
  return library.library() != "linux";
}

RuntimeSelection::RuntimeSelection(absl::string_view device_kind, absl::string_view runtime_id)
    : device_kind_(device_kind), measured_(MeasuredRuntime(runtime_id)) {}

// Returns whether `profile` names no other release than `releases`, and adds those that it names
// first.
bool RuntimeSelection::AgreesWith(const v1::Profile& profile, Releases& releases) {
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

RuntimeSelection::Part RuntimeSelection::Next(const v1::Profile& profile) {
  const std::string& runtime = profile.runtime_id();
  if (!runtime.empty() && !AgreesWith(profile, releases_[runtime])) return Part::kNone;
  if (runtime.empty() || runtime == measured_) {
    has_any_ = true;
    return Part::kWhole;
  }
  others_.insert(absl::StrCat("`", runtime, "`"));
  if (absl::StartsWith(device_kind_, "CPU") || profile.collective_timings().empty()) {
    return Part::kNone;
  }
  has_any_ = true;
  return Part::kCollectives;
}

absl::Status RuntimeSelection::Check() const {
  if (has_any_ || others_.empty()) return absl::OkStatus();
  const std::string missing =
      absl::StrCat("a profile of `", device_kind_, "` measured with the runtime `", measured_, "`");
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
      absl::StrCat("there is no ", missing.substr(2), ", only with ", absl::StrJoin(others_, ", "),
                   ", whose times do not hold for it. Measure with `",
                   measured_ == "torch" ? "parplan-torch profile" : "parplan-agent",
                   "`, or plan for a runtime that was measured (`--runtime`)"),
      {{"count", "1"}, {"missing0", missing}});
}

}  // namespace parplan
