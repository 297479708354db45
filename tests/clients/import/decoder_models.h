// Decoders between an embedding and a head, for tests of programs that run nothing else.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_DECODER_MODELS_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_DECODER_MODELS_H_

#include <random>

#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

struct DecoderModelOptions {
  // Layers without experts, and behind them layers with some.
  int dense_layer_count = 4;
  int expert_layer_count = 0;
  // Width of the vectors of experts; 0: as wide as the layers.
  int expert_latent_size = 0;
  int key_value_head_count = 8;
  bool gated = false;
  bool tied_embedding = true;
  // Attention with compressed queries, keys and values; queries are not compressed without a rank.
  bool latent_attention = false;
  int query_rank = 0;
  // Layers whose attention reads 128 tokens: all but every n-th; 0 for none, 1 for all.
  int window_interval = 0;
  // Layers that predict further tokens.
  int prediction_count = 0;
  Precision precision = Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdam;
};

// Returns a model with 64 heads, hidden size 512, 1,024 tokens and a vocabulary of 1,000. Ends the
// process if the options make no model.
ModelSpec DecoderModel(const DecoderModelOptions& options);

// Returns a model with random options, without latent attention, windows and further tokens.
DecoderModelOptions RandomDecoderModel(std::mt19937_64& random);

// Returns a model with random options, all of which Megatron-LM has.
DecoderModelOptions RandomMegatronModel(std::mt19937_64& random);

// Returns a random plan of `model` that Megatron-LM can run: any stages, degrees, sharding and
// recomputation that docs/exports.md lists.
UniformPlan RandomMegatronPlan(std::mt19937_64& random, const ModelSpec& model);

// The same with stages without layers between the first and the last, in half of the plans whose
// stages allow it.
UniformPlan RandomMegatronLayout(std::mt19937_64& random, const ModelSpec& model);

// The same for torchtitan, without recomputation of attention alone. `model` is neither in fp16 nor
// has a tied head.
UniformPlan RandomTorchtitanPlan(std::mt19937_64& random, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_DECODER_MODELS_H_
