// Reads and writes the files of planctl. Its commands but those of Slurm, and those of
// parplan-study, read and write files by it.

#ifndef PARPLAN_CLIENTS_PLANCTL_FILES_H_
#define PARPLAN_CLIENTS_PLANCTL_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/calibration.pb.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/topology.pb.h"

namespace parplan::planctl {

// Returns the whole file; `-` is standard input. INVALID_ARGUMENT (SPEC_INVALID) naming
// the path when it can't be read or has more than 64 MiB.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces the file whole or not at all: a new file beside it, synced, then renamed over it, with
// mode 0644 less the umask, whatever the old one had. A link stays and what it leads to is
// replaced; a path that leads to no regular file (a terminal, a pipe, /dev/null) is written to.
// `-` is standard output. INVALID_ARGUMENT (SPEC_INVALID) if there can't be such a file, INTERNAL
// with no `Reason` if the disk fails; both errors name the path, or `standard output`.
absl::Status WriteFile(const std::string& path, absl::string_view content);

// Read files in the formats of docs/files.md. Unknown fields are errors; an error names file,
// field and rule, or what the file is if it is of another kind (file_kind.h).
// All are INVALID_ARGUMENT: SPEC_INVALID, or PROFILE_INVALID for a profile that breaks a rule.
// Models, clusters and questions about money are only parsed, profiles and calibrations also
// checked.
absl::StatusOr<v1::ModelSpec> ReadModel(const std::string& path);
absl::StatusOr<v1::ClusterTopology> ReadCluster(const std::string& path);
absl::StatusOr<v1::Profile> ReadProfile(const std::string& path);
absl::StatusOr<v1::Calibration> ReadCalibration(const std::string& path);
absl::StatusOr<v1::MoneyQuestion> ReadMoney(const std::string& path);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_FILES_H_
