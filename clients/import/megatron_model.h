// The model that arguments of Megatron-LM describe.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/argument_list.h"
#include "clients/import/model_facts.h"
#include "parplan/v1/model.pb.h"

namespace parplan {

// The vocabulary of the tokenizer GPT2BPETokenizer, which Megatron-LM takes by default.
inline constexpr int kGpt2VocabularySize = 50257;

// Returns the width of the feed-forward part that Megatron-LM takes without --ffn-hidden-size: four
// times the hidden size, or two thirds of that in steps of 64 if it is gated.
int MegatronFeedForwardSize(int hidden_size, bool is_gated);

// Reads the value of --moe-layer-freq for `layer_count` layers: `n` (every n-th layer, the first
// one included), or an expression of lists such as `([0]*3+[1]*58)`. Nothing if it is neither.
std::optional<std::vector<bool>> ReadMegatronExpertLayers(absl::string_view text,
                                                          size_t layer_count);

// Makes the model from arguments that were read by `MegatronRules` (megatron_rules.h), with the
// defaults of megatron/training/arguments.py for absent ones: tied embeddings, learned positions,
// LayerNorm, biases, fp32, Adam. The vocabulary is --vocab-size, --padded-vocab-size, or that of
// the GPT-2 tokenizer. `flags` take precedence. Assumptions are appended to `notes`.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument for values that contradict each other,
// optimizers that parplan does not know, and sizes that neither arguments nor flags give (all of
// them); and the errors of ApplyModelFlags and BuildModelSpec.
absl::StatusOr<v1::ModelSpec> MegatronModelSpecOf(const ArgumentList& arguments,
                                                  const ModelFlags& flags,
                                                  std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_MODEL_H_
