// A text file that cmake/EmbedText.cmake writes into the program when it is built. The headers
// `embedded_files.h` of proto/wire, clients/report and the studies, and
// studies/table2/embedded_table.h, declare the functions that list such files.

#ifndef PARPLAN_BASE_EMBEDDED_FILE_H_
#define PARPLAN_BASE_EMBEDDED_FILE_H_

#include "absl/strings/string_view.h"

namespace parplan {

// A file inside the program, unchanged; both texts live as long as the process.
struct EmbeddedFile {
  // Name without the folder.
  absl::string_view name;
  absl::string_view text;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_EMBEDDED_FILE_H_
