// Files of this folder that cmake/EmbedText.cmake writes into the program when it is built. Read by
// style.cc.

#ifndef PARPLAN_CLIENTS_REPORT_EMBEDDED_FILES_H_
#define PARPLAN_CLIENTS_REPORT_EMBEDDED_FILES_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns report.css and page_head.html, which live as long as the program.
absl::Span<const EmbeddedFile> ReportFiles();

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_REPORT_EMBEDDED_FILES_H_
