#include "clients/import/attention_config.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "clients/import/compressed_attention.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Names of fields that say the same.
constexpr std::initializer_list<const char*> kHeadCounts = {
    "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"};
// The last one is Megatron's.
constexpr std::initializer_list<const char*> kHeadSizes = {"head_dim", "attention_head_dim",
                                                           "attention_head_size", "kv_channels"};
constexpr std::initializer_list<const char*> kGroupCounts = {
    "num_key_value_heads", "n_kv_heads", "multi_query_group_num", "num_attention_groups"};
constexpr std::initializer_list<const char*> kGroupCountsOfFalcon = {"num_kv_heads", "n_head_kv"};

// Reads multi-head latent attention, if the file has it. The size of a head becomes that of a key.
void ReadLatentAttention(const FamilyTraits& traits, ConfigFields& fields, TransformerRunFacts& run,
                         std::vector<std::string>* notes) {
  const int key_value_rank = fields.Count({"kv_lora_rank"}, 0);
  // DeepSeek-V4's narrow queries stand beside one key (compressed_attention.h).
  if (key_value_rank == 0 && HasCompressedAttention(traits)) return;
  if (key_value_rank == 0) {
    for (const char* key : {"q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
      // MiMo's values are narrower than its keys without latent attention (layer_variants.h).
      if (traits.model_type == "mimo_v2_flash" && key == absl::string_view("v_head_dim")) continue;
      fields.Refuse(key, "is of multi-head latent attention and needs kv_lora_rank");
    }
    return;
  }
  LatentAttention latent;
  latent.key_value_rank = key_value_rank;
  latent.query_rank = fields.Count({"q_lora_rank"}, 0);
  if (traits.defaults.query_rank > 0 && fields.IsAbsent({"q_lora_rank"})) {
    latent.query_rank = traits.defaults.query_rank;
    notes->push_back(DefaultNote("q_lora_rank", latent.query_rank, traits.model_type));
  }
  latent.rotary_head_size = fields.Size({"qk_rope_head_dim"});
  latent.value_head_size = fields.Optional({"v_head_dim"}, 0);
  if (latent.value_head_size == 0 && traits.value_heads_share_width) {
    latent.value_head_size = run.hidden_size / run.attention_head_count;
    notes->push_back(absl::StrCat("v_head_dim ", latent.value_head_size,
                                  " is hidden_size over the number of heads; the config gives "
                                  "none"));
  }
  if (latent.value_head_size == 0) latent.value_head_size = fields.Size({"v_head_dim"});
  const int key_size = fields.Size({"qk_nope_head_dim"});
  const int whole = fields.Optional({"qk_head_dim"}, 0);
  run.head_size = key_size + latent.rotary_head_size;
  if (whole > 0 && whole != run.head_size) {
    fields.Fail(
        "qk_head_dim",
        absl::StrCat("must be qk_nope_head_dim and qk_rope_head_dim together, ", run.head_size));
  }
  // All heads have keys and values of their own, whatever the number of key-value heads says.
  run.key_value_head_count = run.attention_head_count;
  run.latent_attention = latent;
}

// Returns the size of a head; 0 if no field and no family says it. Names of Megatron and DeBERTa
// that stand alone must say the width over the number of heads: another size is of another
// structure, such as the experts of JetMoE's attention. ChatGLM has all names of Megatron.
int ReadHeadSize(const FamilyTraits& traits, ConfigFields& fields, const TransformerRunFacts& run,
                 std::vector<std::string>* notes) {
  int of_class = traits.head_size;
  if (of_class == 0 && fields.IsAbsent(kHeadSizes)) of_class = traits.defaults.head_size;
  const int size = fields.Optional(kHeadSizes, of_class);
  const bool stands_alone = !fields.Has("head_dim") && !fields.Has("attention_head_dim") &&
                            !fields.Has("ffn_hidden_size") && traits.model_type != "jetmoe";
  const int derived = run.hidden_size / run.attention_head_count;
  for (const char* key : {"attention_head_size", "kv_channels"}) {
    if (stands_alone && fields.Has(key) && size != derived) {
      fields.Fail(key, absl::StrCat("must be the width over the number of heads, ", derived,
                                    ", unless head_dim says the same"));
    }
  }
  // Sizes of latent attention take the place of this one.
  const bool is_latent = fields.Has("kv_lora_rank") || HasCompressedAttention(traits);
  if (size > 0 && size != derived && !is_latent && !fields.Has(fields.Given(kHeadSizes))) {
    notes->push_back(DefaultNote("head_dim", size, traits.model_type));
  }
  return size;
}

// Returns the key-value heads that MPT's and DBRX's object of attention says, else `groups`.
int ReadNestedGroups(ConfigFields& fields, int groups, std::vector<std::string>* notes) {
  const nlohmann::json* const attention = fields.Object("attn_config");
  if (attention == nullptr) return groups;
  ConfigFields inner(*attention, fields.file_name(), "attn_config.");
  const std::string type = inner.Text("attn_type");
  groups = inner.Optional({"kv_n_heads"}, type == "multiquery_attention" ? 1 : groups);
  inner.Refuse("qk_ln", "is of norms as wide as all heads, which are not supported here");
  for (const char* key : {"alibi", "alibi_bias_max", "attn_impl", "attn_uses_sequence_id",
                          "prefix_lm", "softmax_scale"}) {
    inner.MarkRead(key);
  }
  inner.RefuseWhatIsUnknown(notes);
  fields.Take(inner);
  return groups;
}

// Returns the key-value heads of a file that gives none, with a note; 0, without one, for families
// that have no such number and for structures that say it otherwise.
int DefaultGroups(const FamilyTraits& traits, const ConfigFields& fields,
                  const TransformerRunFacts& run, std::vector<std::string>* notes) {
  const int of_class = traits.defaults.key_value_head_count;
  const bool says_otherwise = fields.Has("kv_lora_rank") || HasCompressedAttention(traits) ||
                              fields.Has("num_key_value_heads_per_layer") ||
                              fields.Has("block_configs");
  if (of_class == 0 || says_otherwise) return 0;
  if (of_class != kAsManyAsHeads && fields.IsAbsent({"num_key_value_heads"})) {
    notes->push_back(DefaultNote("num_key_value_heads", of_class, traits.model_type));
    return of_class;
  }
  const bool is_known = !traits.defaults.model_type.empty();
  notes->push_back(absl::StrCat(
      "num_key_value_heads is ", fields.IsAbsent({"num_key_value_heads"}) ? "absent" : "null",
      "; taken as num_attention_heads, ", run.attention_head_count,
      is_known ? absl::StrCat(", the default of ", traits.model_type)
               : absl::StrCat(", since the default of `", traits.model_type, "` is not known")));
  return 0;
}

// Returns the heads of JetMoE, which has as many for each expert of a token as there are key-value
// heads.
int HeadsOfChosenExperts(ConfigFields& fields) {
  const int groups = fields.Size({"num_key_value_heads"});
  const int chosen = fields.Size({"num_experts_per_tok", "moe_top_k"});
  const int heads = CappedProduct(groups, chosen);
  if (fields.Optional({"num_attention_heads"}, heads) != heads) {
    fields.Fail("num_attention_heads",
                absl::StrCat("must be num_key_value_heads times the experts of a token, ", heads));
  }
  return heads;
}

}  // namespace

