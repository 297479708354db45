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

// The program whose config is read.
enum class ConfigSource { kHuggingFace, kGalvatron };

// Reads the model that a config describes from its fields (docs/import.md lists them). `model_type`
// says what the fields leave open (family_traits.h); for an unknown one the fields must say whether
// its layers are gated and causal, unless `opaque` has the sizes of all layers. The language model
// of a model of several parts (`text_config`) is taken; its towers are named in notes.
//
// A config without `model_type` depends on `source`. Of Hugging Face it is an error, except for
// Llama's own names of sizes. One of Galvatron's is recognized by its keys, further keys are
// ignored, and parameters are those of the sizes alone.
//
// Layers of a kind that `opaque` has take its sizes. If all do, unknown fields are noted.
//
// `sequence_length` of the runs is the longest that the config allows, 0 if neither it nor its
// family names one; that of image encoders follows from the patches. Model id, precision and
// optimizer are left to the caller. Assumptions are appended to `notes`, which is not null. Returns
// INVALID_ARGUMENT (SPEC_INVALID) with file and field for sizes that are missing, not positive or
// contradict each other, for structures that model.proto does not have, and for unknown fields that
// may change sizes or structure.
absl::StatusOr<ModelFacts> ReadModelConfig(const nlohmann::json& object,
                                           absl::string_view file_name, ConfigSource source,
                                           const GivenOpaqueLayers& opaque,
                                           std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
