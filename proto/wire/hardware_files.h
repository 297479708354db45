// The text of deploy/hardware/*.json, written into the program by
// cmake/EmbedText.cmake when it is built.

#ifndef PARPLAN_PROTO_WIRE_HARDWARE_FILES_H_
#define PARPLAN_PROTO_WIRE_HARDWARE_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

struct HardwareFile {
  // Without its folder.
  absl::string_view name;
  absl::string_view text;
};

// Each is a `v1::HardwareLibrary`; together they are the built-in one. In the
// order of proto/wire/CMakeLists.txt.
absl::Span<const HardwareFile> BuiltInHardwareFiles();

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_HARDWARE_FILES_H_
