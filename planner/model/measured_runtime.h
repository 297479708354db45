// The runtime whose measurements hold for another. The selection of profiles
// (proto/wire/profile_selection.h), `LayerSource` and the server's `ProfileKeeper` call it.

#ifndef PARPLAN_PLANNER_MODEL_MEASURED_RUNTIME_H_
#define PARPLAN_PLANNER_MODEL_MEASURED_RUNTIME_H_

#include "absl/strings/string_view.h"

namespace parplan {

// Returns the runtime that profiles name (`Profile.runtime_id`) if their times hold for
// `runtime_id`, a name of `KnownRuntimes()`: `torch` for `fsdp`, `deepspeed` and `accelerate`,
// whose layers are the same modules of PyTorch; `parplan` for `parplan-exec`; else `runtime_id`
// itself, whatever it is, which then lives as long as the text of the argument.
absl::string_view MeasuredRuntime(absl::string_view runtime_id);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_MEASURED_RUNTIME_H_
