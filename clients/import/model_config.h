// Model sizes from a Hugging Face `config.json` or one of Galvatron's
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

// The families a config can be of, told by `model_type`, or by its keys where
// it has none (Galvatron): llama, mistral, qwen2, gemma, baichuan; gpt2,
// gpt_neox, opt, bloom, falcon, mpt; bert; vit; swin; t5.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and field for other families,
// mixtures of experts, and sizes that are missing or not positive. What was
// assumed goes to `notes`. `sequence_length` of the runs is what the config
// allows at most, 0 where it does not say.
absl::StatusOr<ModelFacts> ReadModelConfig(const nlohmann::json& config,
                                           absl::string_view file_name,
                                           std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MODEL_CONFIG_H_
