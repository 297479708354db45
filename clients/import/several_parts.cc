#include "clients/import/several_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/import/family_traits.h"

namespace parplan {
namespace {

using nlohmann::json;

// Sizes that a family takes if its part of a file is silent: those of the configuration classes of
// Hugging Face Transformers 5.24.
struct DefaultSizes {
  const char* family;
  int layer_count;
  int hidden_size;
  int feed_forward_size;
  int attention_head_count;
  // 0: as many as heads.
  int key_value_head_count;
  int vocabulary_size;
};

constexpr DefaultSizes kDefaults[] = {
    {"cohere2", 40, 8192, 22528, 64, 0, 256000},     {"gemma", 28, 3072, 24576, 16, 16, 256000},
    {"gemma2", 26, 2304, 9216, 8, 4, 256000},        {"gemma3_text", 26, 2304, 9216, 8, 4, 262208},
    {"gemma3n_text", 35, 2048, 16384, 8, 2, 262400}, {"gemma4_text", 30, 2304, 9216, 8, 4, 262144},
    {"llama", 32, 4096, 11008, 32, 0, 32000},        {"mistral", 32, 4096, 14336, 32, 8, 32000},
    {"mixtral", 32, 4096, 14336, 32, 8, 32000},      {"phi3", 32, 3072, 8192, 32, 0, 32064},
    {"qwen2", 32, 4096, 22016, 32, 32, 151936},      {"qwen3", 32, 4096, 22016, 32, 32, 151936},
};

// Fills in what the language model leaves to its family, and says so.
void FillInDefaults(json& fields, const std::string& path, std::vector<std::string>* notes) {
  const auto type = fields.find("model_type");
  if (type == fields.end() || !type->is_string()) return;
  const std::string family = LanguageFamily(type->get<std::string>());
  const auto* const known =
      std::find_if(std::begin(kDefaults), std::end(kDefaults),
                   [&family](const DefaultSizes& entry) { return family == entry.family; });
  if (known == std::end(kDefaults)) return;
  const std::pair<const char*, int> sizes[] = {
      {"num_hidden_layers", known->layer_count},
      {"hidden_size", known->hidden_size},
      {"intermediate_size", known->feed_forward_size},
      {"num_attention_heads", known->attention_head_count},
      {"num_key_value_heads", known->key_value_head_count},
      {"vocab_size", known->vocabulary_size},
  };
  std::vector<std::string> filled;
  for (const auto& [key, size] : sizes) {
    if (fields.contains(key) || size == 0) continue;
    fields[key] = size;
    filled.push_back(absl::StrCat(key, " ", size));
  }
  if (filled.empty()) return;
  notes->push_back(absl::StrCat(path, " leaves these to the defaults of ", family, ": ",
                                absl::StrJoin(filled, ", ")));
}

// Names a part that is no language model, with its sizes.
void NoteTower(const char* key, const json& tower, std::vector<std::string>* notes) {
  std::string shown;
  for (const char* size :
       {"num_hidden_layers", "depth", "encoder_layers", "hidden_size", "embed_dim", "d_model"}) {
    if (!tower.contains(size) || !tower[size].is_number_integer()) continue;
    absl::StrAppend(&shown, shown.empty() ? " (" : ", ", size, " ", tower[size].dump());
  }
  if (!shown.empty()) shown += ")";
  notes->push_back(
      absl::StrCat(key, shown, ": this tower is left out; the model is the language model"));
}

// Names all other parts of the model, and takes the fields that are about them as read.
void NoteTowers(const json& whole, ConfigFields& config, std::vector<std::string>* notes) {
  for (const char* key : {"vision_config", "audio_config", "visual", "vision_tower_config",
                          "perceiver_config", "qformer_config", "vq_config"}) {
    const json* const tower = config.Object(key);
    if (tower != nullptr) NoteTower(key, *tower, notes);
  }
  // LLaVA's first files name a tower beside the fields of the language model.
  if (config.IsText("mm_vision_tower")) {
    config.Note("mm_vision_tower", "this tower is left out; the model is the language model",
                notes);
  }
  // Projections between towers, and the tokens that stand for images.
  for (const auto& [key, value] : whole.items()) {
    for (const char* start :
         {"vision_", "image_", "video_", "audio_", "projector_", "mm_", "multimodal_", "spatial_",
          "boi_", "eoi_", "boa_", "use_mm_", "vit_", "anyres_"}) {
      if (absl::StartsWith(key, start)) config.MarkRead(key.c_str());
    }
  }
}

// Returns whether release 5 of transformers or a later one wrote the file.
bool IsOfRelease5(const json& whole) {
  const auto version = whole.find("transformers_version");
  if (version == whole.end() || !version->is_string()) return false;
  const std::string& text = version->get_ref<const std::string&>();
  int release = 0;
  return absl::SimpleAtoi(text.substr(0, text.find('.')), &release) && release >= 5;
}

}  // namespace

std::optional<LanguagePart> FindLanguagePart(const json& whole, ConfigFields& config,
                                             std::vector<std::string>* notes) {
  NoteTowers(whole, config, notes);
  const json* inner = nullptr;
  LanguagePart part;
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    inner = config.Object(key);
    if (inner != nullptr && inner->empty()) inner = nullptr;
    if (inner == nullptr) continue;
    part.path = absl::StrCat(key, ".");
    break;
  }
  if (inner == nullptr) return std::nullopt;
  part.fields = *inner;
  for (const char* key : {"vocab_size", "tie_word_embeddings", "architectures", "hidden_size"}) {
    const bool is_silent = !part.fields.contains(key) || part.fields[key].is_null();
    if (is_silent && config.Has(key)) part.fields[key] = whole[key];
    if (key == absl::string_view("tie_word_embeddings") && config.Has(key) &&
        part.fields[key] != whole[key]) {
      // Classes of release 5 ask the whole model, and those before it the language model.
      const bool asks_whole = IsOfRelease5(whole);
      notes->push_back(absl::StrCat(key, " of the whole model is not that of ", part.path, key,
                                    asks_whole ? "; the former" : ", which",
                                    " is taken; releases of transformers differ",
                                    asks_whole ? ", and one from 5 on wrote the file" : ""));
      if (asks_whole) part.fields[key] = whole[key];
    }
    config.MarkRead(key);
  }
  const bool names_no_type =
      !part.fields.contains("model_type") || part.fields["model_type"].is_null();
  if (names_no_type && whole.contains("model_type")) {
    part.fields["model_type"] = whole["model_type"];
  }
  std::string name = part.path;
  name.pop_back();
  FillInDefaults(part.fields, name, notes);
  config.NoteWhatIsUnknown("these fields are about other parts than the language model", notes);
  return part;
}

}  // namespace parplan
