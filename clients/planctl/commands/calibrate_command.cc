// `planctl calibrate`: a calibration from measured runs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/calibrate/calibrate_runs.h"
#include "clients/calibrate/execution_runs.h"
#include "clients/calibrate/published_measured_runs.h"
#include "clients/calibrate/published_run.h"
#include "clients/calibrate/run_slice.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "parplan/v1/execution_service.pb.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/published_calibration.h"
#include "proto/wire/version.h"

namespace parplan::planctl {
namespace {

struct CalibrateFlags {
  std::vector<std::string> runs_paths;
  std::string executions_path;
  std::string from_path;
  std::vector<std::string> under_paths;
  // The rest of these sources, and every other source, stays an examination.
  std::string time_slice = kPublishedTimeSlice;
  std::string memory_slice = kPublishedMemorySlice;
  std::string fit_time;
  std::string out_path;
};

absl::StatusOr<std::shared_ptr<const Calibration>> ReadBase(const std::string& path) {
  if (path.empty()) return Calibration::BuiltIn();
  PARPLAN_ASSIGN_OR_RETURN(const v1::Calibration message, ReadCalibration(path));
  PARPLAN_ASSIGN_OR_RETURN(Calibration calibration, CalibrationFromProto(message, path));
  return std::make_shared<const Calibration>(std::move(calibration));
}

absl::Status AddExecutions(const CalibrateFlags& flags,
                           const std::shared_ptr<const Calibration>& base,
                           std::vector<MeasuredRun>& runs) {
  const std::string& path = flags.executions_path;
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  // Executions may have been predicted under the built-in calibration, if none was active.
  std::vector<std::shared_ptr<const Calibration>> others = {PublishedCalibration()};
  for (const std::string& under : flags.under_paths) {
    PARPLAN_ASSIGN_OR_RETURN(others.emplace_back(), ReadBase(under));
  }
  v1::ListExecutionsResponse executions;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &executions));
  PARPLAN_ASSIGN_OR_RETURN(std::vector<MeasuredRun> more,
                           RunsOfExecutions(executions, base, others));
  std::move(more.begin(), more.end(), std::back_inserter(runs));
  return absl::OkStatus();
}

std::string ScopeText(const CalibrationScope& scope) {
  std::string text = scope.device_family;
  if (!scope.cluster.empty()) absl::StrAppend(&text, text.empty() ? "" : " in ", scope.cluster);
  if (scope.layer_kind.has_value()) {
    absl::StrAppend(&text, " ", v1::LayerKind_Name(static_cast<v1::LayerKind>(*scope.layer_kind)));
  }
  return text.empty() ? "everywhere" : text;
}

const char* QuantityName(ResidualQuantity quantity) {
  return quantity == ResidualQuantity::kStepDuration ? "step" : "memory";
}

// Whether runs had a say; the others are as they were.
bool HasEvidence(const FittedCoefficient& coefficient) {
  return coefficient.fitted.evidence_count > 0;
}

std::string ResultText(const CalibrateResult& result) {
  std::string text = absl::StrFormat("%-26s %-16s %11s %11s %7s %5s  %s\n", "coefficient", "scope",
                                     "before", "fitted", "+-", "runs", "bounds");
  for (const FittedCoefficient& coefficient : result.coefficients) {
    if (!HasEvidence(coefficient)) continue;
    const FitParameter& parameter = coefficient.parameter;
    absl::StrAppendFormat(&text, "%-26s %-16s %11.4g %11.4g %6.1f%% %5d  %g to %g\n",
                          std::string(InfoOf(parameter.coefficient).name),
                          ScopeText(parameter.scope), parameter.prior, coefficient.fitted.value,
                          100.0 * coefficient.fitted.width, coefficient.fitted.evidence_count,
                          parameter.lowest, parameter.highest);
  }
  absl::StrAppendFormat(&text, "\n%-32s %-7s %5s %8s %8s %8s\n", "residuals on the runs fitted",
                        "of", "runs", "before", "after", "bias");
  for (const SourceResiduals& residuals : result.residuals) {
    absl::StrAppendFormat(&text, "%-32s %-7s %5d %7.1f%% %7.1f%% %+7.1f%%\n", residuals.source,
                          QuantityName(residuals.quantity), residuals.run_count,
                          100.0 * residuals.error_before, 100.0 * residuals.error_after,
                          100.0 * residuals.bias_after);
  }
  absl::StrAppend(&text, "\nranges: nine of ten measured values lie within\n");
  for (const ResidualClass& residuals : result.calibration.content().residual_classes) {
    const RangeFactors range = result.calibration.Range(residuals.key);
    absl::StrAppendFormat(&text, "%-7s %5.3f to %5.3f x predicted   %s\n",
                          QuantityName(residuals.key.quantity), range.lower, range.upper,
                          range.basis);
  }
  return text;
}

nlohmann::ordered_json ResultJson(const CalibrateResult& result, const std::string& path) {
  nlohmann::ordered_json object;
  object["calibration"] = path;
  object["digest"] = CalibrationDigest(result.calibration.content());
  object["coefficients"] = nlohmann::ordered_json::array();
  for (const FittedCoefficient& coefficient : result.coefficients) {
    const FitParameter& parameter = coefficient.parameter;
    object["coefficients"].push_back(
        {{"coefficient", std::string(InfoOf(parameter.coefficient).name)},
         {"device_family", parameter.scope.device_family},
         {"cluster", parameter.scope.cluster},
         {"layer_kind",
          parameter.scope.layer_kind.has_value()
              ? v1::LayerKind_Name(static_cast<v1::LayerKind>(*parameter.scope.layer_kind))
              : ""},
         {"before", parameter.prior},
         {"value", HasEvidence(coefficient) ? coefficient.fitted.value : parameter.prior},
         {"width", coefficient.fitted.width},
         {"lowest", parameter.lowest},
         {"highest", parameter.highest},
         {"evidence_count", coefficient.fitted.evidence_count}});
  }
  object["residuals"] = nlohmann::ordered_json::array();
  for (const SourceResiduals& residuals : result.residuals) {
    object["residuals"].push_back({{"source", residuals.source},
                                   {"quantity", QuantityName(residuals.quantity)},
                                   {"count", residuals.run_count},
                                   {"mape_before", residuals.error_before},
                                   {"mape_after", residuals.error_after},
                                   {"bias_after", residuals.bias_after}});
  }
  object["skipped"] = result.skipped;
  return object;
}