void ReadHeads(const FamilyTraits& traits, ConfigFields& fields, TransformerRunFacts& run,
               std::vector<std::string>* notes) {
  run.attention_head_count = fields.Optional(kHeadCounts, traits.attention_head_count);
  // OpenELM's lists (layer_lists.h) begin with the heads of the first layer.
  const bool are_listed = fields.IsList("num_query_heads");
  if (are_listed) {
    const std::vector<int> heads = fields.List("num_query_heads", 1);
    if (!heads.empty()) run.attention_head_count = heads.front();
  }
  if (traits.model_type == "jetmoe") {
    run.attention_head_count = HeadsOfChosenExperts(fields);
  }
  if (run.attention_head_count == 0) {
    run.attention_head_count = fields.Size({"num_attention_heads"});
  } else if (traits.attention_head_count > 0 && !fields.Has("num_attention_heads")) {
    notes->push_back(absl::StrCat("num_attention_heads ", run.attention_head_count,
                                  " is the default of ", traits.model_type,
                                  "; the config gives none"));
  }
  run.head_size = ReadHeadSize(traits, fields, run, notes);
  int groups = fields.Optional(kGroupCounts, 0);
  // Megatron's name, for which 0 stands for none.
  if (const int query_groups = fields.Count({"num_query_groups"}, 0); query_groups > 0) {
    const char* const other = fields.Given(kGroupCounts);
    if (fields.Has(other) && groups != query_groups) {
      fields.Fail("num_query_groups", absl::StrCat("contradicts ", other, ", which says ", groups));
    }
    groups = query_groups;
  }
  // Falcon's two architectures, and GPT-BigCode.
  const bool is_falcon = IsFalcon(traits);
  const bool is_grouped = fields.Flag({"new_decoder_architecture"}, IsLaterFalcon(traits));
  const bool is_usually_multi_query = is_falcon || traits.model_type == "gpt_bigcode";
  const bool is_multi_query = fields.Flag({"multi_query"}, is_usually_multi_query);
  if (is_usually_multi_query && !is_grouped && fields.IsAbsent({"multi_query"})) {
    notes->push_back(absl::StrCat("multi_query is absent; taken as true, the default of ",
                                  traits.model_type, ": all heads share keys and values"));
  }
  // ChatGLM's flag only says that `multi_query_group_num` counts.
  if (!fields.Flag({"multi_query_attention"}, true)) groups = 0;
  const int falcon_groups = are_listed ? 0 : fields.Optional(kGroupCountsOfFalcon, 0);
  if (is_grouped) {
    groups = falcon_groups;
  } else if (is_multi_query) {
    groups = 1;
  }
  const char* groups_field = fields.Given(is_grouped ? kGroupCountsOfFalcon : kGroupCounts);
  const int outer_groups = groups;
  groups = ReadNestedGroups(fields, groups, notes);
  if (groups != outer_groups) groups_field = "attn_config.kv_n_heads";
  int of_class = 0;
  if (groups == 0 && !are_listed) of_class = DefaultGroups(traits, fields, run, notes);
  if (of_class > 0) groups = of_class;
  run.key_value_head_count = groups;
  ReadLatentAttention(traits, fields, run, notes);
  groups = run.key_value_head_count;
  if (run.head_size == 0 && run.hidden_size % run.attention_head_count != 0) {
    fields.Fail(fields.Given(kHeadCounts), absl::StrCat("must divide hidden_size ", run.hidden_size,
                                                        " unless head_dim is given"));
  }
  if (int64_t{run.attention_head_count} * HeadSize(run) > kMaxImportCount) {
    fields.Fail(fields.Given(kHeadSizes),
                absl::StrCat("times the number of heads must be at most ", kMaxImportCount));
  }
  if (groups > 0 && run.attention_head_count % groups != 0) {
    fields.Fail(
        groups_field,
        absl::StrCat(of_class > 0 ? absl::StrCat("is absent, and ", of_class, " by default; ") : "",
                     "must divide the number of heads ", run.attention_head_count));
  }
}

