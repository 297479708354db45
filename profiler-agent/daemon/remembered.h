// The agent's record of its measurements, kept on disk from one start to the next. The daemon asks
// it for the next measurement.

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

// The next measurement.
struct NextProbe {
  MeasurementKind kind = MeasurementKind::kWhole;
  agent::v1::ProbePlan plan;
};

// The merged profile of everything measured, and what it covers. Not thread-safe; one process at a
// time may use a folder, which is not checked.
class Remembered {
 public:
  // Opens the record in `folder`. A record that is damaged or cannot be read counts as none.
  // FAILED_PRECONDITION (STORE_UNAVAILABLE) if the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<Remembered>> Open(const std::string& folder);

  // Returns the next measurement, or nothing if none is due: all of `whole` if no node with this
  // fingerprint has been measured, if what was measured is of another runtime or release of PyTorch
  // than `whole`, or if the last measurement of everything is older than `longest_age` or after
  // `now`, since the clock was set back; otherwise what is missing from `whole` or in `drifted`.
  // Parts that a time budget left out are asked for again as long as each attempt measures some of
  // them; parts that proved impossible to measure are not.
  std::optional<NextProbe> Next(const agent::v1::ProbePlan& whole, const std::string& fingerprint,
                                const std::set<CollectiveShape>& drifted, absl::Time now,
                                absl::Duration longest_age) const;

  // Records `fresh`, which was measured for `probe` and is queued for upload. UNAVAILABLE
  // (STORE_UNAVAILABLE) if it cannot be written; it is then known until this object is destroyed.
  absl::Status Learn(const NextProbe& probe, const agent::v1::ProbePlan& whole,
                     const std::string& fingerprint, const v1::Profile& fresh, absl::Time now);

  // The newest measurement of each item since the last measurement of everything; empty without a
  // record. This and the next are valid until `Learn`.
  const v1::Profile& profile() const { return profile_; }
  // Fingerprint of the measured node; empty without a record.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  explicit Remembered(std::unique_ptr<RecordFolder> folder) : folder_(std::move(folder)) {}

  const std::unique_ptr<RecordFolder> folder_;
  v1::Profile profile_;
  std::string fingerprint_;
  // Digest of the complete plan for which everything that can be measured is known; empty if there
  // is none.
  std::string settled_digest_;
  absl::Time whole_time_ = absl::InfinitePast();
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_REMEMBERED_H_
