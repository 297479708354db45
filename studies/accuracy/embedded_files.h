// Files of this folder that cmake/EmbedText.cmake writes into the program when it is built.
// `AccuracyHtml` puts it into its page.

#ifndef PARPLAN_STUDIES_ACCURACY_EMBEDDED_FILES_H_
#define PARPLAN_STUDIES_ACCURACY_EMBEDDED_FILES_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns accuracy.css alone, which lives as long as the program.
absl::Span<const EmbeddedFile> AccuracyFiles();

}  // namespace parplan

#endif  // PARPLAN_STUDIES_ACCURACY_EMBEDDED_FILES_H_
