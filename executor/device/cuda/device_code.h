// The GPUs that have code in this plugin, in plain text and numbers, so that it is tested without
// CUDA. plugin.cc asks it for every GPU it finds.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_CODE_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_CODE_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace parplan::cuda {

// Returns whether a build for `architectures`, as CMAKE_CUDA_ARCHITECTURES has them (`90`,
// `90-real;100-virtual`; commas will do), has code for a GPU of compute capability `capability`, 86
// for 8.6. Machine code (`real`) serves the same major version from its minor version up; PTX
// (`virtual`) is compiled by the driver for every later version; an entry without either has both.
// Ignores entries that are no numbers, such as `native`, `all` and `90a`.
inline bool HasCodeFor(absl::string_view architectures, int capability) {
  for (absl::string_view entry : absl::StrSplit(architectures, absl::ByAnyChar(",;"))) {
    const bool is_real_alone = absl::ConsumeSuffix(&entry, "-real");
    const bool is_virtual_alone = !is_real_alone && absl::ConsumeSuffix(&entry, "-virtual");
    int version = 0;
    if (!absl::SimpleAtoi(entry, &version) || capability < version) continue;
    if (!is_real_alone || (!is_virtual_alone && capability / 10 == version / 10)) return true;
  }
  return false;
}

// Returns the line that says that a GPU has no code, and what to do.
inline std::string NoCodeText(absl::string_view device, int capability,
                              absl::string_view architectures) {
  return absl::StrCat("the plugin has no code for ", device, ", compute capability ",
                      capability / 10, ".", capability % 10, "; it was built for ", architectures,
                      ": build it with CMAKE_CUDA_ARCHITECTURES=", capability);
}

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_DEVICE_CODE_H_
