// `parplan-study models`: imports every configuration of a folder as `planctl import hf` does, and
// compares the numbers of parameters with expected ones. Needs no server.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/hugging_face.h"
#include "clients/planctl/files.h"
#include "planner/model/parameter_parts.h"
#include "proto/wire/model_wire.h"
#include "studies/main/command.h"

namespace parplan::study {
namespace {

using nlohmann::ordered_json;

// Largest relative difference at which a number of parameters agrees (issue 15).
constexpr double kParameterTolerance = 0.005;

struct ModelsFlags {
  std::string folder;
  std::string expect_path;
};

struct ExpectedModel {
  std::optional<int64_t> parameter_count;
  // Published by the model's authors, and rounded by them.
  std::optional<double> published_billions;
  std::string refused_field;
};

// One configuration: imported with its parameters, or refused.
struct ModelsRow {
  std::string config;
  // Without layers that predict further tokens, as numbers are published.
  std::optional<int64_t> parameter_count;
  int64_t prediction_parameter_count = 0;
  // Some layers are opaque.
  bool is_opaque = false;
  std::vector<std::string> notes;
  std::string refusal;
  std::optional<ExpectedModel> expected;

  std::optional<double> DifferenceRatio() const {
    if (!parameter_count || !expected || !expected->parameter_count) return std::nullopt;
    return static_cast<double>(*parameter_count) / static_cast<double>(*expected->parameter_count) -
           1.0;
  }

  // Difference to the published number, which is rounded.
  std::optional<double> PublishedRatio() const {
    if (!parameter_count || !expected || !expected->published_billions) return std::nullopt;
    return static_cast<double>(*parameter_count) / (1e9 * *expected->published_billions) - 1.0;
  }

  const char* outcome() const {
    return !parameter_count ? "refused" : is_opaque ? "opaque" : "imported";
  }

