#include "clients/import/hugging_face.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/model_config.h"

namespace parplan {
namespace {

// The last part of a path such as `meta-llama/Llama-2-7b-hf`.
std::string LastPart(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

absl::StatusOr<HuggingFaceImport> ImportHuggingFace(const NamedText& config,
                                                    const ModelFlags& flags) {
  HuggingFaceImport result;
  PARPLAN_ASSIGN_OR_RETURN(const nlohmann::json object,
                           ParseJsonObject(config, Reason::kSpecInvalid));
  PARPLAN_ASSIGN_OR_RETURN(ModelFacts facts, ReadModelConfig(object, config.name, &result.notes));
  facts.model_id = LastPart(TextOf(object, "_name_or_path"));
  if (facts.model_id.empty()) facts.model_id = TextOf(object, "model_type");

  const bool image = facts.patch_value_count > 0;
  if (flags.sequence_lengths.empty() && !image) {
    int shown = -1;
    for (TransformerRunFacts& run : facts.runs) {
      const int allowed = run.sequence_length;
      run.sequence_length =
          allowed == 0 ? kDefaultSequenceLength : std::min(allowed, kLongestDefaultSequenceLength);
      if (allowed == shown) continue;
      shown = allowed;
      if (allowed == 0) {
        result.notes.push_back(absl::StrCat("sequence_length ", run.sequence_length,
                                            " is a default; the config gives none "
                                            "(--sequence-length)"));
      } else if (run.sequence_length < allowed) {
        result.notes.push_back(absl::StrCat("sequence_length ", run.sequence_length,
                                            " taken; the config allows ", allowed,
                                            " (--sequence-length)"));
      }
    }
  }
  PARPLAN_RETURN_IF_ERROR(ApplyModelFlags(flags, &facts));
  if (facts.windowed_layer_count > 0 &&
      facts.attention_window < facts.runs.front().sequence_length) {
    result.notes.push_back(absl::StrCat(
        "attention of ", facts.windowed_layer_count, " layers looks back ", facts.attention_window,
        " tokens; it is priced over all ", facts.runs.front().sequence_length,
        ", so predicted times of these layers are too long (use a --sequence-length of at most the "
        "window for exact times)"));
  }
  PARPLAN_ASSIGN_OR_RETURN(result.model, BuildModelSpec(facts, config.name));
  return result;
}

}  // namespace parplan
