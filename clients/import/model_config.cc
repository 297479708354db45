#include "clients/import/model_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"
#include "clients/import/named_text.h"
#include "clients/import/transformer_config.h"

namespace parplan {
namespace {

using nlohmann::json;

// The family of a config that names none: Galvatron's own.
std::string FamilyFromKeys(const ConfigFields& config) {
  if (config.Has("dim") && config.Has("n_heads")) return "llama";
  if (config.Has("n_embd")) return "gpt2";
  if (config.Has("d_model") && config.Has("d_ff")) return "t5";
  if (config.Has("embed_dim") && config.Has("depths")) return "swin";
  if (config.Has("image_size") && config.Has("hidden_size")) return "vit";
  if (config.Has("num_hidden_layers") && config.Has("vocab_size")) return "bert";
  return "";
}

void ReadT5(bool counts_all_parameters, ConfigFields& config, ModelFacts* facts) {
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"num_layers"});
  run.hidden_size = config.Size({"d_model"});
  run.attention_head_count = config.Size({"num_heads"});
  run.head_size = config.Optional({"d_kv"}, 0);
  run.feed_forward_size = config.Size({"d_ff"});
  run.feed_forward_kind = absl::StartsWith(config.Text("feed_forward_proj"), "gated")
                              ? v1::FEED_FORWARD_KIND_SWIGLU
                              : v1::FEED_FORWARD_KIND_GELU;
  run.sequence_length = config.Optional({"n_positions"}, 0);
  if (run.head_size == 0 && run.hidden_size % run.attention_head_count != 0) {
    config.Fail("num_heads",
                absl::StrCat("must divide d_model ", run.hidden_size, " unless d_kv is given"));
  }
  const int buckets = config.Optional({"relative_attention_num_buckets"}, 32);
  config.MarkRead("relative_attention_max_distance");
  facts->runs.push_back(run);
  if (counts_all_parameters) {
    // Biases of relative positions, in encoder and decoder, and the encoder's last norm.
    facts->embedding_extra_parameter_count =
        int64_t{2} * buckets * run.attention_head_count + run.hidden_size;
  }
  run.kind = v1::LAYER_KIND_CROSS_DECODER;
  run.layer_count = config.Optional({"num_decoder_layers"}, run.layer_count);
  facts->runs.push_back(run);
}

// Encoder and decoder with sizes of their own: Whisper, BART and those built like it.
void ReadEncoderAndDecoder(ConfigFields& config, ModelFacts* facts,
                           std::vector<std::string>* notes) {
  const bool hears = config.Has("num_mel_bins");
  const int longest = config.Optional({"max_position_embeddings"}, 1024);
  TransformerRunFacts run;
  run.hidden_size = config.Size({"d_model"});
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"encoder_layers"});
  run.attention_head_count = config.Size({"encoder_attention_heads"});
  run.feed_forward_size = config.Size({"encoder_ffn_dim"});
  run.sequence_length = config.Optional({"max_source_positions"}, longest);
  config.MarkRead("num_hidden_layers");
  // Scales and shifts of the norms, and biases.
  run.extra_parameter_count = 2 * int64_t{run.hidden_size} + BiasCount(run, 1, true, true, true);
  const int64_t source_positions = run.sequence_length;
  TransformerRunFacts decoder = run;
  decoder.kind = v1::LAYER_KIND_CROSS_DECODER;
  decoder.layer_count = config.Size({"decoder_layers"});
  decoder.attention_head_count = config.Size({"decoder_attention_heads"});
  decoder.feed_forward_size = config.Size({"decoder_ffn_dim"});
  decoder.sequence_length = config.Optional({"max_target_positions"}, longest);
  if (!config.status().ok()) return;
  for (const auto& [field, heads] :
       {std::pair{"encoder_attention_heads", run.attention_head_count},
        std::pair{"decoder_attention_heads", decoder.attention_head_count}}) {
    if (run.hidden_size % heads != 0) {
      config.Fail(field, absl::StrCat("must divide d_model ", run.hidden_size));
      return;
    }
  }
  decoder.extra_parameter_count =
      3 * int64_t{run.hidden_size} + BiasCount(decoder, 2, true, true, true);
  // Positions of both, and the encoder's last norm.
  const int64_t width = run.hidden_size;
  facts->embedding_extra_parameter_count =
      (source_positions + decoder.sequence_length) * width + 2 * width;
  facts->head_extra_parameter_count = width;
  if (hears) {
    // Two convolutions of three samples.
    facts->embedding_extra_parameter_count +=
        3 * int64_t{config.Size({"num_mel_bins"})} * width + 3 * width * width + 2 * width;
    notes->push_back(
        "the convolutions before the encoder count as parameters of the embedding; their time is "
        "not priced");
  }
  facts->runs.push_back(run);
  facts->runs.push_back(decoder);
}

