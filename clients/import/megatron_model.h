// The model that arguments of Megatron-LM describe. `ImportMegatronRun` (megatron_run.h) calls the
// function; the reader of published runs (clients/calibrate) takes the constant.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/argument_list.h"
#include "clients/import/model_facts.h"
#include "parplan/v1/model.pb.h"

namespace parplan {

// The vocabulary of the tokenizer GPT2BPETokenizer, which Megatron-LM takes by default.
inline constexpr int kGpt2VocabularySize = 50257;

// Makes the model from arguments that were read by `MegatronRules` (megatron_rules.h), with the
// sizes of ReadMegatronSizes (megatron_layers.h), and LayerNorm and biases unless arguments say
// otherwise. The vocabulary is --vocab-size, --padded-vocab-size, or that of the GPT-2 tokenizer if
// --tokenizer-type names it. `flags` take precedence. The model id is the name of the file without
// folders, up to its first dot, or `megatron` if nothing is left or it begins with `-`. Assumptions
// are appended to `notes`.
//
// INVALID_ARGUMENT (SPEC_INVALID) for the errors of ReadMegatronSizes, sizes that neither arguments
// nor flags give (all of them), and those of ApplyModelFlags and BuildModelSpec.
absl::StatusOr<v1::ModelSpec> MegatronModelSpecOf(const ArgumentList& arguments,
                                                  const ModelFlags& flags,
                                                  std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_
