// A text file that cmake/EmbedText.cmake writes into the program when it is built.

#ifndef PARPLAN_BASE_EMBEDDED_FILE_H_
#define PARPLAN_BASE_EMBEDDED_FILE_H_

#include "absl/strings/string_view.h"

namespace parplan {

// A file inside the program; both texts live as long as the process.
struct EmbeddedFile {
  // Name without the folder.
  absl::string_view name;
  absl::string_view text;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_EMBEDDED_FILE_H_
