#include "clients/import/image_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/extra_parameters.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Reads the values of one patch, the classes, and the patches of an image. True when they fit.
bool ReadPatches(ConfigFields& config, ModelFacts* facts, int* patches_a_side) {
  const int image_size = config.Optional({"image_size"}, 224);
  const int patch_size = config.Size({"patch_size"});
  const int channels = config.Optional({"num_channels"}, 3);
  if (channels > 64) config.Fail("num_channels", "must be at most 64");
  if (image_size > 65536) config.Fail("image_size", "must be at most 65536");
  if (patch_size < 1 || patch_size > 4096 || !config.status().ok()) return false;
  facts->patch_value_count = patch_size * patch_size * channels;
  // Files have `num_labels` or the names of the classes.
  const nlohmann::json* const names = config.Object("id2label");
  const int named = names != nullptr ? static_cast<int>(names->size()) : 0;
  int classes = named > 0 ? named : 1000;
  // A model class without a classifier, whose file names no classes.
  const std::vector<std::string> built = config.Texts("architectures");
  if (named == 0 && !built.empty() && absl::EndsWith(built[0], "Model")) classes = 1;
  facts->class_count = config.Optional({"num_labels"}, classes);
  *patches_a_side = image_size / patch_size;
  return *patches_a_side > 0;
}

absl::Status PatchError(ConfigFields& config) {
  config.Fail("patch_size", "must divide the image into patches");
  return config.status();
}

}  // namespace

absl::StatusOr<ModelFacts> ReadVit(absl::string_view family, bool counts_all_parameters,
                                   ConfigFields& config) {
  ModelFacts facts;
  int side = 0;
  if (!ReadPatches(config, &facts, &side)) return PatchError(config);
  if (side > 2048) {
    config.Fail("image_size", "must have at most 2048 patches a side");
    return config.status();
  }
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"num_hidden_layers"});
  run.hidden_size = config.Size({"hidden_size"});
  run.attention_head_count = config.Size({"num_attention_heads"});
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (run.hidden_size % run.attention_head_count != 0) {
    config.Fail("num_attention_heads", absl::StrCat("must divide hidden_size ", run.hidden_size));
    return config.status();
  }
  const int ratio = config.Optional({"mlp_ratio"}, 4);
  const bool is_gated = config.Flag({"use_swiglu_ffn"}, false);
  int64_t width = std::min<int64_t>(int64_t{ratio} * run.hidden_size, kMaxImportCount);
  // DINOv2's rule.
  if (is_gated) width = (width * 2 / 3 + 7) / 8 * 8;
  run.feed_forward_size = config.Optional({"intermediate_size"}, static_cast<int>(width));
  run.feed_forward_kind = is_gated ? v1::FEED_FORWARD_KIND_SWIGLU : v1::FEED_FORWARD_KIND_GELU;
  const int registers = config.Count({"num_register_tokens"}, 0);
  const bool has_bias = config.Flag({"qkv_bias"}, true);
  // DeiT has a token beside that of the class, whose output a further classifier reads.
  const int distilled = family == "deit" ? 1 : 0;
  const std::vector<std::string> built = config.Texts("architectures");
  const bool has_two_heads =
      distilled > 0 && !built.empty() && absl::EndsWith(built[0], "WithTeacher");
  run.sequence_length = side * side + 1 + registers + distilled;
  // BEiT has scores that depend on the distance of two patches, in each layer or in one table, and
  // no positions and biases of keys; `vocab_size` is of the tokens that it is trained to predict.
  const bool is_beit = config.Has("use_relative_position_bias");
  const bool has_own_distances = config.Flag({"use_relative_position_bias"}, false);
  const bool has_common_distances = config.Flag({"use_shared_relative_position_bias"}, false);
  const bool has_positions =
      config.Flag({"use_absolute_position_embeddings", "use_absolute_embeddings"}, !is_beit);
  // BEiT scales the blocks by parameters that begin as this value; 0 or less stands for none.
  const double first_scale = config.Number("layer_scale_init_value", is_beit ? 0.1 : 0.0);
  const bool scales_blocks = absl::StartsWith(family, "dinov2") || first_scale > 0;
  for (const char* key :
       {"pooler_output_size", "stage_names", "out_features", "out_indices", "reshape_hidden_states",
        "apply_layernorm", "use_mask_token", "layerscale_value", "use_mean_pooling",
        "use_auxiliary_head", "auxiliary_channels", "auxiliary_concat_input", "auxiliary_num_convs",
        "add_fpn", "pool_scales"}) {
    config.MarkRead(key);
  }
  if (is_beit) config.MarkRead("vocab_size");
  if (counts_all_parameters) {
    const int64_t hidden = run.hidden_size;
    run.extra_parameter_count = 2 * hidden + BiasCount(run, 1, has_bias, true, true);
    if (is_beit && has_bias) run.extra_parameter_count -= hidden;
    // The scale of each of both blocks.
    if (scales_blocks) run.extra_parameter_count += 2 * hidden;
    // All distances of two patches, and three of the class's token.
    const int64_t distances =
        ((2 * int64_t{side} - 1) * (2 * int64_t{side} - 1) + 3) * run.attention_head_count;
    if (has_own_distances) run.extra_parameter_count += distances;
    // The class's token, and positions.
    facts.embedding_extra_parameter_count = hidden * (1 + registers + distilled);
    if (has_positions) {
      facts.embedding_extra_parameter_count += hidden * (int64_t{side} * side + 1 + distilled);
    }
    if (has_common_distances) facts.embedding_extra_parameter_count += distances;
    facts.head_extra_parameter_count = hidden + facts.class_count;
    if (has_two_heads) facts.head_extra_parameter_count += (hidden + 1) * facts.class_count;
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  facts.runs.push_back(run);
  return facts;
}