// Values of one patch and patches of one image; true when they fit.
bool ReadPatches(ConfigFields& config, ModelFacts* facts, int* patches_a_side) {
  const int image_size = config.Optional({"image_size"}, 224);
  const int patch_size = config.Size({"patch_size"});
  const int channels = config.Optional({"num_channels"}, 3);
  if (patch_size < 1 || patch_size > 4096 || channels > 64 || image_size > 65536) return false;
  facts->patch_value_count = patch_size * patch_size * channels;
  // Files have `num_labels` or the names of the classes.
  const json* const names = config.Object("id2label");
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

absl::Status ReadVit(const std::string& family, bool counts_all_parameters, ConfigFields& config,
                     ModelFacts* facts) {
  int side = 0;
  if (!ReadPatches(config, facts, &side)) return PatchError(config);
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
  run.sequence_length = side * side + 1 + registers;
  for (const char* key : {"pooler_output_size", "stage_names", "out_features", "out_indices",
                          "reshape_hidden_states", "apply_layernorm", "use_mask_token"}) {
    config.MarkRead(key);
  }
  if (counts_all_parameters) {
    const int64_t hidden = run.hidden_size;
    run.extra_parameter_count = 2 * hidden + BiasCount(run, 1, has_bias, true, true);
    // The scale of each of both blocks.
    if (absl::StartsWith(family, "dinov2")) run.extra_parameter_count += 2 * hidden;
    config.MarkRead("layerscale_value");
    // The class's token, and positions.
    facts->embedding_extra_parameter_count = hidden * (side * side + 2 + registers);
    facts->head_extra_parameter_count = hidden + facts->class_count;
  }
  facts->runs.push_back(run);
  return absl::OkStatus();
}

absl::Status ReadSwin(ConfigFields& config, ModelFacts* facts, std::vector<std::string>* notes) {
  int side = 0;
  if (!ReadPatches(config, facts, &side)) return PatchError(config);
  const std::vector<int> depths = config.List("depths", 1);
  const std::vector<int> heads = config.List("num_heads", 1);
  int width = config.Size({"embed_dim"});
  const int ratio = config.Optional({"mlp_ratio"}, 4);
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (depths.empty()) config.Fail("depths", "must be a list of sizes");
  if (depths.size() != heads.size() || depths.size() > 8) {
    config.Fail("num_heads", "must have as many entries as depths, at most 8");
  }
  if (width > 1 << 16 || ratio > 64) {
    config.Fail("embed_dim", "must be at most 65536, and mlp_ratio at most 64");
  }
  if (side > 2048) config.Fail("image_size", "must have at most 2048 patches a side");
  PARPLAN_RETURN_IF_ERROR(config.status());
  for (size_t i = 0; i < depths.size() && side > 0; ++i, width *= 2, side /= 2) {
    TransformerRunFacts run;
    run.kind = v1::LAYER_KIND_ENCODER;
    run.layer_count = depths[i];
    run.hidden_size = width;
    run.attention_head_count = heads[i];
    run.feed_forward_size = width * ratio;
    run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
    run.sequence_length = side * side;
    facts->runs.push_back(run);
  }
  for (const char* key : {"window_size", "qkv_bias", "use_absolute_embeddings", "hidden_size",
                          "encoder_stride", "num_layers"}) {
    config.MarkRead(key);
  }
  notes->push_back(
      "windows and patch merging of Swin are not in the sizes; times and memory are of the layers "
      "as measured");
  return absl::OkStatus();
}

// The language model inside a model of several parts, or null. The other parts are named in notes.
const json* FindLanguageModel(ConfigFields& config, std::string* path) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    const json* const inner = config.Object(key);
    if (inner == nullptr) continue;
    *path = absl::StrCat(key, ".");
    return inner;
  }
  return nullptr;
}

