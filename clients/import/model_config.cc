#include "clients/import/model_config.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/config_fields.h"
#include "clients/import/encoder_decoder_config.h"
#include "clients/import/family_traits.h"
#include "clients/import/gemma_pair_config.h"
#include "clients/import/image_config.h"
#include "clients/import/named_text.h"
#include "clients/import/several_parts.h"
#include "clients/import/shared_block_config.h"
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
  if (!traits->is_encoder) return true;
  // BERT's ends.
  traits->final_norm_vector_count = 0;
  traits->has_position_table = true;
  traits->has_embedding_norm = true;
  traits->has_dense_head = true;
  traits->has_head_bias = true;
  return true;
}

// Returns whether the model has layers, all of them opaque with sizes that a user gave.
bool HasOnlyOpaqueLayers(const ModelFacts& facts) {
  return !facts.runs.empty() &&
         std::all_of(facts.runs.begin(), facts.runs.end(), [](const TransformerRunFacts& run) {
           return run.kind == v1::LAYER_KIND_OPAQUE && run.opaque_kept_values_per_token == 0;
         });
}

// Reads layers and words of a family with these traits. Says in `tied` whether one table is that of
// both ends if the config is silent.
absl::StatusOr<ModelFacts> ReadWords(const FamilyTraits& traits, bool galvatron,
                                     const GivenOpaqueLayers& opaque, ConfigFields& config,
                                     std::vector<std::string>* notes, bool* tied) {
  *tied = traits.is_tied;
  ModelFacts facts = ReadTransformer(traits, !galvatron, opaque, config, notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  facts.vocabulary_size =
      config.Optional({"vocab_size", "padded_vocab_size"}, traits.vocabulary_size);
  const bool says_words = config.Has("vocab_size") || config.Has("padded_vocab_size");
  if (!says_words && traits.vocabulary_size > 0) {
    notes->push_back(absl::StrCat("vocab_size ", traits.vocabulary_size, " is the default of ",
                                  traits.model_type, "; the config gives none"));
  }
  if (facts.vocabulary_size == 0) config.Size({"vocab_size"});
  return facts;
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
    ConfigFields trial = config;
    std::vector<std::string> trial_notes;
    const ModelFacts facts = ReadTransformer({}, false, opaque, trial, &trial_notes);
    // A field that shows another structure says more than the family's name; one that is absent
    // may have another name in this family.
    if (!trial.status().ok() && !trial.lacks_field()) return trial.status();
    if (trial.status().ok() && !galvatron && HasOnlyOpaqueLayers(facts)) {
      notes->push_back(absl::StrCat("model_type `", family,
                                    "` is not known; all its layers are opaque, and before and "
                                    "behind them only the tables of words are counted"));
      traits.model_type = family;
      return ReadWords(traits, galvatron, opaque, config, notes, tied);
    }
    if (absl::EndsWith(family, "_text_model")) {
      config.Fail("model_type",
                  absl::StrCat("`", family,
                               "` is one of two towers that are trained side by side; write a "
                               "model file with an embedding and a head for each by hand "
                               "(docs/files.md)"));
      return config.status();
    }
    config.Fail(
        "model_type",
        absl::StrCat(galvatron ? "is missing and the keys are of no known family"
                               : absl::StrCat("`", family, "` is not known"),
                     ", and neither `architectures` nor `hidden_act` and the kind of norm say "
                     "whether its layers are gated and causal. Write the model file by hand "
                     "(docs/files.md), give the sizes of all layers with --opaque (`*`), or give "
                     "the model_type of a family built alike (docs/import.md)"));
    return config.status();
  } else {
    notes->push_back(absl::StrCat("model_type `", family, "` is not known; its fields say ",
                                  traits.is_gated ? "gated " : "plain ",
                                  traits.is_encoder ? "encoder layers" : "decoder layers",
                                  "; compare the number of parameters with the published one"));
  }
  if (!galvatron) {
    traits.defaults = DefaultsOfClass(family);
    if (known == nullptr && traits.is_gated && traits.defaults.model_type.empty()) {
      traits.defaults.key_value_head_count = kAsManyAsHeads;
    }
  }
  return ReadWords(traits, galvatron, opaque, config, notes, tied);
}

// Returns whether the fields are those of an encoder of images. BEiT has words, which it is trained
// to predict, and no number of positions.
bool IsOfImages(const ConfigFields& config) {
  return config.Has("patch_size") && config.Has("image_size") &&
         (!config.Has("vocab_size") || config.Has("use_relative_position_bias"));
}

