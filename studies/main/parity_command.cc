// `parplan-study parity`: computes again the predictions of Galvatron of 2022 with its own
// constants, and compares them with those of its authors' program, run again for this project
// (docs/papers.md 1.8). Constants and predictions are in the program. Needs no server.

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/text_layout.h"
#include "studies/main/command.h"
#include "studies/parity/galvatron_constants.h"

namespace parplan::study {
namespace {

using nlohmann::ordered_json;
using planctl::ReadFile;
using planctl::WrapGist;

constexpr char kConstants[] = "constants.json";
constexpr char kPredictions[] = "predicted_throughput.json";
constexpr int kMbPerGb = 1024;
// Largest relative difference at which a prediction agrees.
constexpr double kTolerance = 0.01;

struct ParityFlags {
  // Empty, here and for `expect_path`: the file inside the program.
  std::string constants_path;
  std::string model;
  std::string hardware = kHardwareOf2022;
  std::string expect_path;
  // Whether there is nothing to compare with, on purpose.
  bool predict_only = false;
  // The rule that all models take in place of their own, if set.
  std::optional<MicroBatchRule2022> micro_batch_rule;
  std::vector<int> budgets_gb = {8, 12, 16, 20};
};

// A cell of the table.
struct ParityCell {
  std::string model;
  std::string subspace;
  int budget_gb = 0;
  std::optional<Plan2022> plan;
  // Absent where there is nothing to compare with.
  const PredictionOf2022* expected = nullptr;

  bool agrees() const {
    if (expected == nullptr) return true;
    if (plan.has_value() != expected->samples_per_second.has_value()) return false;
    return !plan || std::abs(DifferenceRatio()) <= kTolerance;
  }
  // REQUIRES: both have a plan.
  double DifferenceRatio() const {
    return plan->samples_per_second / *expected->samples_per_second - 1.0;
  }
};

// Reads the file at `path`; if that is empty, the one of this name inside the program.
absl::StatusOr<std::string> TextAt(const std::string& path, absl::string_view built_in) {
  if (path.empty()) return std::string(DataOf2022(built_in));
  return ReadFile(path);
}

absl::StatusOr<std::vector<ModelOf2022>> Models(const ParityFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, TextAt(flags.constants_path, kConstants));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<ModelOf2022> models,
                           ParseConstantsOf2022(text, flags.hardware));
  const std::string source = flags.constants_path.empty() ? kConstants : flags.constants_path;
  if (flags.micro_batch_rule) {
    for (ModelOf2022& model : models) {
      if (model.question) model.question->micro_batch_rule = *flags.micro_batch_rule;
      model.assumed = "its number of micro-batches is that of --micro-batches";
    }
  }
  if (flags.model.empty()) return models;
  for (ModelOf2022& model : models) {
    if (model.name != flags.model) continue;
    if (!model.question) {
      return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
                       absl::StrCat(source, ": models.", model.name, ": ", model.missing,
                                    "; add it to the constants"),
                       {{"count", "1"}, {"missing0", model.missing}});
    }
    return std::vector<ModelOf2022>{std::move(model)};
  }
  std::string names;
  for (const ModelOf2022& model : models)
    absl::StrAppend(&names, names.empty() ? "" : ", ", model.name);
  return FieldError(Reason::kSpecInvalid, "--model",
                    absl::StrCat("`", flags.model, "` is not in ", source, "; use one of ", names));
}

