#include "clients/import/expert_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Marks the layers with experts: all, but those that one of several rules takes out.
void ReadExpertLayers(ConfigFields& fields, int layer_count, Experts& experts) {
  experts.in_layer.assign(layer_count, true);
  const int dense_first = fields.Count({"first_k_dense_replace"}, 0);
  if (dense_first > layer_count) {
    fields.Fail("first_k_dense_replace",
                absl::StrCat("must be at most the ", layer_count, " layers of num_hidden_layers"));
    return;
  }
  std::fill_n(experts.in_layer.begin(), dense_first, false);
  // Jamba names the first of them.
  const int period = fields.Optional({"expert_layer_period"}, 1);
  const int offset = fields.Count({"expert_layer_offset"}, 0);
  // Every n-th layer has experts; DeepSeek counts from the first layer, the others from the last
  // of each n.
  const int frequency = fields.Optional({"moe_layer_freq"}, 1);
  const int step = fields.Optional({"decoder_sparse_step", "interleave_moe_layer_step"}, 1);
  const std::vector<int> listed = fields.List("moe_layers", 0);
  const std::vector<int> dense = fields.List("mlp_only_layers", 0);
  for (int i = 0; i < layer_count; ++i) {
    if (i % frequency != 0 || (i + 1) % step != 0 || i % period != offset % period)
      experts.in_layer[i] = false;
  }
  for (const int layer : dense) {
    if (layer >= layer_count) {
      fields.Fail("mlp_only_layers", absl::StrCat("must name layers below ", layer_count));
      return;
    }
    experts.in_layer[layer] = false;
  }
  if (listed.empty()) return;
  experts.in_layer.assign(layer_count, false);
  for (const int layer : listed) {
    if (layer >= layer_count) {
      fields.Fail("moe_layers", absl::StrCat("must name layers below ", layer_count));
      return;
    }
    experts.in_layer[layer] = true;
  }
}

}  // namespace

Experts ReadExperts(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, int plain_size) {
  Experts experts;
  experts.count =
      fields.Count({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, 0);
  const int per_token = fields.Count({"num_experts_per_tok", "experts_per_token",
                                      "num_experts_per_token", "moe_top_k", "moe_topk"},
                                     0);
  const int size = fields.Count({"moe_intermediate_size", "expert_intermediate_size"}, 0);
  const int shared_count = fields.Count({"n_shared_experts", "num_shared_experts"}, 0);
  int shared_size = fields.Count({"shared_expert_intermediate_size", "shared_intermediate_size",
                                  "moe_shared_expert_intermediate_size"},
                                 0);
  ReadExpertLayers(fields, run.layer_count, experts);
  if (experts.count < 2) {
    // One expert without a router is a dense layer.
    if (experts.count == 1 && shared_size == 0 && shared_count == 0 && size == 0) {
      experts.count = 0;
    }
    if (experts.count == 0) {
      // Granite's dense hybrids have a shared expert alone.
      experts.dense_size = fields.Has("shared_intermediate_size") ? shared_size : 0;
      if (experts.dense_size == 0 && (shared_count > 0 || shared_size > 0)) {
        fields.Fail("num_experts", "is required beside the size of a shared expert");
      }
      experts.in_layer.clear();
      return experts;
    }
  }
  if (per_token < 1 || per_token > experts.count) {
    fields.Fail("num_experts_per_tok",
                absl::StrCat("must be 1 to the number of experts ", experts.count));
  }
  experts.per_token = std::max(per_token, 1);
  experts.size = size > 0 ? size : plain_size;
  if (shared_count > 0 && shared_size == 0) shared_size = CappedProduct(shared_count, experts.size);
  if (traits.has_shared_expert && shared_size == 0) shared_size = experts.size;
  experts.shared_size = shared_size;
  if (traits.has_shared_expert_gate && shared_size > 0) {
    experts.extra_parameter_count += run.hidden_size;
  }
  // GPT-OSS's router has a bias, and each head a sink.
  if (traits.model_type == "gpt_oss" || traits.has_router_bias) {
    experts.extra_parameter_count += experts.count;
  }
  return experts;
}

}  // namespace parplan
