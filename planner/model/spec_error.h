// The error of a specification that breaks a rule, for the types of this folder. The `Create`
// functions of this folder return it.

#ifndef PARPLAN_PLANNER_MODEL_SPEC_ERROR_H_
#define PARPLAN_PLANNER_MODEL_SPEC_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Returns INVALID_ARGUMENT (SPEC_INVALID) for a field that breaks a rule, with the message
// "field: rule".
inline absl::Status SpecError(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_SPEC_ERROR_H_
