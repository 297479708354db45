#include "clients/import/family_layers.h"

#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/compressed_attention.h"
#include "clients/import/named_text.h"
#include "clients/import/state_space_config.h"

namespace parplan {
namespace {

// Layers of a group in Ling's classes if no field says so: those of Ling 3, and of Ling 2.5.
int DefaultGroup(const FamilyTraits& traits, const ConfigFields& fields) {
  if (!IsLing(traits)) return 0;
  return HasFixedDecays(traits, fields) ? 5 : 6;
}

// Step3's queries pass through a narrow vector with a norm (multi-matrix factorisation attention,
// arXiv 2507.19427).
int64_t NarrowQueries(ConfigFields& fields, const TransformerRunFacts& run,
                      std::vector<std::string>* notes) {
  // How the router weighs experts.
  for (const char* key : {"moe_router_activation", "norm_expert_weight"}) fields.MarkRead(key);
  if (fields.Has("moe_num_experts") && !fields.Has("moe_layers_enum")) {
    fields.Fail("moe_layers_enum", "is required: it says which layers have experts");
  }
  const int64_t rank = fields.Count({"share_q_dim"}, 0);
  if (rank == 0) return 0;
  const int64_t width = int64_t{run.attention_head_count} * HeadSize(run);
  const int64_t extra = rank * (run.hidden_size + width) + rank - run.hidden_size * width;
  notes->push_back(absl::StrCat(
      "share_q_dim ", rank,
      ": the counts of parameters are those of such queries, and time "
      "and memory are those of one matrix",
      extra < 0 ? absl::StrCat(", of ", -extra, " more in each layer") : std::string()));
  return extra;
}

// Doge's attention masks keys by a number of each key-value head that follows from the values.
int64_t DynamicMask(ConfigFields& fields, const TransformerRunFacts& run,
                    std::vector<std::string>* notes) {
  // That of the class.
  constexpr int kKeptTokens = 2048;
  const int kept = fields.Count({"keep_window_size"}, kKeptTokens);
  notes->push_back(absl::StrCat("keep_window_size ", kept,
                                ": attention is priced over all tokens, and what chooses them "
                                "counts as parameters alone"));
  // Sizes of experts that the model has only with `is_moe`, by their names of either release.
  for (const char* key : {"num_cdmoe_experts", "num_cdmoe_heads", "num_cdmoe_experts_per_head",
                          "expert_retrieval_size", "num_experts", "num_experts_per_tok"}) {
    fields.MarkRead(key);
  }
  fields.Refuse("is_moe", "is of experts of one vector each, which have no run here");
  const int64_t groups =
      run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
  return groups * groups * HeadSize(run) + groups;
}

// JetMoE's attention chooses among matrices of queries and of its output as its feed-forward part
// chooses among experts, with a router and a bias of its own.
int64_t AttentionExperts(ConfigFields& fields, const TransformerRunFacts& run,
                         std::vector<std::string>* notes) {
  const int64_t experts = fields.Size({"num_local_experts", "moe_num_experts"});
  const int64_t hidden = run.hidden_size;
  const int64_t width = int64_t{run.key_value_head_count} * HeadSize(run);
  if (width > kMaxImportCount / experts) {
    fields.Fail(fields.Given({"num_local_experts", "moe_num_experts"}),
                absl::StrCat("times the width ", width, " of the heads of one must be at most ",
                             kMaxImportCount));
    return 0;
  }
  const int64_t counted = int64_t{run.attention_head_count} * HeadSize(run);
  notes->push_back(absl::StrCat(
      "attention has ", experts,
      " experts: their matrices count as parameters of the layer, and the products of those that a "
      "token chooses are priced"));
  // Both parts have a bias each, and attention has matrices and a router.
  return 2 * hidden * (experts * width - counted) + experts * hidden + 2 * hidden;
}

// A.X K2 makes queries and a gate of attention's output of twice the narrow vector, and its norms
// before attention have a gate behind narrow vectors.
int64_t GatedQueries(ConfigFields& fields, const TransformerRunFacts& run,
                     std::vector<std::string>* notes) {
  if (!run.latent_attention.has_value() || run.latent_attention->query_rank == 0) {
    fields.Fail("q_lora_rank", "is required: queries of this family pass a narrow vector");
    return 0;
  }
  const LatentAttention& latent = *run.latent_attention;
  const int64_t heads = run.attention_head_count;
  const int64_t gate_rank = fields.Count({"gated_norm_rank"}, 0);
  notes->push_back(
      "the gates of norms and of attention's output count as parameters of their layers; their "
      "time is not priced");
  return latent.query_rank * heads *
             (int64_t{run.head_size} + int64_t{2} * latent.value_head_size) +
         int64_t{2} * run.hidden_size * gate_rank;
}

}  // namespace

std::vector<std::string> LayersOfFamily(const FamilyTraits& traits, ConfigFields& fields,
                                        int layer_count) {
  std::vector<std::string> names;
  if (traits.model_type == "minimax" && fields.Text("model_type") != "minimax") {
    fields.Fail("attn_type_list", "is required: it says which layers have linear attention");
    return names;
  }
  const bool is_cohere = traits.model_type == "cohere2_moe";
  const int dense_first = is_cohere ? fields.Count({"first_k_dense_replace"}, 0) : 0;
  const int prefix_period =
      is_cohere ? fields.Optional({"prefix_dense_sliding_window_pattern"}, 1) : 1;
  const int period = is_cohere ? fields.Optional({"sliding_window_pattern"}, 4) : 1;
  // Ling: the last layer of each group has attention. Classes differ about an incomplete group, in
  // which Ling 2.5 has attention alone.
  const bool is_incomplete_full = IsLing(traits) && HasFixedDecays(traits, fields);
  const int group = fields.Optional({"layer_group_size"}, DefaultGroup(traits, fields));
  const int grouped = group > 0 ? layer_count / group * group : 0;
  if (grouped < layer_count && group > 0 && !is_incomplete_full) {
    fields.Fail("layer_group_size",
                absl::StrCat("must divide the number of layers ", layer_count,
                             "; give layer_types where the last group is incomplete"));
    return names;
  }
  if (HasCompressedAttention(traits)) return NamesByCompression(fields, layer_count);
  for (int i = 0; i < layer_count; ++i) {
    if (traits.model_type == "mimo_v2_flash") {
      const bool is_full = i == 0 || (i + 1) % 6 == 0;
      names.emplace_back(is_full ? "full_attention" : "sliding_attention");
    } else if (traits.model_type == "step3p5") {
      // Whatever `sliding_window` says.
      names.emplace_back("full_attention");
    } else if (traits.model_type == "lfm3" && fields.Has("conv_L_cache")) {
      names.emplace_back(i % 4 == 2            ? "full_attention"
                         : i % 4 == 0 && i > 0 ? "sliding_attention"
                                               : "conv");
    } else if (traits.model_type == "minimax") {
      names.emplace_back(i % 2 == 0 ? "full_attention" : "linear_attention");
    } else if (traits.model_type == "recurrent_gemma") {
      names.emplace_back(i % 3 == 2 ? "attention" : "recurrent");
    } else if (traits.model_type == "cohere2_moe") {
      // The first dense layers have a period of their own.
      const bool is_prefix = i < dense_first;
      const int place = is_prefix ? i + 1 : i - dense_first + 1;
      const bool is_full = place % (is_prefix ? prefix_period : period) == 0;
      names.emplace_back(is_full ? "full_attention" : "sliding_attention");
    } else if (group > 0) {
      const bool is_full = (i + 1) % group == 0 || i >= grouped;
      names.emplace_back(is_full ? "full_attention" : "linear_attention");
    }
  }
  return names;
}

int ReadWindow(const FamilyTraits& traits, ConfigFields& fields) {
  if (traits.model_type == "mimo_v2_flash") {
    // The class counts the token itself, and `sliding_window_size` only those before it. Files that
    // it saves have both.
    constexpr int kWindow = 129;
    const int before = fields.Count({"sliding_window_size"}, kWindow - 1);
    if (!fields.Has("sliding_window_size")) return fields.Count({"sliding_window"}, kWindow);
    fields.MarkRead("sliding_window");
    return before + 1;
  }
  int otherwise = 0;
  if (traits.model_type == "recurrent_gemma") otherwise = 2048;
  if (traits.model_type == "cohere2_moe") otherwise = 4096;
  if (HasCompressedAttention(traits)) otherwise = 128;
  return fields.Count({"sliding_window", "sliding_window_size", "attention_window_size"},
                      otherwise);
}

int CountPairedLayers(const FamilyTraits& traits, ConfigFields& fields,
                      std::vector<std::string>* notes) {
  if (traits.model_type != "longcat_flash" || !fields.Has("num_layers")) return 0;
  const int pairs = fields.Size({"num_layers"});
  const int count = CappedProduct(2, pairs);
  if (fields.Optional({"num_hidden_layers"}, count) != count) {
    fields.Fail("num_hidden_layers", absl::StrCat("must be twice num_layers, ", count));
  }
  for (const char* key : {"attention_method", "mla_scale_q_lora", "mla_scale_kv_lora"}) {
    fields.MarkRead(key);
  }
  notes->push_back(absl::StrCat(
      "num_layers ", pairs,
      ": each is two layers here, the first with experts beside its dense "
      "part; what the experts give is added behind the second one, which is not priced"));
  return count;
}

int64_t FamilyParameterCount(const FamilyTraits& traits, ConfigFields& fields,
                             const TransformerRunFacts& run, std::vector<std::string>* notes) {
  if (traits.model_type == "step3_text") return NarrowQueries(fields, run, notes);
  if (traits.model_type == "doge") return DynamicMask(fields, run, notes);
  if (traits.model_type == "jetmoe") return AttentionExperts(fields, run, notes);
  if (IsLing(traits) && HasChannelDecays(fields)) {
    notes->push_back(
        "the gate of each head of attention counts as parameters of its layers; its time is not "
        "priced");
    return int64_t{run.hidden_size} * run.attention_head_count;
  }
  if (traits.model_type == "axk2") return GatedQueries(fields, run, notes);
  if (traits.model_type != "bitnet") return 0;
  notes->push_back("bitnet: the layers are priced in the precision of the model, not in 1.58 bits");
  return int64_t{run.attention_head_count} * HeadSize(run) + fields.Size({"intermediate_size"});
}

}  // namespace parplan
