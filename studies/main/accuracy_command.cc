// `parplan-study accuracy`: predictions against measured runs that others published.
// Needs no server.

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/calibrate/predict_run.h"
#include "clients/calibrate/published_run.h"
#include "clients/planctl/files.h"
#include "parplan/v1/calibration.pb.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/published_calibration.h"
#include "studies/accuracy/accuracy_metrics.h"
#include "studies/accuracy/accuracy_report.h"
#include "studies/main/command.h"

namespace parplan::study {
namespace {

using planctl::ReadFile;
using planctl::WriteFile;
struct AccuracyFlags {
  std::vector<std::string> runs_paths;
  std::vector<std::string> sources;
  std::string calibration_path;
  std::string html_path;
};

absl::StatusOr<std::shared_ptr<const Calibration>> CalibrationAt(const std::string& path) {
  if (path.empty()) return PublishedCalibration();
  if (path == "priors") return Calibration::BuiltIn();
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  v1::Calibration message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &message));
  PARPLAN_ASSIGN_OR_RETURN(Calibration calibration, CalibrationFromProto(message));
  return std::make_shared<const Calibration>(std::move(calibration));
}

absl::Status Accuracy(const Session& session, const AccuracyFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Calibration> calibration,
                           CalibrationAt(flags.calibration_path));
  accuracy::PublishedRuns runs;
  for (const std::string& path : flags.runs_paths) {
    PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    PARPLAN_ASSIGN_OR_RETURN(accuracy::PublishedRuns part,
                             accuracy::ReadPublishedRuns({path, std::move(text)}));
    std::move(part.runs.begin(), part.runs.end(), std::back_inserter(runs.runs));
    std::move(part.skipped.begin(), part.skipped.end(), std::back_inserter(runs.skipped));
  }
  const accuracy::AccuracySummary summary = accuracy::Evaluate(
      runs, flags.sources,
      [&calibration](const accuracy::RunQuestion& question) {
        return accuracy::PredictRun(question, calibration);
      },
      calibration->content().digest.empty() ? "priors" : calibration->content().digest);
  for (const std::string& source : flags.sources) {
    if (summary.sources.count(source) == 0) {
      return FieldError(Reason::kSpecInvalid, "--source",
                        absl::StrCat(absl::StrJoin(flags.runs_paths, " and "),
                                     flags.runs_paths.size() == 1 ? " has" : " have",
                                     " no rows of `", source, "`"));
    }
  }
  if (!flags.html_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(WriteFile(flags.html_path, accuracy::AccuracyHtml(summary)));
    Note(session, absl::StrCat("wrote ", flags.html_path));
  }
  return Print(session,
               session.json ? accuracy::AccuracyJson(summary) : accuracy::AccuracyText(summary));
}

}  // namespace

void AddAccuracyCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<AccuracyFlags>();
  Command command =
      app.AddCommand("accuracy", "Compare predictions with measured runs that others published");
  command.Footer(
      "How to read it: docs/accuracy.md.\nExample:\n"
      "  parplan-study accuracy runs.json modern.json --source vtrain-multi --html accuracy.html");
  command.AddOption("runs", flags->runs_paths, "Files of schema published_runs/1").Required();
  command.AddOption("--source", flags->sources, "Only rows of this source; may be repeated");
  command.AddOption("--calibration", flags->calibration_path,
                    "Calibration file; `priors` for none [what published runs taught]");
  command.AddOption("--html", flags->html_path, "Also write a page with scatter plots");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Accuracy(session, *flags); };
  });
}

}  // namespace parplan::study
