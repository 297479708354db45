// Checks that requests of several services share. `CallGuard` and the other readers of requests in
// this folder call them.

#ifndef PARPLAN_SERVER_CORE_REQUEST_RULES_H_
#define PARPLAN_SERVER_CORE_REQUEST_RULES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Largest number of characters of the reason that a caller gives for an end or a failure. Not
// measured.
inline constexpr int kMaxReasonCharacters = 1024;

// Largest number of characters of the id of a job. Not measured.
inline constexpr int kMaxJobIdCharacters = 128;

// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `field`, with the rule that it breaks, for example
// "must be above 0".
absl::Status RequestError(absl::string_view field, absl::string_view rule);

// Returns INVALID_ARGUMENT (SPEC_INVALID) naming `field` if `text` has a NUL or more than
// `max_count` characters of UTF-8.
absl::Status CheckCharacterCount(absl::string_view text, int max_count, absl::string_view field);

// Returns INVALID_ARGUMENT (`reason`) naming `field` if `request_id` has a byte below 0x20, is
// longer than 64 bytes, more than any form of a UUID, or is empty although `required`. Any other
// text passes, also one that is no UUID.
absl::Status CheckRequestId(absl::string_view request_id, bool required, absl::string_view field,
                            Reason reason = Reason::kSpecInvalid);

// Returns `status`, the result of a store, with `field` in place of `name` at the start of its
// message: stores assume that requests name a resource in the field `name`. Passes OK and all other
// errors through; code, reason and metadata never change.
absl::Status NamingField(const absl::Status& status, absl::string_view field);

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_REQUEST_RULES_H_
