// Rules that requests of several services share.

#ifndef PARPLAN_SERVER_CORE_REQUEST_RULES_H_
#define PARPLAN_SERVER_CORE_REQUEST_RULES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// INVALID_ARGUMENT (SPEC_INVALID) naming `field` when `text` has more than
// `max_count` characters of UTF-8.
absl::Status CheckCharacterCount(absl::string_view text, int max_count, absl::string_view field);

// INVALID_ARGUMENT (`reason`) naming `field` when `request_id` is too long to be
// a UUID in any of its forms, or empty although it is required.
absl::Status CheckRequestId(absl::string_view request_id, bool required, absl::string_view field,
                            Reason reason = Reason::kSpecInvalid);

// An error of a store that begins with the field `name`, in which most requests name what it
// is about, for a request that does so in `field`. Others stay as they are.
absl::Status NamingField(const absl::Status& status, absl::string_view field);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_REQUEST_RULES_H_
