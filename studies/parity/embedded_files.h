// The files of studies/parity/data, which cmake/EmbedText.cmake writes into the program when it is
// built. galvatron_constants.cc reads them.

#ifndef PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_
#define PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns the names and texts (base/embedded_file.h) of constants.json, golden_layer_costs.json and
// predicted_throughput.json, in this order. They live as long as the process. Safe from any thread.
absl::Span<const EmbeddedFile> ParityFiles();

}  // namespace parplan

#endif  // PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_