absl::Status RunCalibrate(const Session& session, const CalibrateFlags& flags) {
  if (flags.runs_paths.empty() && flags.executions_path.empty()) {
    return FieldError(Reason::kSpecInvalid, "--runs",
                      "nothing to learn from; give --runs, --executions or both");
  }
  std::string fit_time = flags.fit_time;
  absl::Time time = absl::Now();
  std::string error;
  if (fit_time.empty()) {
    fit_time = absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
  } else if (!absl::ParseTime(absl::RFC3339_full, fit_time, &time, &error)) {
    return FieldError(Reason::kSpecInvalid, "--time",
                      "must be RFC 3339, such as "
                      "2026-11-21T12:00:00Z");
  }
  PARPLAN_ASSIGN_OR_RETURN(const RunSlice time_slice,
                           RunSlice::Parse(flags.time_slice, "--time-slice"));
  PARPLAN_ASSIGN_OR_RETURN(const RunSlice memory_slice,
                           RunSlice::Parse(flags.memory_slice, "--memory-slice"));
  // Executions alone begin with what servers predict with where nothing is active.
  std::shared_ptr<const Calibration> base = PublishedCalibration();
  if (!flags.from_path.empty() || !flags.runs_paths.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(base, ReadBase(flags.from_path));
  }
  std::vector<std::string> skipped;
  std::vector<MeasuredRun> runs;
  std::set<std::string> ids;
  for (const std::string& path : flags.runs_paths) {
    PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    PARPLAN_ASSIGN_OR_RETURN(const accuracy::PublishedRuns published,
                             accuracy::ReadPublishedRuns({path, std::move(text)}));
    for (const accuracy::PublishedRun& run : published.runs) {
      if (!ids.insert(run.id).second) {
        return FieldError(Reason::kSpecInvalid, "--runs",
                          absl::StrCat("run `", run.id, "` is in two files; give each run once"));
      }
    }
    std::vector<MeasuredRun> more = MeasuredRunsOf(published, time_slice, memory_slice, skipped);
    std::move(more.begin(), more.end(), std::back_inserter(runs));
  }
  if (!flags.executions_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(AddExecutions(flags, base, runs));
  }
  CalibrateRequest request;
  request.base = base;
  request.agent = absl::StrCat("planctl ", kVersion);
  request.fit_time = fit_time;
  request.slice_rule_of = [&](const std::string& source) {
    // One source may be fitted for both, by different rules.
    const std::string of_time = time_slice.RuleOf(source);
    const std::string of_memory = memory_slice.RuleOf(source);
    if (time_slice.Names(source) && memory_slice.Names(source) && of_time != of_memory) {
      return absl::StrCat("step: ", of_time.empty() ? "all" : of_time,
                          "; memory: ", of_memory.empty() ? "all" : of_memory);
    }
    return of_time.empty() ? of_memory : of_time;
  };
  PARPLAN_ASSIGN_OR_RETURN(CalibrateResult result, CalibrateRuns(runs, request));
  result.skipped.insert(result.skipped.begin(), skipped.begin(), skipped.end());
  PARPLAN_RETURN_IF_ERROR(
      WriteFile(flags.out_path, ToReadableJson(CalibrationToProto(result.calibration))));
  if (session.json) return Print(session, ResultJson(result, flags.out_path).dump(2) + "\n");
  for (const std::string& reason : result.skipped) Note(session, "not fitted: " + reason);
  return Print(session, ResultText(result));
}

}  // namespace

void AddCalibrateCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<CalibrateFlags>();
  Command command = app.AddCommand(
      "calibrate", "Fit the cost model's coefficients to measured runs (docs/calibration.md)");
  command.Footer(
      "Example:\n  planctl calibrate --runs runs.json --out calibration.json\n"
      "  planctl calibrate --executions executions.json --from calibration.json "
      "--out lab.calibration.json");
  command.AddOption("--runs", flags->runs_paths, "Published runs, schema published_runs/1");
  command.AddOption("--executions", flags->executions_path,
                    "Executions of a cluster, as ListExecutions gives them in JSON");
  command.AddOption("--from", flags->from_path,
                    "Calibration to begin with [with --runs built-in priors, else that of "
                    "published runs, as servers without an active one]");
  command.AddOption("--under", flags->under_paths,
                    "Other calibrations that executions were predicted under");
  command.AddOption("--time-slice", flags->time_slice,
                    "Runs whose steps are fitted [" + flags->time_slice + "]");
  command.AddOption("--memory-slice", flags->memory_slice,
                    "Runs whose memory is fitted [" + flags->memory_slice + "]");
  command.AddOption("--time", flags->fit_time, "Time to write into the provenance [now]");
  command.AddOption("--out", flags->out_path, "Calibration file to write").Required();
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return RunCalibrate(session, *flags); };
  });
}

}  // namespace parplan::planctl
