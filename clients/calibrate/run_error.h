// The error of a published run that cannot become a question of the planner. Used by `QuestionOf`
// and its parts.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan::accuracy {

// Returns INVALID_ARGUMENT (SPEC_INVALID) for a field of a run that breaks `rule`. `field` is its
// place in the row, as `parallel.pp`; `rule` ends the sentence (`FieldError`).
inline absl::Status RunFieldError(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_ERROR_H_
