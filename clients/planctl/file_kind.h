// The kind of a file that was given in place of another one, for example a config.json of Hugging
// Face as --model. Its own errors would be a line for each of its fields.

#ifndef PARPLAN_CLIENTS_PLANCTL_FILE_KIND_H_
#define PARPLAN_CLIENTS_PLANCTL_FILE_KIND_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan::planctl {

// Kinds of JSON files that planctl reads.
enum class FileKind {
  kModel,
  kCluster,
  kProfile,
  kCalibration,
  kPlan,
  // Not read as such; they are given in place of others.
  kSignedPlan,
  kHuggingFaceConfig,
  kGalvatronStrategy,
};

// Returns the error of reading `text`, the file `path`, as `wanted`. If a member of the file says
// that it is of another kind, that is INVALID_ARGUMENT (SPEC_INVALID), which names both kinds and
// what to do; otherwise it is `error`. REQUIRES: `error` is not OK. Pure.
absl::Status NameKind(const absl::Status& error, absl::string_view text, const std::string& path,
                      FileKind wanted);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_FILE_KIND_H_
