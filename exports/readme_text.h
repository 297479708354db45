// Sentences that the files README.txt of several exports share.

#ifndef PARPLAN_EXPORTS_README_TEXT_H_
#define PARPLAN_EXPORTS_README_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "exports/exported_files.h"

namespace parplan {

// Returns the first line and an empty one: `Plan NAME for PROGRAM on N devices.`, where an empty
// name becomes `of parplan`. `program` has its release, such as `DeepSpeed (0.19)`.
std::string ReadmeTitle(const ExportFacts& facts, absl::string_view program, int device_count);

// The paragraph that says how to recompute all decoder layers, as models of transformers do it;
// begins with an empty line.
inline constexpr char kReadmeRecomputation[] =
    "\nAll decoder layers are recomputed, and nothing else:\n"
    "  model.gradient_checkpointing_enable(\n"
    "      gradient_checkpointing_kwargs={\"use_reentrant\": False})\n";

// Returns the last paragraph, which begins with an empty line: for which runtime the prediction is
// and, unless that `is_of_program`, with which arguments of `planctl plan` it would be, such as
// `--target deepspeed`. `arguments` are ignored otherwise.
std::string ReadmePrediction(const ExportFacts& facts, bool is_of_program,
                             absl::string_view arguments);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_README_TEXT_H_
