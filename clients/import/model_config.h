// Reads model sizes from a Hugging Face `config.json` or one of Galvatron's
// `meta_configs` files, which use the same keys or shorter ones.

#ifndef PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Reads the model that a config describes. `model_type` names its family; a config without it
// (Galvatron's) is recognized by its keys. Families: llama, mistral, qwen2, gemma, baichuan; gpt2,
// gpt_neox, opt, bloom, falcon, mpt; bert; vit; swin; t5, mt5.
//
// `sequence_length` of the runs is the longest that the config allows, 0 if it names none.
// Assumptions are appended to `notes`. Returns INVALID_ARGUMENT (SPEC_INVALID) with file and field
// for other families, mixtures of experts, and sizes that are missing or not positive.
absl::StatusOr<ModelFacts> ReadModelConfig(const nlohmann::json& config,
                                           absl::string_view file_name,
                                           std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
