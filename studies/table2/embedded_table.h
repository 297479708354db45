// The data file of this folder that cmake/EmbedText.cmake writes into the program when it is built:
// table 2 of FITEE 2025 (docs/papers.md 3.2). Read by `BuiltInTable` (published_table.h).

#ifndef PARPLAN_STUDIES_TABLE2_EMBEDDED_TABLE_H_
#define PARPLAN_STUDIES_TABLE2_EMBEDDED_TABLE_H_

#include "absl/types/span.h"
#include "base/embedded_file.h"

namespace parplan {

// Returns fitee2025_table2.json alone, in the form that `ReadPublishedTable` reads. It lives as
// long as the program.
absl::Span<const EmbeddedFile> Table2Files();

}  // namespace parplan

#endif  // PARPLAN_STUDIES_TABLE2_EMBEDDED_TABLE_H_
