#include "clients/planctl/view/execution_view.h"

#include <cstdint>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

using google::protobuf::Duration;
using google::protobuf::RepeatedPtrField;

constexpr char kNothing[] = "-";

double Milliseconds(const Duration& duration) {
  return 1e3 * static_cast<double>(duration.seconds()) + 1e-6 * duration.nanos();
}

std::string MeasuredTimeText(std::optional<double> milliseconds) {
  return milliseconds.has_value() ? absl::StrFormat("%.4g ms", *milliseconds) : kNothing;
}

std::string MeasuredSizeText(std::optional<double> bytes) {
  return bytes.has_value() ? absl::StrFormat("%.4g MB", *bytes / 1e6) : kNothing;
}

std::string RatioText(std::optional<double> predicted, std::optional<double> measured) {
  if (!predicted.has_value() || !measured.has_value() || *predicted <= 0.0) return kNothing;
  return absl::StrFormat("%.3f", *measured / *predicted);
}

// `PHASE_GRADIENT_SYNC` without its prefix as `gradient sync`.
std::string Words(absl::string_view name, absl::string_view prefix) {
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", " "}});
}

std::optional<double> TimeOf(const RepeatedPtrField<v1::PhaseDuration>& list, v1::Phase phase) {
  // A phase that is left out of a list is 0, and unknown where there is no list.
  if (list.empty()) return std::nullopt;
  for (const v1::PhaseDuration& entry : list) {
    if (entry.phase() == phase) return Milliseconds(entry.duration());
  }
  return 0.0;
}

std::optional<double> SizeOf(const RepeatedPtrField<v1::MemoryItem>& list,
                             v1::MemoryItemKind kind) {
  if (list.empty()) return std::nullopt;
  for (const v1::MemoryItem& entry : list) {
    if (entry.kind() == kind) return static_cast<double>(entry.size_bytes());
  }
  return 0.0;
}

void AddRow(absl::string_view what, const std::string& predicted, const std::string& measured,
            const std::string& ratio, std::string& text) {
  absl::StrAppendFormat(&text, "  %-26s %14s %14s %8s\n", std::string(what), predicted, measured,
                        ratio);
}

void AddTime(absl::string_view what, std::optional<double> predicted,
             std::optional<double> measured, std::string& text) {
  AddRow(what, MeasuredTimeText(predicted), MeasuredTimeText(measured),
         RatioText(predicted, measured), text);
}

void AddSize(absl::string_view what, std::optional<double> predicted,
             std::optional<double> measured, std::string& text) {
  AddRow(what, MeasuredSizeText(predicted), MeasuredSizeText(measured),
         RatioText(predicted, measured), text);
}

void AddStage(const v1::ExecutionStage& stage, int index, std::string& text) {
  const int last = stage.first_rank() + stage.rank_count() - 1;
  const std::string ranks = stage.rank_count() == 1
                                ? absl::StrCat("rank ", stage.first_rank())
                                : absl::StrCat("ranks ", stage.first_rank(), " to ", last);
  absl::StrAppend(&text, "\nstage ", index, ", ", ranks, "\n");
  std::set<v1::Phase> phases;
  for (const auto* list : {&stage.predicted_phase_durations(), &stage.measured_phase_durations()}) {
    for (const v1::PhaseDuration& entry : *list) phases.insert(entry.phase());
  }
  for (const v1::Phase phase : phases) {
    AddTime(Words(v1::Phase_Name(phase), "PHASE_"),
            TimeOf(stage.predicted_phase_durations(), phase),
            TimeOf(stage.measured_phase_durations(), phase), text);
  }
  std::set<v1::MemoryItemKind> kinds;
  for (const auto* list : {&stage.predicted_memory_items(), &stage.measured_memory_items()}) {
    for (const v1::MemoryItem& item : *list) kinds.insert(item.kind());
  }
  for (const v1::MemoryItemKind kind : kinds) {
    AddSize(Words(v1::MemoryItemKind_Name(kind), "MEMORY_ITEM_KIND_"),
            SizeOf(stage.predicted_memory_items(), kind),
            SizeOf(stage.measured_memory_items(), kind), text);
  }
  AddSize("memory peak", static_cast<double>(stage.predicted_peak_memory_bytes()),
          stage.has_measured_peak_memory_bytes()
              ? std::optional<double>(stage.measured_peak_memory_bytes())
              : std::nullopt,
          text);
}

std::optional<double> PredictedStep(const v1::Execution& execution) {
  if (!execution.has_predicted_step_duration()) return std::nullopt;
  return Milliseconds(execution.predicted_step_duration());
}

std::optional<double> MeasuredStep(const v1::Execution& execution) {
  if (!execution.has_measured_step_duration()) return std::nullopt;
  return Milliseconds(execution.measured_step_duration());
}

std::optional<double> MeasuredPeak(const v1::Execution& execution) {
  if (!execution.has_measured_peak_memory_bytes()) return std::nullopt;
  return static_cast<double>(execution.measured_peak_memory_bytes());
}

}  // namespace

std::string ExecutionListText(const v1::ListExecutionsResponse& executions) {
  std::string text;
  for (const v1::Execution& execution : executions.executions()) {
    const double peak = static_cast<double>(execution.predicted_peak_memory_bytes());
    absl::StrAppendFormat(
        &text, "%s\n  %-9s  step %s, predicted %s (%s)  memory %s, predicted %s (%s)\n",
        execution.name(), absl::AsciiStrToLower(v1::Execution::State_Name(execution.state())),
        MeasuredTimeText(MeasuredStep(execution)), MeasuredTimeText(PredictedStep(execution)),
        RatioText(PredictedStep(execution), MeasuredStep(execution)),
        MeasuredSizeText(MeasuredPeak(execution)), MeasuredSizeText(peak),
        RatioText(peak, MeasuredPeak(execution)));
  }
  return text;
}

std::string ExecutionText(const v1::Execution& execution) {
  std::string text = absl::StrCat(execution.name(), "\n");
  absl::StrAppend(&text, "  ", absl::AsciiStrToLower(v1::Execution::State_Name(execution.state())),
                  ", ", execution.window_count(), " windows");
  if (!execution.failure_reason().empty()) {
    absl::StrAppend(&text, "\n  ", Wrap(execution.failure_reason(), 2));
  }
  absl::StrAppend(&text, "\n  predicted under calibration ",
                  execution.calibration_digest().empty()
                      ? std::string("unknown")
                      : execution.calibration_digest().substr(0, 12),
                  "\n\n");
  AddRow("", "predicted", "measured", "ratio", text);
  AddTime("step", PredictedStep(execution), MeasuredStep(execution), text);
  AddSize("memory peak", static_cast<double>(execution.predicted_peak_memory_bytes()),
          MeasuredPeak(execution), text);
  for (int i = 0; i < execution.stages_size(); ++i) AddStage(execution.stages(i), i, text);
  return text;
}

}  // namespace parplan::planctl
