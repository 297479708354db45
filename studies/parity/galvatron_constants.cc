#include "studies/parity/galvatron_constants.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "studies/parity/embedded_files.h"

namespace parplan {
namespace {

using json = nlohmann::ordered_json;

constexpr double kMost = 1e9;

absl::Status Wrong(const std::string& field, absl::string_view rule) {
  return FieldError(Reason::kProfileInvalid, field, rule);
}

absl::StatusOr<json> ParseObject(absl::string_view text) {
  json parsed = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Wrong("constants", "must be a JSON object");
  return parsed;
}

absl::StatusOr<const json*> Object(const json& parent, const std::string& key,
                                   const std::string& path) {
  const auto found = parent.find(key);
  if (found == parent.end() || !found->is_object()) {
    return Wrong(absl::StrCat(path, key), "must be an object");
  }
  return &*found;
}

absl::StatusOr<double> Positive(const json& value, const std::string& path) {
  if (!value.is_number() || !(value.get<double>() > 0.0) || value.get<double>() > kMost) {
    return Wrong(path, "must be a positive number");
  }
  return value.get<double>();
}

absl::StatusOr<double> Number(const json& parent, const std::string& key, const std::string& path) {
  return Positive(parent.value(key, json()), path + key);
}

absl::StatusOr<int> Count(const json& parent, const std::string& key, const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const double number, Number(parent, key, path));
  if (number != std::floor(number) || number > 65536) {
    return Wrong(path + key, "must be a whole number up to 65536");
  }
  return static_cast<int>(number);
}

// `pp2` with `4`, or `2_strided` and `2_consecutive`.
absl::StatusOr<Galvatron2022AllReduce> AllReduce(const std::string& depth, const std::string& group,
                                                 const json& value, const std::string& path) {
  Galvatron2022AllReduce entry;
  absl::string_view depth_text = depth;
  const std::vector<absl::string_view> parts = absl::StrSplit(group, '_');
  const bool known = absl::ConsumePrefix(&depth_text, "pp") &&
                     absl::SimpleAtoi(depth_text, &entry.pipeline_parallel_degree) &&
                     absl::SimpleAtoi(parts[0], &entry.participant_count) &&
                     (parts.size() == 1 ||
                      (parts.size() == 2 && (parts[1] == "strided" || parts[1] == "consecutive")));
  if (!known) return Wrong(path, "must be named like `pp2.4` or `pp2.2_strided`");
  entry.consecutive = parts.size() == 1 || parts[1] == "consecutive";
  PARPLAN_ASSIGN_OR_RETURN(entry.ms_per_mb, Positive(value, path));
  return entry;
}

absl::Status ReadHardware(const json& file, absl::string_view name, Question2022& question) {
  PARPLAN_ASSIGN_OR_RETURN(const json* all, Object(file, "hardware", ""));
  PARPLAN_ASSIGN_OR_RETURN(const json* hardware, Object(*all, std::string(name), "hardware."));
  const std::string path = absl::StrCat("hardware.", name, ".");
  PARPLAN_ASSIGN_OR_RETURN(question.device_count, Count(*hardware, "gpus", path));
  PARPLAN_ASSIGN_OR_RETURN(question.hardware.overlap_slowdown,
                           Number(*hardware, "overlap_slowdown", path));
  if (question.hardware.overlap_slowdown < 1.0) {
    return Wrong(path + "overlap_slowdown", "must be at least 1");
  }
  PARPLAN_ASSIGN_OR_RETURN(question.hardware.backward_over_forward,
                           Number(*hardware, "backward_over_forward", path));
  PARPLAN_ASSIGN_OR_RETURN(const json* depths, Object(*hardware, "allreduce_ms_per_mb", path));
  for (const auto& [depth, groups] : depths->items()) {
    for (const auto& [group, value] : groups.items()) {
      PARPLAN_ASSIGN_OR_RETURN(
          Galvatron2022AllReduce entry,
          AllReduce(depth, group, value,
                    absl::StrCat(path, "allreduce_ms_per_mb.", depth, ".", group)));
      question.hardware.all_reduces.push_back(entry);
    }
  }
  return absl::OkStatus();
}

// A layer's own number, the model's, or that entry of the model's list.
absl::StatusOr<int> CountOf(const json& layer, const json& model, const std::string& key,
                            size_t index, const std::string& path) {
  if (layer.contains(key)) {
    return Count(layer, key, absl::StrCat(path, "layers[", index, "]."));
  }
  const json of_model = model.value(key, json());
  if (!of_model.is_array()) return Count(model, key, path);
  if (index >= of_model.size()) return Wrong(path + key, "must have an entry for each of layers");
  return Count(json{{key, of_model[index]}}, key, path);
}

// Returns the number of patches, without the class token that some counts of a vision transformer's
// tokens have: the predicted messages have none.
int Patches(int token_count) {
  const int side = static_cast<int>(std::lround(std::sqrt(token_count)));
  return side > 1 && side * side + 1 == token_count ? token_count - 1 : token_count;
}

absl::StatusOr<LayerRun2022> ReadLayer(const json& model, const json& entry, size_t index,
                                       absl::string_view name, const std::string& path) {
  const bool is_swin = absl::StartsWith(name, "swin");
  const bool is_vit = absl::StartsWith(name, "vit");
  const std::string here = absl::StrCat(path, "layers[", index, "].");
  LayerRun2022 run;
  PARPLAN_ASSIGN_OR_RETURN(run.layer_count, Count(entry, "count", here));
  run.layer.is_decoder = entry.value("kind", json()) == "decoder";
  PARPLAN_ASSIGN_OR_RETURN(run.layer.parameter_mb, Number(entry, "parameter_mb", here));
  PARPLAN_ASSIGN_OR_RETURN(run.layer.forward_ms_per_sample,
                           Number(entry, "forward_ms_per_sample", here));
  PARPLAN_ASSIGN_OR_RETURN(run.layer.hidden_size, CountOf(entry, model, "hidden", index, path));
  PARPLAN_ASSIGN_OR_RETURN(run.layer.sequence_length,
                           CountOf(entry, model, "sequence_length", index, path));
  if (is_swin && !entry.contains("hidden") && model.value("hidden", json()).is_number()) {
    run.layer.hidden_size <<= std::min<size_t>(index, 8);
  }
  if (is_swin && !entry.contains("sequence_length") &&
      model.value("sequence_length", json()).is_number()) {
    run.layer.sequence_length =
        std::max(1, run.layer.sequence_length >> std::min<size_t>(2 * index, 16));
  }
  if (is_vit) run.layer.sequence_length = Patches(run.layer.sequence_length);
  const json activations = entry.value("activation_mb_per_sample", json());
  if (!activations.is_array() || activations.empty()) {
    return Wrong(here + "activation_mb_per_sample", "must be a list");
  }
  for (const json& each : activations) {
    PARPLAN_ASSIGN_OR_RETURN(const double mb, Positive(each, here + "activation_mb_per_sample"));
    run.layer.activation_mb_per_sample.push_back(mb);
  }
  return run;
}

// Sets the rules and constants that the authors' program has for the family. Returns what is
// assumed for a family that it does not have.
std::string SetFamily(absl::string_view name, Question2022& question) {
  question.micro_batch_rule = MicroBatchRule2022::kVit;
  if (absl::StartsWith(name, "bert")) {
    question.micro_batch_rule = MicroBatchRule2022::kBert;
    question.model.data_parallel_overhead_ms = 100.0 / 24.0;
  } else if (absl::StartsWith(name, "t5")) {
    question.micro_batch_rule = MicroBatchRule2022::kT5;
    question.model.data_parallel_overhead_ms = 60.0 / 24.0;
    question.balances_memory = true;
  } else if (absl::StartsWith(name, "swin")) {
    question.micro_batch_rule = MicroBatchRule2022::kSwin;
    question.balances_memory = true;
  } else if (!absl::StartsWith(name, "vit")) {
    return "its number of micro-batches is not known; that of ViT is taken";
  }
  return "";
}

absl::StatusOr<ModelOf2022> ReadModel(const json& model, const std::string& name, double context_mb,
                                      Question2022 question) {
  const std::string path = absl::StrCat("models.", name, ".");
  ModelOf2022 result{.name = name};
  for (const char* const key : {"other_states_mb", "other_activation_mb_per_sample"}) {
    if (!model.value(key, json()).is_null()) continue;
    result.missing = absl::StrCat(key, " is not known");
    return result;
  }
  PARPLAN_ASSIGN_OR_RETURN(question.model.other_states_mb, Number(model, "other_states_mb", path));
  PARPLAN_ASSIGN_OR_RETURN(question.model.other_activation_mb_per_sample,
                           Number(model, "other_activation_mb_per_sample", path));
  question.model.context_mb = context_mb;
  result.assumed = SetFamily(name, question);
  const json layers = model.value("layers", json());
  if (!layers.is_array() || layers.empty()) return Wrong(path + "layers", "must be a list");
  for (size_t index = 0; index < layers.size(); ++index) {
    if (!layers[index].is_object()) {
      return Wrong(absl::StrCat(path, "layers[", index, "]"), "must be an object");
    }
    PARPLAN_ASSIGN_OR_RETURN(LayerRun2022 run, ReadLayer(model, layers[index], index, name, path));
    question.layers.push_back(std::move(run));
  }
  result.question = std::move(question);
  return result;
}

}  // namespace

