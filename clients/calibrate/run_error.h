// The error of a published run that cannot become a question of the planner. Used by `QuestionOf`
// and its parts.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan::accuracy {

// Returns INVALID_ARGUMENT (SPEC_INVALID), never OK, for a value of a run that was found to be
// wrong. `field` is its place in the row, and `rule` says what is wrong with it: `parallel.pp` and
// `is missing` give the message `parallel.pp: is missing` (`FieldError`).
inline absl::Status RunFieldError(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_
