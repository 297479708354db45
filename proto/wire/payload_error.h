// The error of a field of a plan's payload, for the sources that read one. These sources are
// plan_wire.cc and prediction_wire.cc.

#ifndef PARPLAN_PROTO_WIRE_PAYLOAD_ERROR_H_
#define PARPLAN_PROTO_WIRE_PAYLOAD_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

inline constexpr Reason kMalformed = Reason::kPayloadMalformed;

// Returns INVALID_ARGUMENT (PAYLOAD_MALFORMED) for a field that breaks a rule, with the message
// "FIELD: RULE".
inline absl::Status Malformed(absl::string_view field, absl::string_view rule) {
  return FieldError(kMalformed, field, rule);
}

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_PAYLOAD_ERROR_H_