int64_t ReadIndexer(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<std::string>* notes) {
  // One of blocks of tokens is in some layers alone (layer_lists.h).
  // One of compressed keys is too (compressed_attention.h).
  if (fields.Has("index_topk_blocks") || HasCompressedAttention(traits)) return 0;
  const int head_count = fields.Count({"index_n_heads"}, 0);
  if (head_count == 0) return 0;
  const int64_t head_size = fields.Size({"index_head_dim"});
  const int chosen = fields.Size({"index_topk"});
  // Layers that share one have none (layer_lists.h).
  fields.MarkRead("indexer_types");
  if (!run.latent_attention.has_value() || run.latent_attention->query_rank == 0) {
    fields.Fail("index_n_heads", "needs latent attention with q_lora_rank");
    return 0;
  }
  notes->push_back(absl::StrCat("index_topk ", chosen,
                                ": attention is priced over all tokens, and what chooses them "
                                "counts as parameters alone"));
  const int64_t width = CappedProduct(head_count, static_cast<int>(head_size));
  // Queries from their compressed vector, one key with a norm, and a weight of each head.
  return run.latent_attention->query_rank * width + run.hidden_size * (head_size + head_count) +
         2 * head_size;
}

int HeadSize(const TransformerRunFacts& run) {
  return run.head_size > 0 ? run.head_size : run.hidden_size / run.attention_head_count;
}

}  // namespace parplan