  bool agrees() const {
    if (!expected) return true;
    if (const std::optional<double> ratio = DifferenceRatio()) {
      return std::abs(*ratio) <= kParameterTolerance;
    }
    return !parameter_count && !expected->parameter_count &&
           absl::StrContains(refusal, absl::StrCat(": ", expected->refused_field, ":"));
  }
};

absl::StatusOr<std::map<std::string, ExpectedModel>> ReadExpectedModels(const std::string& path) {
  std::map<std::string, ExpectedModel> result;
  if (path.empty()) return result;
  PARPLAN_ASSIGN_OR_RETURN(std::string text, planctl::ReadFile(path));
  PARPLAN_ASSIGN_OR_RETURN(const nlohmann::json object,
                           ParseJsonObject({path, std::move(text)}, Reason::kSpecInvalid));
  const auto models = object.find("models");
  if (models == object.end() || !models->is_array()) {
    return FieldError(Reason::kSpecInvalid, absl::StrCat(path, ": models"), "must be a list");
  }
  for (size_t i = 0; i < models->size(); ++i) {
    const nlohmann::json& entry = (*models)[i];
    const std::string field = absl::StrCat(path, ": models[", i, "]");
    const auto is_text = [&entry](const char* key) {
      return entry.contains(key) && entry[key].is_string();
    };
    if (!entry.is_object() || !is_text("config")) {
      return FieldError(Reason::kSpecInvalid, field, "must be an object with the text `config`");
    }
    ExpectedModel expected;
    if (entry.contains("parameters") && entry["parameters"].is_number_integer() &&
        entry["parameters"].get<int64_t>() > 0) {
      expected.parameter_count = entry["parameters"].get<int64_t>();
    } else if (is_text("refused_field")) {
      expected.refused_field = entry["refused_field"].get<std::string>();
    } else {
      return FieldError(Reason::kSpecInvalid, field,
                        "must have `parameters`, at least 1, or the text `refused_field`");
    }
    if (const auto published = entry.find("published_billions"); published != entry.end()) {
      PARPLAN_ASSIGN_OR_RETURN(expected.published_billions,
                               ReadNumber(*published, Reason::kSpecInvalid, path,
                                          absl::StrCat("models[", i, "].published_billions")));
    }
    result[entry["config"].get<std::string>()] = std::move(expected);
  }
  return result;
}

absl::StatusOr<std::vector<ModelsRow>> ModelsRows(const ModelsFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(auto expected, ReadExpectedModels(flags.expect_path));
  std::error_code error;
  std::vector<std::string> paths;
  std::filesystem::directory_iterator file(flags.folder, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    if (file->path().extension() == ".json") paths.push_back(file->path().string());
  }
  if (error) {
    return FieldError(Reason::kSpecInvalid, flags.folder,
                      absl::StrCat("must be a folder of configurations: ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<ModelsRow> rows;
  for (const std::string& path : paths) {
    ModelsRow row;
    row.config = std::filesystem::path(path).stem().string();
    PARPLAN_ASSIGN_OR_RETURN(std::string text, planctl::ReadFile(path));
    const absl::StatusOr<HuggingFaceImport> import = ImportHuggingFace(
        {std::filesystem::path(path).filename().string(), std::move(text)}, ModelFlags());
    if (import.ok()) {
      PARPLAN_ASSIGN_OR_RETURN(const ModelSpec model, ModelFromProto(import->model));
      const ParameterParts parts = ParametersByPart(model);
      row.prediction_parameter_count = parts.prediction;
      row.parameter_count = model.parameter_count() - parts.prediction;
      row.is_opaque = std::any_of(
          model.layer_definitions().begin(), model.layer_definitions().end(),
          [](const LayerDefinition& layer) { return layer.kind == LayerKind::kOpaque; });
      row.notes = import->notes;
    } else {
      row.refusal = std::string(import.status().message());
    }
    if (const auto found = expected.find(row.config); found != expected.end()) {
      row.expected = found->second;
      expected.erase(found);
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    return FieldError(Reason::kSpecInvalid, flags.folder, "has no file that ends in .json");
  }
  if (!expected.empty()) {
    return FieldError(Reason::kSpecInvalid, flags.expect_path,
                      absl::StrCat("expects `", expected.begin()->first, "`, which ", flags.folder,
                                   " does not have"));
  }
  return rows;
}

std::string ModelsText(const std::vector<ModelsRow>& rows) {
  std::string text =
      absl::StrFormat("%-20s %-9s %16s %16s %9s %11s %9s\n", "configuration", "outcome",
                      "parameters", "by hand", "off by", "published", "off by");
  int imported = 0, compared = 0, agreed = 0;
  for (const ModelsRow& row : rows) {
    const auto percent = [](std::optional<double> ratio) {
      return ratio ? absl::StrFormat("%.3f %%", 100.0 * *ratio) : std::string("-");
    };
    absl::StrAppendFormat(&text, "%-20s %-9s %16s %16s %9s %11s %9s%s\n", row.config, row.outcome(),
                          row.parameter_count ? absl::StrCat(*row.parameter_count) : "-",
                          !row.expected ? "-"
                          : row.expected->parameter_count
                              ? absl::StrCat(*row.expected->parameter_count)
                              : "refused",
                          percent(row.DifferenceRatio()),
                          row.expected && row.expected->published_billions
                              ? absl::StrCat(*row.expected->published_billions, " B")
                              : "-",
                          percent(row.PublishedRatio()), row.agrees() ? "" : "  DIFFERS");
    if (row.prediction_parameter_count > 0) {
      absl::StrAppend(&text, "    and ", row.prediction_parameter_count,
                      " in layers that predict further tokens\n");
    }
    if (!row.refusal.empty()) absl::StrAppend(&text, "    ", row.refusal, "\n");
    for (const std::string& note : row.notes) absl::StrAppend(&text, "    note: ", note, "\n");
    imported += row.parameter_count.has_value();
    compared += row.expected.has_value();
    agreed += row.expected.has_value() && row.agrees();
  }
  absl::StrAppendFormat(&text, "\n%d of %d configurations are imported", imported, rows.size());
  if (compared > 0) {
    absl::StrAppendFormat(&text, "; %d of %d agree with what is expected, within %.1f %%", agreed,
                          compared, 100.0 * kParameterTolerance);
  }
  return text + ".\n";
}

ordered_json ModelsJson(const std::vector<ModelsRow>& rows) {
  ordered_json result = {{"models", ordered_json::array()}};
  bool all_agree = true;
  for (const ModelsRow& row : rows) {
    ordered_json entry = {{"config", row.config},
                          {"outcome", row.outcome()},
                          {"parameters", nullptr},
                          {"notes", row.notes}};
    if (row.prediction_parameter_count > 0) {
      entry["predictionParameters"] = row.prediction_parameter_count;
    }
    if (row.parameter_count) entry["parameters"] = *row.parameter_count;
    if (!row.refusal.empty()) entry["refusal"] = row.refusal;
    if (row.expected) {
      entry["expectedParameters"] = nullptr;
      if (row.expected->parameter_count) {
        entry["expectedParameters"] = *row.expected->parameter_count;
      } else {
        entry["expectedRefusedField"] = row.expected->refused_field;
      }
      if (const std::optional<double> ratio = row.DifferenceRatio()) {
        entry["differenceRatio"] = *ratio;
      }
      if (row.expected->published_billions) {
        entry["publishedBillions"] = *row.expected->published_billions;
      }
      if (const std::optional<double> ratio = row.PublishedRatio()) {
        entry["publishedDifferenceRatio"] = *ratio;
      }
      entry["agrees"] = row.agrees();
      all_agree = all_agree && row.agrees();
    }
    result["models"].push_back(std::move(entry));
  }
  result["allAgree"] = all_agree;
  return result;
}

absl::Status Models(const Session& session, const ModelsFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ModelsRow> rows, ModelsRows(flags));
  PARPLAN_RETURN_IF_ERROR(Print(
      session,
      session.json
          ? ModelsJson(rows).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
          : ModelsText(rows)));
  for (const ModelsRow& row : rows) {
    if (row.agrees()) continue;
    return MakeError(
        absl::StatusCode::kInternal, Reason::kCheckFailed,
        absl::StrCat("the import of ", row.config, " differs from what is expected; see the table"),
        {{"fact", "number of parameters"}});
  }
  return absl::OkStatus();
}

}  // namespace

void AddModelsCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ModelsFlags>();
  Command models = app.AddCommand(
      "models", "Import every configuration of a folder, and compare numbers of parameters");
  models.Footer(
      "Exit code 1 where a model differs from --expect: by more than 0.5 % in its number of "
      "parameters, or refused where it should not be, or for another field.\n"
      "Example:\n  parplan-study models tests/clients/import/data \\\n"
      "    --expect tests/clients/import/golden/model_parameters.json");
  models.AddOption("folder", flags->folder, "Folder of config.json files, each of its own name")
      .Required();
  models.AddOption("--expect", flags->expect_path,
                   "Expected numbers of parameters and refused fields, a JSON file");
  models.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Models(session, *flags); };
  });
}

}  // namespace parplan::study