void NoteTowers(const json& object, ConfigFields& config, std::vector<std::string>* notes) {
  for (const char* key : {"vision_config", "audio_config", "visual", "vision_tower_config"}) {
    const json* const tower = config.Object(key);
    if (tower == nullptr) continue;
    std::string shown;
    for (const char* size :
         {"num_hidden_layers", "depth", "encoder_layers", "hidden_size", "embed_dim", "d_model"}) {
      if (!tower->contains(size) || !(*tower)[size].is_number_integer()) continue;
      absl::StrAppend(&shown, shown.empty() ? " (" : ", ", size, " ", (*tower)[size].dump());
    }
    if (!shown.empty()) shown += ")";
    notes->push_back(
        absl::StrCat(key, shown, ": this tower is left out; the model is the language model"));
  }
  // Projections between towers, and the tokens that stand for images.
  for (const auto& [key, value] : object.items()) {
    for (const char* start : {"vision_", "image_", "video_", "audio_", "projector_", "mm_",
                              "multimodal_", "spatial_", "boi_", "eoi_", "boa_"}) {
      if (absl::StartsWith(key, start)) config.MarkRead(key.c_str());
    }
  }
}

bool EndsInOneOf(const std::vector<std::string>& names, std::initializer_list<const char*> ends) {
  return std::any_of(names.begin(), names.end(), [&ends](const std::string& name) {
    return std::any_of(ends.begin(), ends.end(),
                       [&name](const char* end) { return absl::EndsWith(name, end); });
  });
}