absl::StatusOr<std::vector<ParityCell>> Cells(const ParityFlags& flags,
                                              const std::vector<ModelOf2022>& models,
                                              const std::vector<PredictionOf2022>& expected) {
  std::vector<int> budgets_mb;
  for (int budget : flags.budgets_gb) budgets_mb.push_back(budget * kMbPerGb);
  std::vector<ParityCell> cells;
  for (const ModelOf2022& model : models) {
    if (!model.question) continue;
    for (const Subspace2022 subspace : kSubspaces2022) {
      PARPLAN_ASSIGN_OR_RETURN(std::vector<std::optional<Plan2022>> plans,
                               Search2022(*model.question, subspace, budgets_mb));
      for (size_t index = 0; index < plans.size(); ++index) {
        ParityCell cell{model.name, std::string(SubspaceName(subspace)), flags.budgets_gb[index],
                        std::move(plans[index])};
        for (const PredictionOf2022& each : expected) {
          if (each.model == cell.model && each.subspace == cell.subspace &&
              each.budget_gb == cell.budget_gb) {
            cell.expected = &each;
          }
        }
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

// The outcome of the comparison of all cells.
struct Agreement {
  explicit Agreement(const std::vector<ParityCell>& cells) {
    for (const ParityCell& cell : cells) {
      if (cell.expected == nullptr) continue;
      ++compared;
      if (cell.agrees()) ++agreed;
      if (cell.plan && cell.expected->samples_per_second) {
        worst = std::max(worst, std::abs(cell.DifferenceRatio()));
      }
    }
  }

  int compared = 0;
  int agreed = 0;
  // Largest relative difference of the cells that have plans on both sides.
  double worst = 0.0;
};

std::string RateText(const std::optional<double>& rate, const std::optional<int64_t>& batch) {
  if (!rate) return "out of memory";
  return absl::StrFormat("%.2f (%d)", *rate, batch.value_or(0));
}

std::string ParityText(const std::vector<ModelOf2022>& models,
                       const std::vector<ParityCell>& cells) {
  std::string text;
  for (const ModelOf2022& model : models) {
    absl::StrAppend(&text, model.name);
    if (!model.question) {
      absl::StrAppend(&text, ": not searched, ", model.missing, "\n\n");
      continue;
    }
    absl::StrAppend(&text, ", samples/s (batch)", model.assumed.empty() ? "" : "; ", model.assumed,
                    "\n");
    for (const ParityCell& cell : cells) {
      if (cell.model != model.name) continue;
      std::optional<double> rate;
      std::optional<int64_t> batch;
      if (cell.plan) rate = cell.plan->samples_per_second;
      if (cell.plan) batch = cell.plan->global_batch_size;
      std::string line = absl::StrFormat("  %-9s %3d GB  %-14s", cell.subspace, cell.budget_gb,
                                         RateText(rate, batch));
      if (cell.expected != nullptr) {
        absl::StrAppendFormat(
            &line, "  expected %-14s",
            RateText(cell.expected->samples_per_second, cell.expected->global_batch_size));
        absl::StrAppend(&line, cell.agrees() ? "  agrees" : "  DIFFERS");
      }
      absl::StrAppend(&text, line, "\n");
      if (cell.plan) absl::StrAppend(&text, "      ", WrapGist(cell.plan->Gist(), 6), "\n");
    }
    absl::StrAppend(&text, "\n");
  }
  const Agreement agreement(cells);
  if (agreement.compared == 0) return text + "Nothing was compared.\n";
  absl::StrAppendFormat(&text,
                        "%d of %d cells agree (same out of memory, within %.0f %%); the largest "
                        "difference is %.2f %%.\n",
                        agreement.agreed, agreement.compared, 100.0 * kTolerance,
                        100.0 * agreement.worst);
  return text;
}

ordered_json ParityJson(const std::vector<ModelOf2022>& models,
                        const std::vector<ParityCell>& cells) {
  ordered_json result = {{"models", ordered_json::array()}, {"cells", ordered_json::array()}};
  for (const ModelOf2022& model : models) {
    ordered_json entry = {{"name", model.name}};
    if (!model.question) entry["notSearched"] = model.missing;
    if (!model.assumed.empty()) entry["assumed"] = model.assumed;
    result["models"].push_back(entry);
  }
  for (const ParityCell& cell : cells) {
    ordered_json entry = {{"model", cell.model},
                          {"subspace", cell.subspace},
                          {"budgetGb", cell.budget_gb},
                          {"samplesPerSecond", nullptr},
                          {"globalBatchSize", nullptr}};
    if (cell.plan) {
      entry["samplesPerSecond"] = cell.plan->samples_per_second;
      entry["globalBatchSize"] = cell.plan->global_batch_size;
      entry["pipelineParallelDegree"] = cell.plan->stages.size();
      entry["plan"] = cell.plan->Gist();
    }
    if (cell.expected != nullptr) {
      entry["expectedSamplesPerSecond"] = nullptr;
      if (cell.expected->samples_per_second) {
        entry["expectedSamplesPerSecond"] = *cell.expected->samples_per_second;
        entry["expectedGlobalBatchSize"] = cell.expected->global_batch_size.value_or(0);
      }
      entry["agrees"] = cell.agrees();
    }
    result["cells"].push_back(std::move(entry));
  }
  const Agreement agreement(cells);
  result["comparedCellCount"] = agreement.compared;
  result["agreeingCellCount"] = agreement.agreed;
  result["allAgree"] = agreement.compared > 0 && agreement.agreed == agreement.compared;
  return result;
}

absl::Status Parity(const Session& session, const ParityFlags& flags) {
  for (int budget : flags.budgets_gb) {
    if (budget >= 1 && budget <= 1024) continue;
    return FieldError(Reason::kSpecInvalid, "--budget", "must be 1 to 1024 GB");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ModelOf2022> models, Models(flags));
  std::vector<PredictionOf2022> expected;
  if (!flags.predict_only) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string text, TextAt(flags.expect_path, kPredictions));
    PARPLAN_ASSIGN_OR_RETURN(expected, ParsePredictionsOf2022(text));
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<ParityCell> cells, Cells(flags, models, expected));
  if (!flags.predict_only && Agreement(cells).compared == 0) {
    return FieldError(Reason::kSpecInvalid, "--expect",
                      "has no cell of these models and budgets, so nothing was compared; name "
                      "other --model or --budget, or ask for --predict-only");
  }
  const std::string answer =
      session.json ? ParityJson(models, cells).dump(2) + "\n" : ParityText(models, cells);
  PARPLAN_RETURN_IF_ERROR(Print(session, answer));
  for (const ParityCell& cell : cells) {
    if (cell.agrees()) continue;
    return MakeError(absl::StatusCode::kInternal, Reason::kCheckFailed,
                     absl::StrCat("predictions of ", cell.model, " in ", cell.subspace, " at ",
                                  cell.budget_gb, " GB differ; see the table"),
                     {{"fact", "prediction of 2022"}});
  }
  return absl::OkStatus();
}

}  // namespace

void AddParityCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ParityFlags>();
  Command parity = app.AddCommand(
      "parity",
      "Compute Galvatron's predictions of 2022 again, and compare with its authors' program");
  parity.Footer(
      "Without files: the constants of that program, and what it predicts with them when it is run "
      "again (studies/parity/data). These are no measurements.\n"
      "Exit code 1 where a cell differs: another out of memory, or more than 1 % in samples a "
      "second; 2 where there is nothing to compare.\n"
      "Example:\n  parplan-study parity --model bert-huge-32");
  parity.AddOption("--constants", flags->constants_path,
                   "Profiled constants, a JSON file [those of 2022]");
  parity.AddOption("--model", flags->model, "One model of the file [all]");
  parity.AddOption("--hardware", flags->hardware, "Hardware of the file [rtx_titan_8]");
  parity
      .AddOption("--expect", flags->expect_path,
                 "Predictions to compare with, a JSON file [those of the authors' program]")
      .Check(shell::NotEmpty());
  parity.AddFlag("--predict-only", flags->predict_only, "Compare with nothing")
      .Excludes(parity.GetOption("--expect"));
  parity.AddChoice("--micro-batches", flags->micro_batch_rule,
                   {{"bert", MicroBatchRule2022::kBert},
                    {"t5", MicroBatchRule2022::kT5},
                    {"vit", MicroBatchRule2022::kVit},
                    {"swin", MicroBatchRule2022::kSwin}},
                   "Rule for the number of micro-batches, for all models [each its own]");
  parity.AddOption("--budget", flags->budgets_gb, "GB a device, several times [8 12 16 20]");
  parity.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Parity(session, *flags); };
  });
}

}  // namespace parplan::study
