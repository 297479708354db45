// What the agent remembers of its measurements from one start to the next.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_REMEMBERED_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_REMEMBERED_H_

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/delivery/record_folder.h"
#include "parplan/agent/v1/probe_plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "profiler-agent/daemon/agent_metrics.h"
#include "profiler-agent/probe/probe_plan.h"

namespace parplan {

// What is to be measured next.
struct NextProbe {
  MeasurementKind kind = MeasurementKind::kWhole;
  agent::v1::ProbePlan plan;
};

class Remembered {
 public:
  // The errors of RecordFolder::Open. What is damaged counts as forgotten.
  static absl::StatusOr<std::unique_ptr<Remembered>> Open(const std::string& folder);

  // All of `whole` where nothing is known of a node with this fingerprint, or it was measured
  // as a whole longer ago than `longest_age`; what is missing or drifted else; nothing where
  // that is nothing. What was left out, for want of time, is asked for again as long as some
  // of it comes; what could not be measured is not.
  std::optional<NextProbe> Next(const agent::v1::ProbePlan& whole, const std::string& fingerprint,
                                const std::set<CollectiveShape>& drifted, absl::Time now,
                                absl::Duration longest_age) const;

  // `fresh` was measured for `probe` and is on its way to the server.
  absl::Status Learn(const NextProbe& probe, const agent::v1::ProbePlan& whole,
                     const std::string& fingerprint, const v1::Profile& fresh, absl::Time now);

  // Everything measured and not measured anew since; empty at first.
  const v1::Profile& profile() const { return profile_; }
  // Of the node that was measured; empty at first.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  explicit Remembered(std::unique_ptr<RecordFolder> folder) : folder_(std::move(folder)) {}

  const std::unique_ptr<RecordFolder> folder_;
  v1::Profile profile_;
  std::string fingerprint_;
  // Of the whole plan of which all that can be measured is known; empty before.
  std::string settled_digest_;
  absl::Time whole_time_ = absl::InfinitePast();
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_REMEMBERED_H_