// Derives from its fields what an unknown family's layers are. Returns false if they do not say.
bool TraitsFromFields(const std::string& family, ConfigFields& config, FamilyTraits* traits) {
  const std::vector<std::string> classes = config.Texts("architectures");
  std::string activation;
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function"}) {
    if (activation.empty()) activation = config.Text(key);
  }
  const bool has_root_mean_square = config.Has("rms_norm_eps");
  const bool has_layer_norm = config.Has("layer_norm_eps") || config.Has("layer_norm_epsilon");
  const bool is_silu = absl::StrContains(activation, "silu") ||
                       absl::StrContains(activation, "swi") ||
                       absl::StrContains(activation, "geglu");
  traits->model_type = family;
  if (EndsInOneOf(classes, {"ForMaskedLM", "ForPreTraining"})) {
    traits->is_encoder = true;
  } else if (!EndsInOneOf(classes, {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"})) {
    return false;
  }
  if (is_silu && !has_layer_norm) return true;
  if (has_root_mean_square || !has_layer_norm || activation.empty() || is_silu) return false;
  traits->is_gated = false;
  traits->has_query_key_value_bias = true;
  traits->has_output_bias = true;
  traits->has_feed_forward_bias = true;
  traits->norm_vector_count = 4;
  traits->final_norm_vector_count = 2;
  return true;
}

// Reads the decoder or encoder of `family`.
absl::StatusOr<ModelFacts> ReadLayers(const std::string& family, bool galvatron,
                                      const GivenOpaqueLayers& opaque, ConfigFields& config,
                                      std::vector<std::string>* notes, bool* tied) {
  const FamilyTraits* known = FindFamilyTraits(family);
  FamilyTraits traits;
  if (known != nullptr) {
    traits = *known;
  } else if (family.empty() || !TraitsFromFields(family, config, &traits)) {
    config.MarkRead("model_type");
    // A field that shows another structure says more than the family's name.
    ModelFacts ignored = ReadTransformer(traits, false, opaque, config, notes);
    PARPLAN_RETURN_IF_ERROR(config.status());
    config.Fail(
        "model_type",
        absl::StrCat(galvatron ? "is missing and the keys are of no known family"
                               : absl::StrCat("`", family, "` is not known"),
                     ", and neither `architectures` nor `hidden_act` and the kind of norm say "
                     "whether its layers are gated and causal. Write the model file by hand "
                     "(docs/files.md), or give the model_type of a family built alike "
                     "(docs/import.md)"));
    return config.status();
  } else {
    notes->push_back(absl::StrCat("model_type `", family, "` is not known; its fields say ",
                                  traits.is_gated ? "gated " : "plain ",
                                  traits.is_encoder ? "encoder layers" : "decoder layers",
                                  "; compare the number of parameters with the published one"));
  }
  *tied = traits.is_tied;
  if (family == "opt" && config.Has("word_embed_proj_dim") && config.Has("hidden_size") &&
      config.Size({"word_embed_proj_dim"}) != config.Size({"hidden_size"})) {
    config.Fail("word_embed_proj_dim",
                "must be hidden_size; a projection between "
                "embedding and layers is not supported");
    return config.status();
  }
  ModelFacts facts = ReadTransformer(traits, !galvatron, opaque, config, notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  facts.vocabulary_size = config.Optional({"vocab_size"}, traits.vocabulary_size);
  if (!config.Has("vocab_size") && traits.vocabulary_size > 0) {
    notes->push_back(absl::StrCat("vocab_size ", traits.vocabulary_size, " is the default of ",
                                  family, "; the config gives none"));
  }
  if (facts.vocabulary_size == 0) config.Size({"vocab_size"});
  return facts;
}

absl::StatusOr<ModelFacts> ReadFields(const std::string& family, bool galvatron,
                                      const GivenOpaqueLayers& opaque, ConfigFields& config,
                                      std::vector<std::string>* notes) {
  ModelFacts facts;
  // Whether Hugging Face ties the head of this family when the config is silent.
  bool tied = false;
  const bool is_t5 =
      family == "t5" || family == "mt5" || family == "umt5" ||
      (!galvatron && config.Has("d_ff") && config.Has("d_kv") && config.Has("num_heads"));
  if (is_t5) {
    ReadT5(!galvatron, config, &facts);
    tied = family == "t5";
    facts.vocabulary_size = config.Size({"vocab_size"});
  } else if (!galvatron && config.Has("encoder_layers") && config.Has("decoder_layers") &&
             config.Has("encoder_ffn_dim")) {
    ReadEncoderAndDecoder(config, &facts, notes);
    tied = true;
    facts.vocabulary_size = config.Size({"vocab_size"});
  } else if (family == "swin") {
    PARPLAN_RETURN_IF_ERROR(ReadSwin(config, &facts, notes));
  } else if (family == "vit" || (!galvatron && config.Has("patch_size") &&
                                 config.Has("image_size") && !config.Has("vocab_size"))) {
    PARPLAN_RETURN_IF_ERROR(ReadVit(family, !galvatron, config, &facts));
  } else {
    PARPLAN_ASSIGN_OR_RETURN(facts, ReadLayers(family, galvatron, opaque, config, notes, &tied));
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (facts.patch_value_count == 0) {
    // Galvatron trains every model with a head of its own.
    facts.tied_embedding = config.Flag({"tie_word_embeddings"}, galvatron ? false : tied);
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  return facts;
}

}  // namespace

absl::StatusOr<ModelFacts> ReadModelConfig(const json& object, absl::string_view file_name,
                                           const GivenOpaqueLayers& opaque,
                                           std::vector<std::string>* notes) {
  ConfigFields config(object, file_name, "");
  std::string family = config.Text("model_type");
  PARPLAN_RETURN_IF_ERROR(config.status());
  const bool galvatron = family.empty();
  if (galvatron) {
    for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      if (!config.Has(key)) continue;
      config.Fail("model_type", "is required beside experts");
      return config.status();
    }
    return ReadFields(FamilyFromKeys(config), galvatron, opaque, config, notes);
  }
  NoteTowers(object, config, notes);
  family = LanguageFamily(family);
  std::string path;
  const json* const language = FindLanguageModel(config, &path);
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (language == nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(ModelFacts facts,
                             ReadFields(family, galvatron, opaque, config, notes));
    config.MarkRead("tie_word_embeddings");
    config.RefuseWhatIsUnknown(notes);
    PARPLAN_RETURN_IF_ERROR(config.status());
    return facts;
  }

  // Fields of the whole model hold where the language model is silent.
  json inner = *language;
  for (const char* key : {"vocab_size", "tie_word_embeddings", "architectures", "hidden_size"}) {
    const bool is_silent = !inner.contains(key) || inner[key].is_null();
    if (is_silent && config.Has(key)) inner[key] = object[key];
    config.MarkRead(key);
  }
  ConfigFields text(inner, file_name, path);
  const std::string own = text.Text("model_type");
  PARPLAN_ASSIGN_OR_RETURN(ModelFacts facts, ReadFields(own.empty() ? family : LanguageFamily(own),
                                                        false, opaque, text, notes));
  text.MarkRead("tie_word_embeddings");
  text.RefuseWhatIsUnknown(notes);
  PARPLAN_RETURN_IF_ERROR(text.status());
  config.RefuseWhatIsUnknown(notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  return facts;
}

}  // namespace parplan
