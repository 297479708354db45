#include "clients/import/hugging_face.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/model_config.h"
#include "clients/import/python_json.h"
#include "planner/model/parameter_parts.h"
#include "proto/wire/model_wire.h"

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

// Says how many parameters are those of layers that predict further tokens, which published numbers
// leave out.
void NotePredictions(const v1::ModelSpec& message, std::vector<std::string>* notes) {
  const absl::StatusOr<ModelSpec> model = ModelFromProto(message);
  if (!model.ok()) return;
  const int64_t count = ParametersByPart(*model).prediction;
  if (count == 0) return;
  notes->push_back(absl::StrCat(count, " of ", model->parameter_count(),
                                " parameters are in layers that predict further ",
                                "tokens; --prediction-layers 0 leaves these layers out"));
}

}  // namespace

absl::StatusOr<HuggingFaceImport> ImportHuggingFace(const NamedText& config,
                                                    const ModelFlags& flags,
                                                    const GivenOpaqueLayers& opaque) {
  HuggingFaceImport result;
  PARPLAN_ASSIGN_OR_RETURN(
      const nlohmann::json object,
      ParseJsonObject({config.name, QuotePythonNumbers(config.text)}, Reason::kSpecInvalid));
  PARPLAN_ASSIGN_OR_RETURN(
      ModelFacts facts,
      ReadModelConfig(object, config.name, ConfigSource::kHuggingFace, opaque, &result.notes));
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
  DropLongWindows(&facts);
  PARPLAN_ASSIGN_OR_RETURN(result.model, BuildModelSpec(facts, config.name));
  NotePredictions(result.model, &result.notes);
  for (std::string& note : result.notes) note = EscapeControls(note);
  return result;
}

}  // namespace parplan