absl::string_view DataOf2022(absl::string_view file_name) {
  for (const EmbeddedFile& file : ParityFiles()) {
    if (file.name == file_name) return file.text;
  }
  PARPLAN_CHECK(false);
  return "";
}

absl::StatusOr<std::vector<ModelOf2022>> ParseConstantsOf2022(absl::string_view text,
                                                              absl::string_view hardware) {
  PARPLAN_ASSIGN_OR_RETURN(const json file, ParseObject(text));
  Question2022 question;
  PARPLAN_RETURN_IF_ERROR(ReadHardware(file, hardware, question));
  PARPLAN_ASSIGN_OR_RETURN(const double context_mb, Number(file, "context_mb", ""));
  PARPLAN_ASSIGN_OR_RETURN(const json* models, Object(file, "models", ""));
  std::vector<ModelOf2022> result;
  for (const auto& [name, model] : models->items()) {
    if (!model.is_object()) return Wrong(absl::StrCat("models.", name), "must be an object");
    PARPLAN_ASSIGN_OR_RETURN(ModelOf2022 read, ReadModel(model, name, context_mb, question));
    result.push_back(std::move(read));
  }
  return result;
}

absl::StatusOr<std::vector<PredictionOf2022>> ParsePredictionsOf2022(absl::string_view text) {
  PARPLAN_ASSIGN_OR_RETURN(const json file, ParseObject(text));
  PARPLAN_ASSIGN_OR_RETURN(const json* tables, Object(file, "tables", ""));
  std::vector<PredictionOf2022> cells;
  for (const auto& [model, subspaces] : tables->items()) {
    for (const Subspace2022 subspace : kSubspaces2022) {
      const std::string name(SubspaceName(subspace));
      const std::string path = absl::StrCat("tables.", model, ".");
      if (!subspaces.is_object() || !subspaces.contains(name)) continue;
      PARPLAN_ASSIGN_OR_RETURN(const json* budgets, Object(subspaces, name, path));
      for (const auto& [budget, value] : budgets->items()) {
        PredictionOf2022 cell{.model = model, .subspace = name};
        const std::string here = absl::StrCat(path, name, ".", budget);
        if (!absl::SimpleAtoi(budget, &cell.budget_gb)) return Wrong(here, "must be named in GB");
        if (value.is_object()) {
          PARPLAN_ASSIGN_OR_RETURN(cell.samples_per_second,
                                   Number(value, "samples_per_s", here + "."));
          PARPLAN_ASSIGN_OR_RETURN(cell.global_batch_size,
                                   Count(value, "global_batch", here + "."));
        } else if (!value.is_null()) {
          return Wrong(here, "must be an object or null");
        }
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

}  // namespace parplan
