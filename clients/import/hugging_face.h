// `planctl import hf`: makes a model file from a Hugging Face `config.json`.

#ifndef PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_
#define PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/model_facts.h"
#include "clients/import/named_text.h"
#include "clients/import/opaque_config.h"
#include "parplan/v1/model.pb.h"

namespace parplan {

// The first is the sequence length in tokens if neither flag nor config gives one; the second the
// longest that is taken from a config if no flag asks for it. Neither was measured.
inline constexpr int kDefaultSequenceLength = 2048;
inline constexpr int kLongestDefaultSequenceLength = 4096;

// The model of a configuration, and what the reader assumed.
struct HuggingFaceImport {
  v1::ModelSpec model;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Converts a config as ReadModelConfig of model_config.h reads it, also with the numbers of
// python_json.h. Layers of a kind that `opaque` has take its sizes. Windows at least as long as the
// sequence are none. The sequence length is `flags.sequence_lengths`, or else the config's longest
// up to kLongestDefaultSequenceLength, or else kDefaultSequenceLength; that of an encoder of images
// follows from its patches. Precision is bf16 and the optimizer Adam unless flags say otherwise.
// The model id is that of the flags, the last part of `_name_or_path` of the config, or its
// `model_type`.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID) with file, field and rule for a text that is no JSON
// object, a config that ReadModelConfig refuses, and sizes that are missing or that BuildModelSpec
// (model_facts.h) refuses; naming the flag for flags that ApplyModelFlags refuses. `planctl import
// hf` and the study of models call it.
absl::StatusOr<HuggingFaceImport> ImportHuggingFace(const NamedText& config,
                                                    const ModelFlags& flags,
                                                    const GivenOpaqueLayers& opaque = {});

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_HUGGING_FACE_H_