absl::StatusOr<ModelFacts> ReadSwin(bool counts_all_parameters, ConfigFields& config,
                                    std::vector<std::string>* notes) {
  ModelFacts facts;
  int side = 0;
  if (!ReadPatches(config, &facts, &side)) return PatchError(config);
  const std::vector<int> depths = config.List("depths", 1);
  const std::vector<int> heads = config.List("num_heads", 1);
  int width = config.Size({"embed_dim"});
  const int ratio = config.Optional({"mlp_ratio"}, 4);
  const int window = config.Optional({"window_size"}, 7);
  const bool has_bias = config.Flag({"qkv_bias"}, true);
  const bool has_positions = config.Flag({"use_absolute_embeddings"}, false);
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (depths.empty()) config.Fail("depths", "must be a list of sizes");
  if (depths.size() != heads.size() || depths.size() > 8) {
    config.Fail("num_heads", "must have as many entries as depths, at most 8");
  }
  if (width > 1 << 16 || ratio > 64) {
    config.Fail("embed_dim", "must be at most 65536, and mlp_ratio at most 64");
  }
  if (side > 2048) config.Fail("image_size", "must have at most 2048 patches a side");
  if (window > 2048) config.Fail("window_size", "must be at most 2048");
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (counts_all_parameters) {
    // A norm behind the patches, and positions.
    facts.embedding_extra_parameter_count = 2 * int64_t{width};
    if (has_positions) {
      facts.embedding_extra_parameter_count += int64_t{side} * side * width;
    }
  }
  // An odd side gets a row of zeros before patches are merged (transformers, SwinPatchMerging).
  for (size_t i = 0; i < depths.size(); ++i, width *= 2, side = (side + 1) / 2) {
    TransformerRunFacts run;
    run.kind = v1::LAYER_KIND_ENCODER;
    run.layer_count = depths[i];
    run.hidden_size = width;
    run.attention_head_count = heads[i];
    run.feed_forward_size = width * ratio;
    run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
    run.sequence_length = side * side;
    if (counts_all_parameters) {
      if (width % heads[i] != 0) {
        config.Fail(absl::StrCat("num_heads[", i, "]"), absl::StrCat("must divide ", width));
        return config.status();
      }
      // Windows that do not overlap, and scores that depend on the distance in them. The table of
      // scores is of a whole window in a smaller image too.
      run.attention_chunk_size = window < side ? window * window : 0;
      const int64_t distances = (2 * int64_t{window} - 1) * (2 * int64_t{window} - 1);
      run.extra_parameter_count = 2 * int64_t{width} + BiasCount(run, 1, has_bias, true, true) +
                                  distances * run.attention_head_count;
      // Four patches become one of twice the width, behind a norm.
      if (i + 1 < depths.size()) {
        facts.embedding_extra_parameter_count += 8 * int64_t{width} * width + 8 * int64_t{width};
      } else {
        facts.head_extra_parameter_count = width + facts.class_count;
      }
    }
    facts.runs.push_back(run);
  }
  for (const char* key :
       {"hidden_size", "encoder_stride", "num_layers", "path_norm", "stage_names", "out_features",
        "out_indices", "use_mask_token", "pretrained_window_sizes"}) {
    config.MarkRead(key);
  }
  notes->push_back(
      counts_all_parameters
          ? "what merges four patches between Swin's stages counts as parameters of the embedding; "
            "its time is not priced"
          : "windows and patch merging of Swin are not in the sizes; times and memory are of the "
            "layers as measured");
  return facts;
}

}  // namespace parplan
