// Files of deploy/ that cmake/EmbedText.cmake writes into the program when it is built. Read by
// `HardwareLibrary::BuiltIn` and `PublishedCalibration`.

#ifndef PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_
#define PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns deploy/hardware/*.json, in the order of proto/wire/CMakeLists.txt. Each file is a
// `v1::HardwareLibrary`; together they are the built-in library.
absl::Span<const EmbeddedFile> BuiltInHardwareFiles();

// Returns deploy/calibrations/published.json, a `v1::Calibration`.
absl::Span<const EmbeddedFile> PublishedCalibrationFiles();

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_EMBEDDED_FILES_H_
