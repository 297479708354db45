// Files of deploy/ that are written into the program by cmake/EmbedText.cmake when it
// is built.

#ifndef PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_
#define PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

struct EmbeddedFile {
  // Without its folder.
  absl::string_view name;
  absl::string_view text;
};

// deploy/hardware/*.json. Each is a `v1::HardwareLibrary`; together they are the
// built-in one. In the order of proto/wire/CMakeLists.txt.
absl::Span<const EmbeddedFile> BuiltInHardwareFiles();

// deploy/calibrations/published.json, a `v1::Calibration`.
absl::Span<const EmbeddedFile> PublishedCalibrationFiles();

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_
