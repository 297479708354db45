#include "profiler-agent/daemon/remembered.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"

namespace parplan {
namespace {

constexpr char kRecord[] = "measured";
constexpr char kHeader[] = "parplan measured 1";

// Returns whether a profile has times of the runtime and the release that a plan measures.
bool IsOfRuntime(const v1::Profile& profile, const agent::v1::ProbePlan& plan) {
  if (!plan.has_torch()) return profile.runtime_id().empty() || profile.runtime_id() == "parplan";
  const auto& versions = profile.provenance().library_versions();
  return profile.runtime_id() == plan.torch().runtime_id() &&
         std::any_of(versions.begin(), versions.end(), [&plan](const v1::LibraryVersion& one) {
           return one.library() == "torch" && one.version() == plan.torch().version();
         });
}

// Returns the digest of the items of a plan, regardless of its time limits.
std::string AskedDigest(agent::v1::ProbePlan plan) {
  plan.clear_time_budget();
  plan.clear_collective_time_limit();
  plan.clear_layer_time_limit();
  return Sha256Hex(plan.SerializeAsString());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Remembered>> Remembered::Open(const std::string& folder) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<RecordFolder> records, RecordFolder::Open(folder));
  std::unique_ptr<Remembered> made(new Remembered(std::move(records)));
  const absl::StatusOr<std::string> text = made->folder_->Read(kRecord);
  if (!text.ok()) return made;
  // The record has a line each for header, fingerprint, settled digest and time, then the profile.
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, absl::MaxSplits('\n', 4));
  int64_t seconds = 0;
  v1::Profile profile;
  if (lines.size() != 5 || lines[0] != kHeader || !absl::SimpleAtoi(lines[3], &seconds) ||
      !profile.ParseFromArray(lines[4].data(), static_cast<int>(lines[4].size()))) {
    return made;
  }
  made->fingerprint_ = std::string(lines[1]);
  made->settled_digest_ = std::string(lines[2]);
  made->whole_time_ = absl::FromUnixSeconds(seconds);
  made->profile_ = std::move(profile);
  return made;
}

std::optional<NextProbe> Remembered::Next(const agent::v1::ProbePlan& whole,
                                          const std::string& fingerprint,
                                          const std::set<CollectiveShape>& drifted, absl::Time now,
                                          absl::Duration longest_age) const {
  // After the clock was set back, a time in the future counts as old.
  const bool is_old = now - whole_time_ > longest_age || whole_time_ > now;
  if (fingerprint != fingerprint_ || profile_.device_kind().empty() || is_old ||
      !IsOfRuntime(profile_, whole)) {
    return NextProbe{MeasurementKind::kWhole, whole};
  }
  NextProbe next{MeasurementKind::kIncremental, IncrementalProbe(whole, profile_, drifted)};
  if (AskedDigest(whole) == settled_digest_) {
    // All that can be measured has been; only drifted shapes are worth measuring again.
    agent::v1::ProbePlan again = next.plan;
    again.clear_collectives();
    again.clear_layers();
    again.set_measures_overlap(false);
    again.set_measures_context_memory(false);
    for (const agent::v1::CollectiveKey& key : next.plan.collectives()) {
      if (drifted.contains({key.collective(), key.participant_count(), key.rank_stride()})) {
        *again.add_collectives() = key;
      }
    }
    next.plan = std::move(again);
  }
  if (IsEmptyProbe(next.plan)) return std::nullopt;
  return next;
}

absl::Status Remembered::Learn(const NextProbe& probe, const agent::v1::ProbePlan& whole,
                               const std::string& fingerprint, const v1::Profile& fresh,
                               absl::Time now) {
  const bool is_whole = probe.kind == MeasurementKind::kWhole;
  const std::string asked = AskedDigest(whole);
  const bool was_settled = !is_whole && settled_digest_ == asked;
  const int missing_before = ProbeSize(IncrementalProbe(whole, profile_, {}));
  profile_ = is_whole ? fresh : MergedProfile(profile_, fresh);
  const int missing = ProbeSize(IncrementalProbe(whole, profile_, {}));
  // Links to other nodes are not part of `whole`.
  const bool is_of_links = DevicesPerNode(probe.plan) != probe.plan.rank_count();
  const bool came_nothing = !is_whole && !is_of_links && missing >= missing_before;
  settled_digest_ = was_settled || came_nothing || missing == 0 ? asked : "";
  fingerprint_ = fingerprint;
  if (is_whole) whole_time_ = now;
  return folder_->Write(
      kRecord, absl::StrCat(kHeader, "\n", fingerprint_, "\n", settled_digest_, "\n",
                            absl::ToUnixSeconds(whole_time_), "\n", profile_.SerializeAsString()));
}

}  // namespace parplan