absl::StatusOr<ModelFacts> ReadFields(const std::string& family, bool galvatron,
                                      const GivenOpaqueLayers& opaque, ConfigFields& config,
                                      std::vector<std::string>* notes) {
  if (!galvatron) {
    // Fields without effect that would not be looked at otherwise.
    for (const char* key : {"hidden_act", "hidden_activation", "activation_function"}) {
      config.Text(key);
    }
    config.Texts("architectures");
    config.Object("rope_scaling");
    PARPLAN_RETURN_IF_ERROR(config.status());
  }
  ModelFacts facts;
  // Whether Hugging Face ties the head of this family when the config is silent.
  bool tied = false;
  const bool is_t5 =
      family == "t5" || family == "mt5" || family == "umt5" ||
      (!galvatron && config.Has("d_ff") && config.Has("d_kv") && config.Has("num_heads"));
  if (is_t5) {
    facts = ReadT5(family, !galvatron, config);
    tied = family == "t5";
    facts.vocabulary_size = config.Size({"vocab_size"});
  } else if (family == "zamba2" && !opaque.contains("*")) {
    facts = ReadSharedBlocks(config, notes);
    tied = true;
    facts.vocabulary_size = config.Size({"vocab_size"});
  } else if (!galvatron && IsGemmaPair(family)) {
    facts = ReadGemmaPair(family, config, notes);
  } else if (!galvatron && config.Has("encoder_layers") && config.Has("decoder_layers") &&
             config.Has("encoder_ffn_dim")) {
    facts = ReadEncoderAndDecoder(family, config, notes);
    tied = true;
    facts.vocabulary_size = config.Size({"vocab_size"});
  } else if (family == "swin") {
    PARPLAN_ASSIGN_OR_RETURN(facts, ReadSwin(!galvatron, config, notes));
  } else if (!galvatron && IsOfImages(config) && config.Has("depths")) {
    config.Fail("model_type", absl::StrCat("`", family,
                                           "` is not known: stages of several widths (`depths`) "
                                           "are read of `swin` alone. Write the model file by hand "
                                           "(docs/files.md)"));
  } else if (family == "vit" || (!galvatron && IsOfImages(config))) {
    PARPLAN_ASSIGN_OR_RETURN(facts, ReadVit(family, !galvatron, config));
  } else {
    PARPLAN_ASSIGN_OR_RETURN(facts, ReadLayers(family, galvatron, opaque, config, notes, &tied));
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (opaque.contains("*") && !HasOnlyOpaqueLayers(facts)) {
    config.Fail("model_type", absl::StrCat("`", family,
                                           "` is read by rules of its own, which --opaque (`*`) "
                                           "does not replace"));
  }
  if (facts.patch_value_count == 0 && (galvatron || !IsGemmaPair(family))) {
    // Galvatron trains every model with a head of its own.
    facts.tied_embedding = config.Flag({"tie_word_embeddings", "tie_embedding",
                                        "use_embedding_sharing", "share_input_output_layers"},
                                       galvatron ? false : tied);
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  return facts;
}

void FailWithoutFamily(ConfigFields& config) {
  config.Fail("model_type",
              "is required: it says what the sizes leave open (docs/import.md). Add the model_type "
              "of the model's family, such as `llama`; configs of Galvatron's are read by `planctl "
              "import galvatron --model-config`");
}

// Says how weights in the file are stored: they are trained in the precision of the model.
// `config` reads `object`, whose place in the file is `path`.
void NoteStoredWeights(const json& object, absl::string_view path, ConfigFields& config,
                       std::vector<std::string>* notes) {
  for (const char* key : {"quantization_config", "quantization", "compression_config"}) {
    config.MarkRead(key);
    const auto stored = object.find(key);
    if (stored == object.end() || !stored->is_structured() || stored->empty()) {
      config.Note(key, "is about how the file's weights are stored", notes);
      continue;
    }
    const auto method = stored->find("quant_method");
    const bool is_named = method != stored->end() && method->is_string();
    notes->push_back(absl::StrCat(
        path, key, is_named ? absl::StrCat(" (", method->get<std::string>(), ")") : std::string(),
        ": is how the file's weights are stored; the model is planned with weights in its "
        "precision"));
  }
}

// Says that the head of a class of another task is not that of the model.
void NoteOtherHead(ConfigFields& config, std::vector<std::string>* notes) {
  for (const std::string& name : config.Texts("architectures")) {
    for (const char* end : {"ForSequenceClassification", "ForTokenClassification",
                            "ForQuestionAnswering", "ForMultipleChoice", "RewardModel"}) {
      if (!absl::EndsWith(name, end)) continue;
      notes->push_back(absl::StrCat("architectures has ", name,
                                    ": the model here has a head of the vocabulary instead of "
                                    "that of the class"));
    }
  }
}

// Refuses the fields that nothing read, or notes them if they can only be about opaque layers.
absl::Status DecideAboutTheRest(const ModelFacts& facts, ConfigFields& config,
                                std::vector<std::string>* notes) {
  config.MarkRead("tie_word_embeddings");
  if (facts.patch_value_count == 0) NoteOtherHead(config, notes);
  if (HasOnlyOpaqueLayers(facts)) {
    config.NoteWhatIsUnknown("not read, since --opaque gives the sizes of all layers", notes);
  } else {
    config.RefuseWhatIsUnknown(notes);
  }
  return config.status();
}

// Returns the family of a config of Hugging Face without `model_type`. Llama's own files, which
// have names that no configuration class has, and the class of a known family leave no doubt.
std::string FamilyOfOwnNames(ConfigFields& config, std::vector<std::string>* notes) {
  if (config.Has("dim") && config.Has("n_layers") && config.Has("n_heads")) {
    notes->push_back(
        "model_type is missing; dim, n_layers and n_heads are the names of Llama's own files, so "
        "the model is read as llama");
    return "llama";
  }
  for (const std::string& name : config.Texts("architectures")) {
    std::string family = FamilyOfClass(name);
    if (family.empty()) continue;
    notes->push_back(absl::StrCat("model_type is missing; the class ", name,
                                  " in architectures is that of ", family));
    return family;
  }
  FailWithoutFamily(config);
  return "";
}

// Parts of parts that are followed: the thinker of Qwen-Omni has a language model inside.
constexpr int kDeepestParts = 2;

// Reads the language model inside a model of several parts.
absl::StatusOr<ModelFacts> ReadPart(const LanguagePart& part, absl::string_view file_name,
                                    const GivenOpaqueLayers& opaque, int depth,
                                    std::vector<std::string>* notes) {
  ConfigFields config(part.fields, file_name, part.path);
  NoteStoredWeights(part.fields, part.path, config, notes);
  if (depth > 0) {
    std::optional<LanguagePart> inner = FindLanguagePart(part.fields, config, notes);
    PARPLAN_RETURN_IF_ERROR(config.status());
    if (inner.has_value()) {
      inner->path = part.path + inner->path;
      return ReadPart(*inner, file_name, opaque, depth - 1, notes);
    }
  }
  std::string family = config.Text("model_type");
  if (family.empty() && config.status().ok()) family = FamilyOfOwnNames(config, notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  PARPLAN_ASSIGN_OR_RETURN(ModelFacts facts,
                           ReadFields(LanguageFamily(family), false, opaque, config, notes));
  PARPLAN_RETURN_IF_ERROR(DecideAboutTheRest(facts, config, notes));
  return facts;
}

}  // namespace

absl::StatusOr<ModelFacts> ReadModelConfig(const json& object, absl::string_view file_name,
                                           ConfigSource source, const GivenOpaqueLayers& opaque,
                                           std::vector<std::string>* notes) {
  ConfigFields config(object, file_name, "");
  std::string family = config.Text("model_type");
  PARPLAN_RETURN_IF_ERROR(config.status());
  const bool galvatron = family.empty() && source == ConfigSource::kGalvatron;
  if (galvatron) {
    for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      if (!config.Has(key)) continue;
      config.Fail("model_type", "is required beside experts");
      return config.status();
    }
    return ReadFields(FamilyFromKeys(config), galvatron, opaque, config, notes);
  }
  NoteStoredWeights(object, "", config, notes);
  const std::optional<LanguagePart> part = FindLanguagePart(object, config, notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (part.has_value()) return ReadPart(*part, file_name, opaque, kDeepestParts, notes);
  if (family.empty()) family = FamilyOfOwnNames(config, notes);
  PARPLAN_RETURN_IF_ERROR(config.status());
  PARPLAN_ASSIGN_OR_RETURN(ModelFacts facts,
                           ReadFields(LanguageFamily(family), galvatron, opaque, config, notes));
  PARPLAN_RETURN_IF_ERROR(DecideAboutTheRest(facts, config, notes));
  return facts;
}

}  // namespace parplan
