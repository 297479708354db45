// The sizes that arguments of Megatron-LM give a model, with that program's defaults.
// `MegatronModelSpecOf` (megatron_model.h), `CompareMegatronModel` (megatron_comparison.h),
// `ImportMegatronRun` (megatron_run.h) and the reader of published runs (clients/calibrate) call
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_MEGATRON_LAYERS_H_
#define PARPLAN_CLIENTS_IMPORT_MEGATRON_LAYERS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/argument_list.h"
#include "clients/import/model_facts.h"
#include "parplan/v1/model.pb.h"

namespace parplan {

// The sizes of a model. Sizes that neither the arguments nor the program's defaults give are 0.
struct MegatronSizes {
  // A layer without experts, over the whole sequence; `layer_count` is that of the model without
  // the layers that predict further tokens.
  TransformerRunFacts dense;
  // The same layer with experts; present if some layer has them.
  std::optional<TransformerRunFacts> mixture;
  // Whether each layer of `dense.layer_count` has experts; empty without `mixture`.
  std::vector<bool> has_experts;
  // Tokens that attention reads in layers with a window, and whether each layer has one, those that
  // predict further tokens last; 0 and empty without windows.
  int window = 0;
  std::vector<bool> has_window;
  // Layers that predict further tokens, each like the last layer.
  int prediction_count = 0;
  // The unpadded vocabulary, or else the padded one.
  int vocabulary_size = 0;
  bool tied_embedding = true;
  // Entries of a learned table of positions; 0 without one.
  int position_count = 0;
  v1::Precision precision = v1::PRECISION_FP32;
  // The result of `ReadMegatronWideProducts`.
  std::vector<bool> has_wide_products;
  v1::Optimizer optimizer = v1::OPTIMIZER_ADAM;
};

// Returns the precision of the model: that of --bf16 or --fp16, or that of the recipe of
// --fp8-format or --fp4-format, with the program's defaults. INVALID_ARGUMENT (SPEC_INVALID) with
// file and argument for two that contradict each other, and for recipes that no precision here has.
absl::StatusOr<v1::Precision> MegatronPrecisionOf(const ArgumentList& arguments);

// Returns whether each of `layer_count` layers multiplies in 16 bits although the precision has a
// recipe of 8 or 4 bits: the first and the last ones of --first-last-layers-bf16. Empty without
// that switch or without a recipe. Layers that predict further tokens are not in it and multiply in
// fewer bits. INVALID_ARGUMENT (SPEC_INVALID) with file and argument for numbers that the program
// refuses, which are those above the layers over the pipeline ranks, and for its recipe with
// delayed scales. REQUIRES, unchecked: `layer_count` is at least 0.
absl::StatusOr<std::vector<bool>> ReadMegatronWideProducts(const ArgumentList& arguments,
                                                           int layer_count);

// Returns whether parameters exist in 8 bits only (--fp8-param-gather). INVALID_ARGUMENT
// (SPEC_INVALID) with file and argument if --fp8-format is absent then.
absl::StatusOr<bool> HasMegatronNarrowParameters(const ArgumentList& arguments);

// Returns the width of the feed-forward part that Megatron-LM takes without --ffn-hidden-size: four
// times the hidden size, or, if it is gated, two thirds of that, rounded down to a multiple of 64.
int MegatronFeedForwardSize(int hidden_size, bool is_gated);

// Reads the value of --moe-layer-freq for `layer_count` layers: `n` (every n-th layer, the first
// one included), or a list as of ReadLayerPattern (layer_pattern.h), which may have another length.
// Nothing if it is neither.
std::optional<std::vector<bool>> ReadMegatronExpertLayers(absl::string_view text,
                                                          size_t layer_count);

// The window of attention: its tokens, the token itself included, and whether each layer has it,
// `layer_count` + `further` entries. 0 and empty without windows.
struct MegatronWindow {
  int size = 0;
  std::vector<bool> has_window;
};
// Reads --window-size and --window-attn-skip-freq for `layer_count` layers and the `further` ones
// behind them. Without a frequency all layers have the window, with a number n every n-th has none,
// and a list has a 1 for each layer with it. A list is an error beside `further` layers.
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument for values that are no windows of causal
// attention.
absl::StatusOr<MegatronWindow> ReadMegatronWindow(const ArgumentList& arguments, int layer_count,
                                                  int further);

// Reads the sizes from arguments that were read by `MegatronRules` (megatron_rules.h), with the
// defaults of megatron/training/arguments.py for absent ones: tied embeddings, learned positions,
// fp32, Adam, two experts a token, and the widths of latent attention.
//
// INVALID_ARGUMENT (SPEC_INVALID) with file and argument for values that contradict each other, and
// optimizers that parplan does not know.
absl::StatusOr<MegatronSizes> ReadMegatronSizes(const ArgumentList& arguments);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_MEGATRON_LAYERS_H_
