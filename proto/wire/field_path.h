// Paths of fields in errors: `topology.node_groups[2].node_count`. The conversions and readers of
// files make them.

#ifndef PARPLAN_PROTO_WIRE_FIELD_PATH_H_
#define PARPLAN_PROTO_WIRE_FIELD_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Returns `parent.child`, or `child` if `parent` is empty.
std::string JoinPath(absl::string_view parent, absl::string_view child);

// Returns `parent.child[index]`.
std::string JoinPath(absl::string_view parent, absl::string_view child, int index);

// Translates a field error of the planner to the fields of the caller's message: the prefix `from`
// of the path, one or more whole members, becomes `to`, and the reason becomes `reason`. The result
// is a `FieldError`: INVALID_ARGUMENT with `field` and `rule` and no other metadata. With an empty
// `from`, `to` is put in front. Returns a status without a field, or whose field does not begin
// with `from`, as it is.
absl::Status MoveFieldError(const absl::Status& status, absl::string_view from,
                            absl::string_view to, Reason reason);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_FIELD_PATH_H_
