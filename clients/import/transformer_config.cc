#include "clients/import/transformer_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/named_text.h"
#include "planner/model/planning_problem.h"

namespace parplan {
namespace {

// Llama's rule: two thirds of four times the width, rounded up.
int GatedFeedForwardSize(int hidden_size, int multiple) {
  const int64_t wide = int64_t{hidden_size} * 8 / 3;
  return static_cast<int>(
      std::min<int64_t>((wide + multiple - 1) / multiple * multiple, kMaxImportCount));
}

// Structures that the contract lacks, by the field that shows them.
void RefuseOtherStructures(ConfigFields& fields) {
  constexpr char kLatent[] =
      "is of multi-head latent attention, which model.proto has no ranks for; a layer as wide as "
      "its heads would have more than twice the parameters";
  constexpr char kStateSpace[] =
      "is of a state-space layer, which model.proto has no kind for; only attention layers can be "
      "planned";
  for (const char* key :
       {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    fields.Refuse(key, kLatent);
  }
  for (const char* key :
       {"attn_layer_period", "hybrid_override_pattern", "layers_block_type", "mamba_d_state",
        "mamba_num_heads", "ssm_state_size", "state_size", "linear_num_key_heads"}) {
    fields.Refuse(key, kStateSpace);
  }
  for (const char* key : {"add_cross_attention", "cross_attention_layers"}) {
    fields.Refuse(key, "is of cross-attention to another part of the model, which has no run here");
  }
}

// Reads the heads of attention, and checks that they fit.
void ReadHeads(const FamilyTraits& traits, ConfigFields& fields, TransformerRunFacts& run,
               std::vector<std::string>* notes) {
  run.attention_head_count = fields.Optional(
      {"num_attention_heads", "n_head", "n_heads", "num_heads"}, traits.attention_head_count);
  if (run.attention_head_count == 0) {
    run.attention_head_count = fields.Size({"num_attention_heads"});
  } else if (traits.attention_head_count > 0 && !fields.Has("num_attention_heads")) {
    notes->push_back(absl::StrCat("num_attention_heads ", run.attention_head_count,
                                  " is the default of ", traits.model_type,
                                  "; the config gives none"));
  }
  run.head_size = fields.Optional({"head_dim"}, traits.head_size);
  int groups = fields.Optional({"num_key_value_heads", "n_kv_heads", "multi_query_group_num"},
                               traits.key_value_head_count);
  // Falcon's two architectures, and GPT-BigCode.
  const bool is_falcon = traits.model_type == "falcon";
  const bool is_grouped = fields.Flag({"new_decoder_architecture"}, false);
  const bool is_multi_query = fields.Flag({"multi_query"}, is_falcon);
  const int falcon_groups = fields.Optional({"num_kv_heads", "n_head_kv"}, 0);
  if (is_grouped) {
    groups = falcon_groups;
  } else if (is_multi_query) {
    groups = 1;
  }
  if (const nlohmann::json* const attention = fields.Object("attn_config")) {
    ConfigFields inner(*attention, fields.file_name(), "attn_config.");
    groups = inner.Optional({"kv_n_heads"}, groups);
    fields.Take(inner);
  }
  run.key_value_head_count = groups;
  if (run.head_size == 0 && run.hidden_size % run.attention_head_count != 0) {
    fields.Fail("num_attention_heads", absl::StrCat("must divide hidden_size ", run.hidden_size,
                                                    " unless head_dim is given"));
  }
  if (groups > 0 && run.attention_head_count % groups != 0) {
    fields.Fail(is_grouped ? "num_kv_heads" : "num_key_value_heads",
                absl::StrCat("must divide num_attention_heads ", run.attention_head_count));
  }
}

int HeadSize(const TransformerRunFacts& run) {
  return run.head_size > 0 ? run.head_size : run.hidden_size / run.attention_head_count;
}

int ReadFeedForwardSize(const FamilyTraits& traits, ConfigFields& fields, int hidden_size,
                        std::vector<std::string>* notes) {
  const int multiple = fields.Optional({"multiple_of"}, 256);
  const int size =
      fields.Optional({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, 0);
  if (size > 0) return size;
  if (traits.is_gated) {
    const int derived = GatedFeedForwardSize(hidden_size, multiple);
    notes->push_back(absl::StrCat("feed_forward_size ", derived,
                                  " follows Llama's rule; the config gives none"));
    return derived;
  }
  if (traits.model_type != "mpt") return FourTimes(hidden_size);
  const int64_t wide = int64_t{fields.Optional({"expansion_ratio"}, 4)} * hidden_size;
  return static_cast<int>(std::min<int64_t>(wide, kMaxImportCount));
}

// The experts of the layers that have some.
struct Experts {
  int count = 0;
  int per_token = 0;
  int size = 0;
  int shared_size = 0;
  int64_t extra_parameter_count = 0;
  // One per layer.
  std::vector<bool> in_layer;
};

int Product(int a, int b) {
  return static_cast<int>(std::min<int64_t>(int64_t{a} * b, kMaxImportCount));
}

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
  // Every n-th layer has experts; DeepSeek counts from the first layer, the others from the last
  // of each n.
  const int frequency = fields.Optional({"moe_layer_freq"}, 1);
  const int step = fields.Optional({"decoder_sparse_step", "interleave_moe_layer_step"}, 1);
  const std::vector<int> listed = fields.List("moe_layers", 0);
  const std::vector<int> dense = fields.List("mlp_only_layers", 0);
  for (int i = 0; i < layer_count; ++i) {
    if (i % frequency != 0 || (i + 1) % step != 0) experts.in_layer[i] = false;
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
      if (shared_count > 0 || shared_size > 0) {
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
  if (shared_count > 0 && shared_size == 0) shared_size = Product(shared_count, experts.size);
  if (traits.has_shared_expert && shared_size == 0) shared_size = experts.size;
  experts.shared_size = shared_size;
  // Qwen2-MoE weighs the shared expert by a gate of one output.
  if (traits.model_type == "qwen2_moe" && shared_size > 0) {
    experts.extra_parameter_count += run.hidden_size;
  }
  // GPT-OSS's router has a bias, and each head a sink.
  if (traits.model_type == "gpt_oss") experts.extra_parameter_count += experts.count;
  return experts;
}

// Reads which layers see a window only, and of how many tokens.
void ReadWindows(const FamilyTraits& traits, ConfigFields& fields, int layer_count,
                 ModelFacts& facts) {
  const int window = fields.Count({"sliding_window", "sliding_window_size"}, 0);
  const int chunk = fields.Count({"attention_chunk_size"}, 0);
  const bool is_used = fields.Flag({"use_sliding_window"}, traits.model_type != "qwen2" &&
                                                               traits.model_type != "qwen2_moe" &&
                                                               traits.model_type != "qwen3" &&
                                                               traits.model_type != "qwen3_moe" &&
                                                               traits.model_type != "smollm3");
  const int whole_below = fields.Count({"max_window_layers"}, 0);
  const int pattern = fields.Optional({"sliding_window_pattern", "_sliding_window_pattern"}, 0);
  const std::vector<std::string> types = fields.Texts("layer_types");
  // Layers without rotary positions, each with or without a window.
  for (const char* key : {"no_rope_layers", "no_rope_layer_interval"}) fields.MarkRead(key);
  facts.attention_window = std::max(window, chunk);
  if (!types.empty()) {
    if (static_cast<int>(types.size()) != layer_count) {
      fields.Fail("layer_types", absl::StrCat("must have an entry for each of the ", layer_count,
                                              " layers of num_hidden_layers"));
      return;
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "full_attention") continue;
      if (types[i] != "sliding_attention" && types[i] != "chunked_attention") {
        fields.Fail(absl::StrCat("layer_types[", i, "]"),
                    absl::StrCat("`", types[i],
                                 "` is a kind of layer that model.proto does not have; known are "
                                 "full_attention, sliding_attention and chunked_attention"));
        return;
      }
      ++facts.windowed_layer_count;
    }
    if (facts.windowed_layer_count > 0 && facts.attention_window == 0) {
      fields.Fail("sliding_window", "is required by layer_types");
    }
    return;
  }
  if (facts.attention_window == 0 || !is_used) return;
  int period = pattern;
  if (period == 0) {
    switch (traits.windowed_layers) {
      case WindowedLayers::kAll:
        break;
      case WindowedLayers::kAlternate:
        period = 2;
        break;
      case WindowedLayers::kAllButEveryFourth:
        period = 4;
        break;
      case WindowedLayers::kAllButEverySixth:
        period = 6;
        break;
    }
  }
  for (int i = 0; i < layer_count; ++i) {
    if (i >= whole_below && (period == 0 || (i + 1) % period != 0)) ++facts.windowed_layer_count;
  }
}

}  // namespace

int FourTimes(int hidden_size) {
  return hidden_size <= kMaxImportCount / 4 ? hidden_size * 4 : kMaxImportCount;
}

int64_t BiasCount(const TransformerRunFacts& run, int attention_count, bool query_key_value,
                  bool output, bool feed_forward) {
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  int64_t count = 0;
  if (query_key_value) {
    count += attention_count * (run.attention_head_count + 2 * groups) * HeadSize(run);
  }
  if (output) count += int64_t{attention_count} * run.hidden_size;
  if (!feed_forward) return count;
  const int64_t maps = run.feed_forward_kind == v1::FEED_FORWARD_KIND_SWIGLU ? 2 : 1;
  if (run.expert_count == 0) return count + maps * run.feed_forward_size + run.hidden_size;
  return count + run.expert_count * (maps * run.expert_feed_forward_size + run.hidden_size);
}

ModelFacts ReadTransformer(const FamilyTraits& traits, bool counts_all_parameters,
                           ConfigFields& fields, std::vector<std::string>* notes) {
  ModelFacts facts;
  RefuseOtherStructures(fields);

  TransformerRunFacts run;
  run.kind = traits.is_encoder ? v1::LAYER_KIND_ENCODER : v1::LAYER_KIND_DECODER;
  run.layer_count = fields.Size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  run.hidden_size = fields.Size({"hidden_size", "n_embd", "n_embed", "d_model", "dim"});
  if (run.layer_count > kMaxLayerCount) {
    fields.Fail("num_hidden_layers", absl::StrCat("must be at most ", kMaxLayerCount));
  }
  if (!fields.status().ok()) return facts;
  ReadHeads(traits, fields, run, notes);
  if (!fields.status().ok()) return facts;
  run.feed_forward_size = ReadFeedForwardSize(traits, fields, run.hidden_size, notes);
  run.feed_forward_kind =
      traits.is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  for (const char* key : {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                          "n_ctx", "max_sequence_length"}) {
    const int length = fields.Optional({key}, 0);
    if (run.sequence_length == 0) run.sequence_length = length;
  }
  if (run.sequence_length == 0) run.sequence_length = traits.sequence_length;

  // Llama-4 gives its dense layers a width of their own.
  const int dense_size = fields.Optional({"intermediate_size_mlp"}, 0);
  const Experts experts = ReadExperts(traits, fields, run, run.feed_forward_size);
  if (dense_size > 0) run.feed_forward_size = dense_size;
  ReadWindows(traits, fields, run.layer_count, facts);
  fields.Note("num_nextn_predict_layers",
              "layers that predict further tokens are left out, and their parameters", notes);

  // Biases: a field, where there is one, is about query, key, value and output.
  const bool has_bias = fields.Flag({"use_bias", "bias", "enable_bias", "add_bias_linear"},
                                    traits.has_feed_forward_bias);
  const bool states_bias = fields.Has("use_bias") || fields.Has("bias") ||
                           fields.Has("enable_bias") || fields.Has("add_bias_linear");
  bool query_key_value = states_bias ? has_bias : traits.has_query_key_value_bias;
  bool output = states_bias ? has_bias : traits.has_output_bias;
  if (fields.Has("attention_bias")) {
    query_key_value = fields.Flag({"attention_bias"}, false);
    // GLM's bias is of query, key and value alone.
    output = query_key_value && !absl::StartsWith(traits.model_type, "glm");
  }
  if (fields.Has("attention_out_bias")) output = fields.Flag({"attention_out_bias"}, false);
  query_key_value = fields.Flag({"use_qkv_bias", "qkv_bias", "add_qkv_bias"}, query_key_value);
  const bool feed_forward_bias = fields.Flag({"mlp_bias"}, has_bias);
  if (fields.Flag({"no_bias"}, true) == false) {
    query_key_value = true;
    output = true;
  }

  // Parallel attention saves an exchange, which is priced all the same.
  const bool is_parallel = fields.Flag({"parallel_attn", "use_parallel_residual"},
                                       traits.is_parallel || traits.model_type == "falcon");
  int norm_vectors = traits.norm_vector_count;
  if (traits.model_type == "falcon" && is_parallel &&
      !fields.Flag({"new_decoder_architecture"}, false)) {
    norm_vectors = 2;
  }
  if (is_parallel) {
    notes->push_back(
        "attention and feed-forward part are parallel: they need one exchange of tensor "
        "parallelism, two are priced");
  }
  const QueryKeyNorm query_key_norm =
      fields.Flag({"use_qk_norm", "qk_layernorm"}, false) && traits.model_type != "llama4_text"
          ? QueryKeyNorm::kHead
          : traits.query_key_norm;
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  const int64_t head_size = HeadSize(run);
  int64_t norms = int64_t{norm_vectors - 2} * run.hidden_size;
  if (query_key_norm == QueryKeyNorm::kHead) norms += 2 * head_size;
  if (query_key_norm == QueryKeyNorm::kAllHeads) {
    norms += (run.attention_head_count + groups) * head_size;
  }
  // GPT-OSS's sinks.
  if (traits.model_type == "gpt_oss") norms += run.attention_head_count;

  const auto count_parameters = [&](TransformerRunFacts& part) {
    if (!counts_all_parameters) return;
    part.extra_parameter_count =
        norms +
        BiasCount(part, 1, query_key_value, output,
                  feed_forward_bias && !(traits.model_type == "phimoe" && part.expert_count > 0));
    if (part.expert_count > 0) part.extra_parameter_count += experts.extra_parameter_count;
  };
  TransformerRunFacts mixture = run;
  mixture.expert_count = experts.count;
  mixture.experts_per_token = experts.per_token;
  mixture.expert_feed_forward_size = experts.size;
  mixture.shared_expert_feed_forward_size = experts.shared_size;
  mixture.feed_forward_size = 0;
  count_parameters(run);
  count_parameters(mixture);
  if (experts.count == 0) {
    facts.runs.push_back(run);
  } else {
    const bool has_both = std::find(experts.in_layer.begin(), experts.in_layer.end(), false) !=
                          experts.in_layer.end();
    for (size_t i = 0; i < experts.in_layer.size(); ++i) {
      TransformerRunFacts next = experts.in_layer[i] ? mixture : run;
      next.layer_count = 1;
      if (has_both) next.name = experts.in_layer[i] ? "decoder-experts" : "decoder-dense";
      if (i > 0 && experts.in_layer[i] == experts.in_layer[i - 1]) {
        ++facts.runs.back().layer_count;
      } else {
        facts.runs.push_back(next);
      }
    }
  }

  const bool has_head_bias = fields.Flag({"lm_head_bias"}, false);
  if (!counts_all_parameters) return facts;
  if (has_head_bias) facts.head_extra_parameter_count += fields.Optional({"vocab_size"}, 0);
  facts.head_extra_parameter_count += int64_t{traits.final_norm_vector_count - 1} * run.hidden_size;
  if (fields.Flag({"alibi"}, false)) {
    // Biases of scores instead of positions.
  } else if (fields.Flag({"learned_pos_emb"}, traits.has_position_table)) {
    facts.embedding_extra_parameter_count +=
        (int64_t{run.sequence_length} + traits.extra_position_count) * run.hidden_size;
  }
  if (traits.model_type == "bloom") facts.embedding_extra_parameter_count += 2 * run.hidden_size;
  if (traits.is_encoder) {
    // Types of tokens, and a norm behind the embedding. The head of masked words: a matrix, a norm.
    facts.embedding_extra_parameter_count +=
        (int64_t{fields.Count({"type_vocab_size"}, 2)} + 2) * run.hidden_size;
    facts.head_extra_parameter_count =
        int64_t{run.hidden_size} * run.hidden_size + 2 * int64_t{run.hidden_size};
  }
  return facts;
}

}  // namespace parplan
