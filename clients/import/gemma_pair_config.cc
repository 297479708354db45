#include "clients/import/gemma_pair_config.h"

#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/family_traits.h"
#include "clients/import/transformer_config.h"

namespace parplan {
namespace {

constexpr char kSecond[] = "t5gemma2";

// Reads the layers of one part, `fields`, with its vocabulary.
ModelFacts ReadPart(const FamilyTraits& traits, ConfigFields& fields,
                    std::vector<std::string>* notes) {
  ModelFacts facts = ReadTransformer(traits, true, {}, fields, notes);
  facts.vocabulary_size = fields.Size({"vocab_size"});
  for (const char* key : {"tie_word_embeddings", "model_type"}) fields.MarkRead(key);
  return facts;
}

int64_t GroupsOf(const TransformerRunFacts& run) {
  return run.key_value_head_count > 0 ? run.key_value_head_count : run.attention_head_count;
}

// Makes a decoder layer one that also reads tokens of an encoder of `encoder_width`. The layer has
// two norms more than a decoder's, of which the definition counts one; keys and values of its
// second attention come from vectors as wide as the encoder.
void AddCrossAttention(int64_t encoder_width, TransformerRunFacts& run) {
  run.extra_parameter_count +=
      run.hidden_size + 2 * GroupsOf(run) * HeadSize(run) * (encoder_width - run.hidden_size);
}

// The same for a layer whose only attention reads the tokens of both parts: the second one, with
// its norm, is none.
void MergeCrossAttention(TransformerRunFacts& run) {
  const int64_t width = run.hidden_size;
  run.extra_parameter_count -=
      width + 2 * width * (run.attention_head_count + GroupsOf(run)) * HeadSize(run);
}

// The objects of both parts; nothing after an error.
std::optional<ConfigFields> PartOf(const char* key, ConfigFields& config) {
  const nlohmann::json* const object = config.Object(key);
  if (object == nullptr) {
    config.Fail(key, "is required: the sizes of this part");
    return std::nullopt;
  }
  return ConfigFields(*object, config.file_name(), absl::StrCat(key, "."));
}

// Returns the language part of T5Gemma 2's encoder, and notes its tower.
std::optional<ConfigFields> TextOfEncoder(ConfigFields& config, std::vector<std::string>* notes) {
  std::optional<ConfigFields> whole = PartOf("encoder", config);
  if (!whole.has_value()) return std::nullopt;
  const nlohmann::json* const text = whole->Object("text_config");
  if (text == nullptr) {
    whole->Fail("text_config", "is required: the sizes of the encoder");
    config.Take(*whole);
    return std::nullopt;
  }
  notes->push_back(
      "encoder.vision_config: this tower is left out; the model is the language model");
  return ConfigFields(*text, config.file_name(), "encoder.text_config.");
}

}  // namespace

bool IsGemmaPair(absl::string_view family) { return family == "t5gemma" || family == kSecond; }

ModelFacts ReadGemmaPair(absl::string_view family, ConfigFields& config,
                         std::vector<std::string>* notes) {
  const bool is_second = family == kSecond;
  std::optional<ConfigFields> encoder_fields =
      is_second ? TextOfEncoder(config, notes) : PartOf("encoder", config);
  std::optional<ConfigFields> decoder_fields = PartOf("decoder", config);
  if (!encoder_fields.has_value() || !decoder_fields.has_value()) return {};
  FamilyTraits traits = *FindFamilyTraits(is_second ? "gemma3_text" : "gemma2");
  // Both parts name this size.
  traits.vocabulary_size = 0;
  const ModelFacts decoder = ReadPart(traits, *decoder_fields, notes);
  traits.is_encoder = true;
  ModelFacts facts = ReadPart(traits, *encoder_fields, notes);
  const bool is_tied = config.Flag({"tie_word_embeddings"}, true);
  const int words = decoder.vocabulary_size;
  if (config.Optional({"vocab_size"}, words) != words || facts.vocabulary_size != words) {
    decoder_fields->Fail("vocab_size", "must be that of the encoder and of the whole model");
  }
  for (ConfigFields* const fields : {&*encoder_fields, &*decoder_fields}) config.Take(*fields);
  if (!config.status().ok()) return facts;
  const int64_t width = facts.runs.front().hidden_size;
  const int64_t decoder_width = decoder.runs.front().hidden_size;
  if (decoder_fields->Optional({"cross_attention_hidden_size"}, static_cast<int>(width)) != width) {
    decoder_fields->Fail("cross_attention_hidden_size",
                         absl::StrCat("must be the width of the encoder, ", width));
  }
  if (is_second && (width != decoder_width || !is_tied)) {
    decoder_fields->Fail("hidden_size", "must be that of the encoder, whose table both use");
  }
  for (ConfigFields* const fields : {&*encoder_fields, &*decoder_fields}) {
    fields->RefuseWhatIsUnknown(notes);
    config.Take(*fields);
  }
  for (TransformerRunFacts& run : facts.runs) {
    // Tokens before each and itself; T5Gemma's number counts those of one side, that of T5Gemma 2
    // those of both.
    if (run.attention_window == 0) continue;
    run.attention_window = is_second ? run.attention_window / 2 + 1 : run.attention_window + 1;
  }
  for (TransformerRunFacts run : decoder.runs) {
    run.kind = v1::LAYER_KIND_CROSS_DECODER;
    if (!run.name.empty()) run.name = absl::StrCat("cross-", run.name);
    if (is_second) {
      MergeCrossAttention(run);
    } else {
      AddCrossAttention(width, run);
    }
    facts.runs.push_back(std::move(run));
  }
  // The encoder's last norm.
  facts.embedding_extra_parameter_count += width;
  facts.head_extra_parameter_count = decoder.head_extra_parameter_count;
  facts.tied_embedding = is_second;
  if (is_second) {
    // The vector of the token behind an image.
    facts.embedding_extra_parameter_count += width;
    notes->push_back(
        "one attention of a decoder layer reads the tokens of both parts: its layers have the "
        "parameters of one, and are priced as if they had two");
  } else if (!is_tied) {
    facts.head_extra_parameter_count += decoder_width * words;
  }
  return facts;
}

}  // namespace parplan
