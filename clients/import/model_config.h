// Reads model sizes from a Hugging Face `config.json` or one of Galvatron's `meta_configs` files,
// which use the same keys or shorter ones. `ImportHuggingFace` and `ImportGalvatron` call it.

#ifndef PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/model_facts.h"
#include "clients/import/opaque_config.h"

namespace parplan {

// Reads the model that a config describes from its fields (docs/import.md lists them). `model_type`
// says what the fields leave open (family_traits.h); for an unknown one the fields must say whether
// its layers are gated and causal. A config without `model_type` is Galvatron's: it is recognized
// by its keys, must have no experts, further keys are ignored, and parameters are those of the
// sizes alone. The language model of a model of several parts (`text_config`) is taken; its towers
// are named in notes.
//
// Layers of a kind that `opaque` has take its sizes.
//
// `sequence_length` of the runs is the longest that the config allows, 0 if neither it nor its
// family names one; that of image encoders follows from the patches. Model id, precision and
// optimizer are left to the caller. Assumptions are appended to `notes`, which is not null. Returns
// INVALID_ARGUMENT (SPEC_INVALID) with file and field for sizes that are missing, not positive or
// contradict each other, for structures that model.proto does not have, and for unknown fields that
// may change sizes or structure.
absl::StatusOr<ModelFacts> ReadModelConfig(const nlohmann::json& object,
                                           absl::string_view file_name,
                                           const GivenOpaqueLayers& opaque,
                                           std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
