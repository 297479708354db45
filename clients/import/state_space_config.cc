#include "clients/import/state_space_config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/import/named_text.h"
#include "planner/model/layer_matrices.h"

namespace parplan {
namespace {

// Reads sizes and remembers those that are defaults.
class Sizes {
 public:
  explicit Sizes(ConfigFields& fields) : fields_(fields) {}

  int Of(std::initializer_list<const char*> keys, int otherwise) {
    const int given = fields_.Optional(keys, 0);
    if (given > 0) return given;
    defaults_.push_back(absl::StrCat(*keys.begin(), " ", otherwise));
    return otherwise;
  }

  void NoteDefaults(std::vector<std::string>* notes) const {
    if (defaults_.empty()) return;
    notes->push_back(absl::StrCat("defaults of Mamba, which the config does not give: ",
                                  absl::StrJoin(defaults_, ", ")));
  }

 private:
  ConfigFields& fields_;
  std::vector<std::string> defaults_;
};

// A number, or the text `auto`, for which 0 is returned.
int NumberOrAuto(ConfigFields& fields, const char* key) {
  if (fields.IsText(key)) {
    if (fields.Text(key) != "auto") fields.Fail(key, "must be a whole number or `auto`");
    return 0;
  }
  return fields.Optional({key}, 0);
}

StateSpace GatedDelta(ConfigFields& fields) {
  StateSpace space = {.kind = StateSpaceKind::kGatedDelta};
  space.head_count = fields.Size({"linear_num_value_heads"});
  space.group_count = fields.Size({"linear_num_key_heads"});
  space.state_size = fields.Size({"linear_key_head_dim"});
  space.inner_size = CappedProduct(space.head_count, fields.Size({"linear_value_head_dim"}));
  space.convolution_width = fields.Size({"linear_conv_kernel_dim"});
  // The chunk of the published kernels (flash-linear-attention).
  space.chunk_size = 64;
  return space;
}

// Kimi Linear's sizes, which its own files have in an object.
struct ChannelDecaySizes {
  int head_count = 0;
  int head_size = 0;
  int convolution_width = 0;
};

ChannelDecaySizes ReadChannelDecaySizes(ConfigFields& fields, std::vector<std::string>* notes) {
  const nlohmann::json* const nested = fields.Object("linear_attn_config");
  if (nested == nullptr) {
    return {.head_count = fields.Size({"linear_num_heads"}),
            .head_size = fields.Size({"linear_head_dim"}),
            .convolution_width = fields.Size({"linear_conv_kernel_dim"})};
  }
  for (const char* key : {"linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"}) {
    fields.MarkRead(key);
  }
  ConfigFields inner(*nested, fields.file_name(), "linear_attn_config.");
  const ChannelDecaySizes sizes = {.head_count = inner.Size({"num_heads"}),
                                   .head_size = inner.Size({"head_dim"}),
                                   .convolution_width = inner.Size({"short_conv_kernel_size"})};
  // Lists of the layers that have it (layer_layout.h).
  for (const char* key : {"full_attn_layers", "kda_layers"}) inner.MarkRead(key);
  inner.RefuseWhatIsUnknown(notes);
  fields.Take(inner);
  return sizes;
}

// Reads the gated delta rule with a decay of each channel (Kimi Delta Attention, arXiv 2510.26692).
// Its decays and its gate are products of two narrow matrices, where Qwen's gate is one matrix and
// its decays are one number a head.
StateSpaceFacts GatedDeltaByChannel(int hidden_size, ConfigFields& fields,
                                    std::vector<std::string>* notes) {
  const ChannelDecaySizes sizes = ReadChannelDecaySizes(fields, notes);
  const int64_t inner = CappedProduct(sizes.head_count, sizes.head_size);
  StateSpaceFacts facts;
  facts.space = {.kind = StateSpaceKind::kGatedDelta,
                 .inner_size = static_cast<int>(inner),
                 .state_size = sizes.head_size,
                 .head_count = sizes.head_count,
                 .group_count = sizes.head_count,
                 .convolution_width = sizes.convolution_width,
                 // The chunk of the published kernels (flash-linear-attention).
                 .chunk_size = 64};
  const int64_t narrow = 2 * (int64_t{hidden_size} + inner) * sizes.head_size;
  // The gate and a number a head of the input; the first values of the decays, of each channel
  // instead of each head.
  facts.extra_parameter_count =
      narrow - hidden_size * (inner + sizes.head_count) + inner - sizes.head_count;
  notes->push_back(
      "decays of each channel: their layers have the parameters of Kimi Delta Attention, and are "
      "priced as a gated delta rule with one decay a head and a gate of one matrix");
  return facts;
}

// Reads linear attention whose decays are fixed numbers a head (Lightning Attention, arXiv
// 2401.04658), with a norm and a gate behind it as MiniMax-Text-01 and Ling 2.5 have them. It has
// the products of a gated delta rule and neither its convolution nor its numbers a head. Ling's
// queries and keys have norms, and its products may have biases.
StateSpaceFacts FixedDecays(const FamilyTraits& traits, int hidden_size, ConfigFields& fields,
                            std::vector<std::string>* notes) {
  const int heads = fields.Size({"num_attention_heads"});
  const int head_size = fields.Optional({"head_dim"}, hidden_size / heads);
  const int64_t inner = CappedProduct(heads, head_size);
  StateSpaceFacts facts;
  facts.space = {.kind = StateSpaceKind::kGatedDelta,
                 .inner_size = static_cast<int>(inner),
                 .state_size = head_size,
                 .head_count = heads,
                 .group_count = heads,
                 .convolution_width = 1,
                 .chunk_size = fields.Optional({"block_size"}, 256)};
  const int64_t of_rule = StateSpaceElements(hidden_size, facts.space).Sum();
  // Queries, keys, values, gate and output; the norm.
  facts.extra_parameter_count = int64_t{5} * hidden_size * inner + inner - of_rule;
  if (IsLing(traits)) {
    // Groups of channels that the norm takes together, and an activation.
    for (const char* key : {"group_norm_size", "linear_silu"}) fields.MarkRead(key);
    if (fields.Flag({"use_qk_norm"}, true)) facts.extra_parameter_count += 2 * int64_t{head_size};
    if (fields.Flag({"use_qkv_bias"}, false)) facts.extra_parameter_count += 3 * inner;
    if (fields.Flag({"use_bias"}, false)) facts.extra_parameter_count += hidden_size;
  }
  notes->push_back(
      "linear attention with fixed decays: its layers have the parameters of Lightning Attention, "
      "and are priced as a gated delta rule without a convolution");
  return facts;
}

// Reads the gated delta rule with a decay of each channel as Ling has it: its decays and its gate
// are products of one matrix each, with as many heads as attention.
StateSpaceFacts GatedDeltaOfWholeMatrices(int hidden_size, ConfigFields& fields,
                                          std::vector<std::string>* notes) {
  const int heads = fields.Optional({"linear_num_heads"}, fields.Size({"num_attention_heads"}));
  // Files that the class saved say the size of rotary positions as `head_dim`.
  const int head_size =
      fields.Has("linear_head_dim") ? fields.Size({"linear_head_dim"}) : fields.Size({"head_dim"});
  const int width = fields.Size({"short_conv_kernel_size", "linear_conv_kernel_dim"});
  const int64_t inner = CappedProduct(heads, head_size);
  StateSpaceFacts facts;
  facts.space = {.kind = StateSpaceKind::kGatedDelta,
                 .inner_size = static_cast<int>(inner),
                 .state_size = head_size,
                 .head_count = heads,
                 .group_count = heads,
                 .convolution_width = width,
                 .chunk_size = 64};
  // One more matrix, of the decays of each channel, for the product to one number a head; the first
  // values of the decays, of each channel instead of each head.
  facts.extra_parameter_count = hidden_size * (inner - heads) + inner - heads;
  notes->push_back(
      "decays of each channel: their layers have the parameters of Ling's Kimi Delta Attention, "
      "and are priced as a gated delta rule with one decay a head");
  return facts;
}

}  // namespace

bool HasFixedDecays(const FamilyTraits& traits, const ConfigFields& fields) {
  // Ling 3's files, whose decays are those of each channel, keep the name of this norm.
  if (IsLing(traits)) return fields.Has("group_norm_size") && !HasChannelDecays(fields);
  return traits.model_type == "minimax" || fields.Has("attn_type_list") ||
         fields.Has("linear_attn_alpha_factor");
}

bool HasChannelDecays(const ConfigFields& fields) {
  return fields.Has("linear_attn_config") || fields.Has("linear_num_heads") ||
         fields.Has("short_conv_kernel_size");
}

StateSpaceFacts ReadStateSpace(const FamilyTraits& traits, int hidden_size, bool is_alone,
                               ConfigFields& fields, std::vector<std::string>* notes) {
  // Kernels, precisions and first values.
  for (const char* key :
       {"mamba_hidden_act",      "mamba_ssm_dtype",         "mamba_ssm_cache_dtype",
        "use_mamba_kernels",     "mamba_ssm_max_position",  "use_mambapy",
        "use_associative_scan",  "residual_in_fp32",        "rescale_prenorm_residual",
        "num_logits_to_keep",    "mamba_rms_norm",          "rms_norm",
        "time_step_limit",       "mlp_hidden_act",          "mamba_dt_min",
        "mamba_dt_max",          "mamba_dt_init_floor",     "mamba_inner_layernorms",
        "time_step_init_scheme", "norm_before_gate",        "mamba_norm_before_gate",
        "fused_add_norm",        "pad_vocab_size_multiple", "attn_rotary_emb"}) {
    fields.MarkRead(key);
  }
  StateSpaceFacts facts;
  if (fields.Has("linear_num_value_heads")) {
    facts.space = GatedDelta(fields);
    return facts;
  }
  if (fields.Has("short_conv_kernel_size")) {
    return GatedDeltaOfWholeMatrices(hidden_size, fields, notes);
  }
  if (HasChannelDecays(fields)) return GatedDeltaByChannel(hidden_size, fields, notes);
  if (HasFixedDecays(traits, fields)) return FixedDecays(traits, hidden_size, fields, notes);
  StateSpace& space = facts.space;
  Sizes sizes(fields);
  space.state_size =
      sizes.Of({"mamba_d_state", "ssm_state_size", "state_size"}, traits.state_space_state_size);
  space.convolution_width = sizes.Of({"mamba_d_conv", "conv_kernel"}, 4);
  const int expand = fields.Optional({"mamba_expand", "expand"}, 0);
  int inner = fields.Optional({"mamba_d_ssm", "d_inner"}, 0);
  if (is_alone && inner == 0) inner = fields.Optional({"intermediate_size"}, 0);
  space.head_count = fields.Optional({"mamba_num_heads", "mamba_n_heads", "n_mamba_heads"}, 0);
  if (is_alone && space.head_count == 0) space.head_count = fields.Optional({"num_heads"}, 0);
  int head_size = NumberOrAuto(fields, "mamba_d_head");
  if (head_size == 0) head_size = fields.Optional({"mamba_head_dim", "mamba_headdim"}, 0);
  if (is_alone && head_size == 0) head_size = fields.Optional({"head_dim"}, 0);
  if (inner == 0 && space.head_count > 0 && head_size > 0) {
    inner = CappedProduct(space.head_count, head_size);
  }
  if (inner == 0) {
    inner =
        CappedProduct(expand > 0 ? expand : sizes.Of({"mamba_expand", "expand"}, 2), hidden_size);
  }
  space.inner_size = inner;
  if (space.head_count > 0 && head_size > 0 &&
      int64_t{space.head_count} * head_size != space.inner_size) {
    fields.Fail(fields.Given({is_alone ? "num_heads" : "mamba_num_heads", "mamba_num_heads",
                              "mamba_n_heads", "n_mamba_heads"}),
                absl::StrCat("times the size of a head, ", head_size, ", must be the inner size ",
                             space.inner_size));
  }
  if (space.head_count == 0 && head_size > 0 && space.inner_size % head_size == 0) {
    space.head_count = space.inner_size / head_size;
  }
  if (space.head_count == 0 && traits.has_state_space_heads) {
    space.head_count = fields.Size({is_alone ? "num_heads" : "mamba_num_heads"});
  }
  const bool has_bias = fields.Flag({"mamba_proj_bias", "use_bias"}, false);
  // Falcon-H1 has a field of its own for the last product, and no norm unless it says so.
  const bool is_falcon = traits.model_type == "falcon_h1";
  if (fields.Flag({"projectors_bias"}, has_bias && !is_falcon)) {
    facts.extra_parameter_count += hidden_size;
  }
  const bool has_convolution_bias = fields.Flag({"mamba_conv_bias", "use_conv_bias"}, true);
  if (space.head_count > 0) {
    space.kind = StateSpaceKind::kDual;
    // Its time step has no rank; files that say one were made of a selective one's.
    for (const char* key : {"mamba_dt_rank", "time_step_rank"}) fields.MarkRead(key);
    space.group_count = sizes.Of({"mamba_n_groups", "n_groups", "mamba_ngroups"}, 1);
    space.chunk_size = sizes.Of({"mamba_chunk_size", "chunk_size"}, 256);
    sizes.NoteDefaults(notes);
    if (!has_convolution_bias) {
      facts.extra_parameter_count -=
          space.inner_size + 2 * int64_t{space.group_count} * space.state_size;
    }
    if (!fields.Flag({"mamba_rms_norm"}, !is_falcon)) {
      facts.extra_parameter_count -= space.inner_size;
    }
    if (has_bias) facts.extra_parameter_count += static_cast<int64_t>(ProjectedWidth(space));
    return facts;
  }
  space.kind = StateSpaceKind::kSelective;
  for (const char* key : {"mamba_dt_rank", "time_step_rank"}) {
    if (space.time_step_rank == 0) space.time_step_rank = NumberOrAuto(fields, key);
    fields.MarkRead(key);
  }
  if (space.time_step_rank == 0) space.time_step_rank = (hidden_size + 15) / 16;
  sizes.NoteDefaults(notes);
  if (!has_convolution_bias) facts.extra_parameter_count -= space.inner_size;
  if (has_bias) facts.extra_parameter_count += 2 * int64_t{space.inner_size};
  // Jamba has norms of the time step and of both projections of the state.
  if (traits.has_state_norms) {
    facts.extra_parameter_count += space.time_step_rank + 2 * int64_t{space.state_size};
  }
  return facts;
}

}  // namespace parplan
