#include "clients/calibrate/plain_model.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "clients/calibrate/known_models.h"
#include "clients/import/named_text.h"

namespace parplan::accuracy {
namespace {

// Families of architectures by the names rows give them.
struct Architecture {
  absl::string_view word;
  FeedForwardKind feed_forward_kind;
  bool tied_embedding;
  bool learned_positions;
};
constexpr Architecture kArchitectures[] = {
    {"gpt", FeedForwardKind::kGelu, true, true},
    {"opt", FeedForwardKind::kGelu, true, true},
    {"bert", FeedForwardKind::kGelu, true, true},
    {"mpt", FeedForwardKind::kGelu, true, false},
    {"bloom", FeedForwardKind::kGelu, true, false},
    {"llama", FeedForwardKind::kSwiglu, false, false},
    {"mistral", FeedForwardKind::kSwiglu, false, false},
    {"mixtral", FeedForwardKind::kSwiglu, false, false},
    {"qwen", FeedForwardKind::kSwiglu, false, false},
    {"moe", FeedForwardKind::kSwiglu, false, false},
    {"nemotron", FeedForwardKind::kGelu, false, false},
};

void ReadFeedForward(const RowFields& fields, PublishedModel* model) {
  if (const auto gated = fields.Flag({"swiglu", "gated"})) {
    model->feed_forward_kind = *gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  }
  if (const auto name = fields.Text({"activation", "mlp", "act"})) {
    const std::string lower = absl::AsciiStrToLower(*name);
    const bool gated = absl::StrContains(lower, "glu") || lower == "silu" || lower == "gated";
    model->feed_forward_kind = gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  }
  if (const auto width = fields.Count(
          {"ffn", "ffn_hidden", "ffn_hidden_size", "intermediate", "intermediate_size", "d_ff"},
          1)) {
    model->feed_forward_size = *width;
  } else if (model->feed_forward_size == 0 && model->feed_forward_kind == FeedForwardKind::kGelu) {
    model->feed_forward_size = 4 * model->hidden_size;
  }
}

void ReadExperts(const RowFields& fields, PublishedModel* model) {
  model->expert_count = fields.Count({"experts", "num_experts", "n_experts", "moe_experts"}, 0)
                            .value_or(model->expert_count);
  if (model->expert_count > 0) {
    const RowFields::Names names = {"top_k", "topk", "moe_topk", "moe_top_k", "experts_per_token"};
    if (model->experts_per_token == 0 || fields.Has(names)) {
      model->experts_per_token = fields.RequiredCount(names);
    }
    model->expert_feed_forward_size =
        fields
            .Count({"moe_ffn", "expert_ffn", "moe_ffn_hidden", "moe_ffn_hidden_size",
                    "expert_ffn_hidden", "moe_intermediate"},
                   1)
            .value_or(model->feed_forward_size);
    model->shared_expert_feed_forward_size =
        fields.Count({"shared_expert_ffn", "moe_shared_ffn", "shared_ffn"}, 0).value_or(0);
    model->expert_latent_size = fields.Count({"moe_latent", "moe_latent_size"}, 0).value_or(0);
    model->dense_layer_count =
        fields.Count({"dense_layers", "first_dense_layers", "first_k_dense"}, 0).value_or(0);
    model->expert_layer_interval = fields.Count({"moe_layer_freq", "moe_interval"}, 1).value_or(1);
  }
  // Every layer has experts only, or there is a width for the others.
  const bool dense_layers =
      model->expert_count == 0 || model->dense_layer_count > 0 || model->expert_layer_interval > 1;
  const int width = dense_layers ? model->feed_forward_size : model->expert_feed_forward_size;
  if (width == 0) fields.Fault(dense_layers ? "ffn" : "moe_ffn", "is missing");
}

// Reads multi-head latent attention, whose queries have a part without and a part with position.
void ReadLatentAttention(const RowFields& fields, PublishedModel* model) {
  if (!fields.Flag({"mla", "multi_latent_attention"}).value_or(false)) return;
  LatentAttention latent;
  latent.query_rank = fields.Count({"q_lora_rank"}, 0).value_or(0);
  latent.key_value_rank = fields.RequiredCount({"kv_lora_rank"});
  latent.rotary_head_size = fields.RequiredCount({"qk_rope_head_dim"});
  latent.value_head_size = fields.RequiredCount({"v_head_dim"});
  model->head_size = fields.RequiredCount({"qk_nope_head_dim"}) + latent.rotary_head_size;
  model->latent_attention = latent;
}

// Reads the layers of a hybrid, of which each is one letter of `layer_pattern`.
void ReadPattern(const RowFields& fields, PublishedRun* run) {
  PublishedModel& model = run->model;
  const std::string pattern = fields.Text({"layer_pattern"}).value_or("");
  if (pattern.empty()) {
    run->beyond.push_back("the order of a hybrid's layers is not said");
    return;
  }
  if (pattern.find_first_not_of("M*E-") != std::string::npos) {
    fields.Fault("layer_pattern", "must consist of `M`, `*`, `E` and `-`");
    return;
  }
  model.layer_pattern = pattern;
  model.layer_count = static_cast<int>(pattern.size());
  if (!absl::StrContains(pattern, 'M')) return;
  StateSpace space;
  space.kind = StateSpaceKind::kDual;
  space.head_count = fields.RequiredCount({"mamba_heads"});
  space.inner_size = CappedProduct(space.head_count, fields.RequiredCount({"mamba_head_dim"}));
  space.group_count = fields.RequiredCount({"mamba_groups"});
  space.state_size = fields.RequiredCount({"mamba_state_dim"});
  // Megatron Core's (ssm/mamba_mixer.py, d_conv and chunk_size).
  space.convolution_width = 4;
  space.chunk_size = 128;
  model.state_space = space;
}

}  // namespace

void ReadPlainModel(const RowFields& fields, const std::string& architecture, PublishedRun* run) {
  PublishedModel& model = run->model;
  const std::string lower = absl::AsciiStrToLower(absl::StrCat(architecture, " ", model.name));
  // The word that stands first: the architecture's, and not one that a name happens to have within.
  size_t first = std::string::npos;
  for (const Architecture& known : kArchitectures) {
    const size_t place = absl::string_view(lower).find(known.word);
    if (place >= first) continue;
    first = place;
    model.feed_forward_kind = known.feed_forward_kind;
    model.tied_embedding = known.tied_embedding;
    model.learned_positions = known.learned_positions;
  }
  model.encoder = absl::StrContains(lower, "bert");
  // T5 and mT5, but no GPT of five hundred billion parameters.
  if (absl::StrContains(absl::StrReplaceAll(lower, {{"gpt", ""}}), "t5")) {
    run->beyond.push_back("encoder-decoder models are not read");
  }
  const bool is_hybrid = absl::StrContains(lower, "mamba") || absl::StrContains(lower, "hybrid") ||
                         absl::StrContains(lower, "nemotron-h") ||
                         absl::StrContains(lower, "nemotron_h");
  FillKnownModel(model.name, &model);
  if (is_hybrid) ReadPattern(fields, run);
  const auto require = [&fields](RowFields::Names names, int* size) {
    if (*size == 0 || fields.Has(names)) *size = fields.RequiredCount(names);
  };
  require({"layers", "num_layers", "n_layers"}, &model.layer_count);
  if (!model.layer_pattern.empty()) {
    model.layer_count = static_cast<int>(model.layer_pattern.size());
  }
  require({"hidden", "hidden_size", "d_model"}, &model.hidden_size);
  require({"heads", "num_heads", "n_heads", "num_attention_heads"}, &model.attention_head_count);
  require({"seq", "seq_len", "seq_length", "sequence_length", "max_seq_len"},
          &model.sequence_length);
  require({"vocab", "vocab_size", "vocabulary"}, &model.vocabulary_size);
  model.key_value_head_count =
      fields
          .Count({"kv_heads", "num_kv_heads", "n_kv_heads", "num_query_groups", "query_groups",
                  "gqa_groups", "num_key_value_heads"},
                 1)
          .value_or(model.key_value_head_count);
  model.head_size = fields.Count({"head_dim", "head_size", "kv_channels", "kv_dim"}, 1).value_or(0);
  ReadLatentAttention(fields, &model);
  model.prediction_layer_count = fields.Count({"mtp_layers"}, 0).value_or(0);
  if (model.prediction_layer_count > 0 && !model.layer_pattern.empty()) {
    const std::string parts = fields.Text({"mtp_pattern"}).value_or("");
    model.prediction_has_experts = parts == "*E";
    if (parts.empty()) {
      run->beyond.push_back(
          "the parts of a hybrid's layers that predict further tokens are not said");
    } else if (parts != "*E" && parts != "*-") {
      run->beyond.push_back(absl::StrCat("layers that predict further tokens of parts `", parts,
                                         "` are not modelled"));
    }
    model.predictions_share_weights =
        fields.Flag({"mtp_shared"}).value_or(false) && model.prediction_layer_count > 1;
  }
  model.attention_window = fields.Count({"window_size"}, 1).value_or(0);
  model.window_interval = fields.Count({"window_every"}, 1).value_or(1);
  if (const auto tied =
          fields.Flag({"tied", "tied_embedding", "tied_embeddings", "tie_embeddings",
                       "tie_word_embeddings", "share_embeddings_and_output_weights"})) {
    model.tied_embedding = *tied;
  }
  if (const auto untied = fields.Flag({"untied", "untie", "untie_embeddings"})) {
    model.tied_embedding = !*untied;
  }
  if (const auto positions = fields.Text({"pos", "positions", "position_embedding"})) {
    model.learned_positions = absl::StrContains(*positions, "learned");
  }
  ReadFeedForward(fields, &model);
  ReadExperts(fields, &model);
}

}  // namespace parplan::accuracy
