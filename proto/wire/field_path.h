// Paths of fields in errors: `topology.node_groups[2].node_count`.

#ifndef PARPLAN_PROTO_WIRE_FIELD_PATH_H_
#define PARPLAN_PROTO_WIRE_FIELD_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// `parent.child`; `child` alone where `parent` is empty.
std::string JoinPath(absl::string_view parent, absl::string_view child);

// `parent.child[index]`.
std::string JoinPath(absl::string_view parent, absl::string_view child, int index);

// A field error of the planner, told in the words of the caller's message: the
// path's beginning `from` becomes `to`, and the reason becomes `reason`. `from`
// may be empty (`to` is put in front). A status without a field, or whose field
// does not begin with `from`, comes back as it is.
absl::Status MoveFieldError(const absl::Status& status, absl::string_view from,
                            absl::string_view to, Reason reason);

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_FIELD_PATH_H_
