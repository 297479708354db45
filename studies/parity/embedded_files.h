// Files of this folder that cmake/EmbedText.cmake writes into the program when it is built. Read by
// galvatron_constants.cc.

#ifndef PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_
#define PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns studies/parity/data: constants.json, golden_layer_costs.json and
// predicted_throughput.json, in this order. They live as long as the program.
absl::Span<const EmbeddedFile> ParityFiles();

}  // namespace parplan

#endif  // PARPLAN_STUDIES_PARITY_EMBEDDED_FILES_H_
