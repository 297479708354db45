// `planctl import hf`: a model file from a Hugging Face `config.json`.

#ifndef PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_
#define PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "parplan/v1/model.pb.h"

namespace parplan {

// Sequence length taken when neither flag nor config gives one, and the longest
// taken from a config without being asked for.
inline constexpr int kDefaultSequenceLength = 2048;
inline constexpr int kLongestDefaultSequenceLength = 4096;

struct HuggingFaceImport {
  v1::ModelSpec model;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// The dense families of model_config.h. The sequence length is
// `flags.sequence_lengths`, else what the config allows up to
// kLongestDefaultSequenceLength; precision bf16 and optimizer Adam unless
// flagged. The model id is that of the flags, `_name_or_path` of the config, or
// the family.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file, field and rule.
absl::StatusOr<HuggingFaceImport> ImportHuggingFace(const NamedText& config,
                                                    const ModelFlags& flags);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_
