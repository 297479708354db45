#include "exports/readme_text.h"

#include "absl/strings/str_cat.h"

namespace parplan {

std::string ReadmeTitle(const ExportFacts& facts, absl::string_view program, int device_count) {
  return absl::StrCat("Plan ", facts.plan_name.empty() ? "of parplan" : facts.plan_name, " for ",
                      program, " on ", device_count, " devices.\n\n");
}

std::string ReadmePrediction(const ExportFacts& facts, bool is_of_program,
                             absl::string_view arguments) {
  std::string text =
      absl::StrCat("\nThe prediction is for runtime `", facts.runtime.runtime_id, "`.");
  if (!is_of_program) {
    absl::StrAppend(&text, " Plan with ", arguments, " for one of this program.");
  }
  return absl::StrCat(text, "\n");
}

}  // namespace parplan
