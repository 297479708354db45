#include "executor/exec/run_record.h"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "executor/apply/step_window.h"

namespace parplan {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMebibyte = 1024.0 * 1024.0;

absl::Duration ToDuration(const google::protobuf::Duration& message) {
  return absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
}

double SecondsOf(const google::protobuf::Duration& message) {
  return absl::ToDoubleSeconds(ToDuration(message));
}

std::string ItemName(int kind) {
  const std::string whole = v1::MemoryItemKind_Name(static_cast<v1::MemoryItemKind>(kind));
  return absl::AsciiStrToLower(std::string(absl::StripPrefix(whole, "MEMORY_ITEM_KIND_")));
}

std::string PhaseName(v1::Phase phase) {
  return StepPhaseName(static_cast<StepPhase>(static_cast<int>(phase) - 1));
}

// [MemoryItemKind] bytes.
using Items = std::array<int64_t, kMemoryItemKindCount>;

Items MeasuredItems(const v1::MeasuredWindow& window) {
  Items items = {};
  for (const v1::MemoryItem& item : window.memory_items()) {
    items[item.kind() - 1] = item.size_bytes();
  }
  return items;
}

Items PredictedItems(const StagePrediction& stage) {
  Items items = {};
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    items[kind] = stage.memory[static_cast<MemoryItemKind>(kind)].count();
  }
  return items;
}

Json ItemsJson(const Items& items) {
  Json object = Json::object();
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    if (items[kind] > 0) object[ItemName(kind + 1)] = items[kind];
  }
  return object;
}

Json WindowJson(const v1::MeasuredWindow& window) {
  Json object;
  object["rank"] = window.rank();
  object["first_step"] = window.first_step();
  object["step_count"] = window.step_count();
  object["median_step_seconds"] = SecondsOf(window.median_step_duration());
  object["phase_seconds"] = Json::object();
  for (const v1::PhaseDuration& phase : window.phase_durations()) {
    object["phase_seconds"][PhaseName(phase.phase())] = SecondsOf(phase.duration());
  }
  object["peak_memory_bytes"] = window.peak_memory_bytes();
  object["memory_bytes"] = ItemsJson(MeasuredItems(window));
  object["collectives"] = Json::array();
  for (const v1::CollectiveTiming& timing : window.collective_timings()) {
    object["collectives"].push_back(
        {{"collective", absl::AsciiStrToLower(std::string(absl::StripPrefix(
                            v1::Collective_Name(timing.collective()), "COLLECTIVE_")))},
         {"participant_count", timing.participant_count()},
         {"rank_stride", timing.rank_stride()},
         {"message_size_bytes", timing.message_size_bytes()},
         {"median_seconds", SecondsOf(timing.median_duration())},
         {"sample_count", timing.sample_count()}});
  }
  return object;
}

Json StageJson(const PlanRecord& record, int stage) {
  const StagePrediction* const predicted =
      stage < static_cast<int>(record.plan.prediction().stages.size())
          ? &record.plan.prediction().stages[stage]
          : nullptr;
  Json object;
  object["first_rank"] = stage * record.ranks_of_stage();
  object["rank_count"] = record.ranks_of_stage();
  if (predicted != nullptr) {
    object["predicted_peak_memory_bytes"] = predicted->peak_memory().count();
    object["predicted_memory_bytes"] = ItemsJson(PredictedItems(*predicted));
    object["predicted_forward_seconds"] = predicted->forward.value();
    object["predicted_backward_seconds"] = predicted->backward.value();
    object["predicted_gradient_sync_seconds"] = predicted->gradient_sync.value();
    object["predicted_optimizer_seconds"] = predicted->optimizer_step.value();
  }
  if (!record.windows.empty()) {
    const v1::MeasuredWindow& fullest = record.FullestOf(stage);
    object["measured_peak_memory_bytes"] = fullest.peak_memory_bytes();
    object["measured_memory_bytes"] = ItemsJson(MeasuredItems(fullest));
  }
  return object;
}

void AddMachine(const MachineUse& use, Json& object) {
  object["machine_used_by_others_ratio"] = use.used_by_others;
  object["machine_stolen_ratio"] = use.stolen;
  if (use.throttled.has_value()) object["machine_throttled_ratio"] = *use.throttled;
  if (use.pressure.has_value()) object["machine_pressure_ratio"] = *use.pressure;
  object["machine_is_busy"] = use.IsBusy();
}

Json PlanJson(const PlanRecord& record) {
  const Prediction& prediction = record.plan.prediction();
  Json object;
  object["plan"] = record.plan.name();
  object["gist"] = PlanGist(record.plan.plan());
  object["first_step"] = record.first_step;
  object["step_count"] = record.step_count;
  object["predicted_step_seconds"] = prediction.step.value();
  const double measured = absl::ToDoubleSeconds(record.MeasuredStep());
  object["measured_step_seconds"] = measured;
  object["step_ratio"] = prediction.step.value() > 0.0 ? measured / prediction.step.value() : 0.0;
  if (record.machine.has_value()) AddMachine(*record.machine, object);
  object["predicted_peak_memory_bytes"] = prediction.peak_memory.count();
  object["measured_peak_memory_bytes"] = record.MeasuredPeak();
  object["stages"] = Json::array();
  for (int stage = 0; stage < record.stage_count(); ++stage) {
    object["stages"].push_back(StageJson(record, stage));
  }
  object["windows"] = Json::array();
  for (const std::vector<v1::MeasuredWindow>& ranks : record.windows) {
    for (const v1::MeasuredWindow& window : ranks) object["windows"].push_back(WindowJson(window));
  }
  return object;
}

std::string Ratio(double measured, double predicted) {
  return predicted > 0.0 ? absl::StrFormat("%.3f", measured / predicted) : "-";
}

void AddMemoryLine(const std::string& name, int64_t predicted, int64_t measured,
                   std::string& text) {
  if (predicted == 0 && measured == 0) return;
  absl::StrAppendFormat(&text, "    %-22s %12.3f %12.3f %8s\n", name,
                        static_cast<double>(predicted) / kMebibyte,
                        static_cast<double>(measured) / kMebibyte,
                        Ratio(static_cast<double>(measured), static_cast<double>(predicted)));
}

// Formats how much of the processors others used, with a warning if it was much.
std::string MachineLine(const MachineUse& use) {
  std::string line =
      absl::StrFormat("  others used %.1f %% of the ranks' processors", use.used_by_others * 1e2);
  if (use.stolen >= 0.001) {
    absl::StrAppendFormat(&line, " (%.1f %%: other virtual machines)", use.stolen * 1e2);
  }
  if (use.throttled.value_or(0.0) >= 0.001) {
    absl::StrAppendFormat(&line, ", the quota of the control group stopped them for %.1f %%",
                          *use.throttled * 1e2);
  }
  return line + (use.IsBusy() ? ": busy machine, the measured step says little\n" : "\n");
}

std::string PlanTable(const PlanRecord& record) {
  const Prediction& prediction = record.plan.prediction();
  std::string text = absl::StrFormat("\n%s\n%s, steps %d to %d\n", record.plan.name(),
                                     PlanGist(record.plan.plan()), record.first_step,
                                     record.first_step + record.step_count - 1);
  absl::StrAppendFormat(&text, "  %-24s %12s %12s %8s\n", "", "predicted", "measured", "ratio");
  const double measured = absl::ToDoubleSeconds(record.MeasuredStep());
  absl::StrAppendFormat(&text, "  %-24s %12.3f %12.3f %8s\n", "step, ms",
                        prediction.step.milliseconds(), measured * 1e3,
                        Ratio(measured, prediction.step.value()));
  if (record.machine.has_value()) absl::StrAppend(&text, MachineLine(*record.machine));
  if (record.windows.empty()) return text;
  for (int stage = 0; stage < record.stage_count(); ++stage) {
    Items predicted = {};
    if (stage < static_cast<int>(prediction.stages.size())) {
      predicted = PredictedItems(prediction.stages[stage]);
    }
    const v1::MeasuredWindow& fullest = record.FullestOf(stage);
    const Items items = MeasuredItems(fullest);
    absl::StrAppendFormat(&text, "  memory of stage %d, MiB (rank %d)\n", stage, fullest.rank());
    int64_t sum = 0;
    for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
      AddMemoryLine(ItemName(kind + 1), predicted[kind], items[kind], text);
      sum += predicted[kind];
    }
    AddMemoryLine("peak", sum, fullest.peak_memory_bytes(), text);
  }
  return text;
}

}  // namespace

absl::Duration PlanRecord::MeasuredStep() const {
  std::vector<absl::Duration> steps;
  for (size_t k = windows.size() > 1 ? 1 : 0; k < windows.size(); ++k) {
    absl::Duration slowest;
    for (const v1::MeasuredWindow& window : windows[k]) {
      slowest = std::max(slowest, ToDuration(window.median_step_duration()));
    }
    steps.push_back(slowest);
  }
  if (steps.empty()) return absl::ZeroDuration();
  std::sort(steps.begin(), steps.end());
  const size_t middle = steps.size() / 2;
  return steps.size() % 2 == 1 ? steps[middle] : (steps[middle - 1] + steps[middle]) / 2;
}

const v1::MeasuredWindow& PlanRecord::FullestOf(int stage) const {
  const v1::MeasuredWindow* fullest = nullptr;
  for (const std::vector<v1::MeasuredWindow>& ranks : windows) {
    for (int k = 0; k < ranks_of_stage(); ++k) {
      const v1::MeasuredWindow& window = ranks[stage * ranks_of_stage() + k];
      if (fullest == nullptr || window.peak_memory_bytes() > fullest->peak_memory_bytes()) {
        fullest = &window;
      }
    }
  }
  return *fullest;
}

int64_t PlanRecord::MeasuredPeak() const {
  int64_t peak = 0;
  for (const std::vector<v1::MeasuredWindow>& ranks : windows) {
    for (const v1::MeasuredWindow& window : ranks) {
      peak = std::max(peak, window.peak_memory_bytes());
    }
  }
  return peak;
}

std::string RecordJson(const RunRecord& record) {
  Json object;
  object["losses"] = record.losses;
  object["plans"] = Json::array();
  for (const PlanRecord& plan : record.plans) object["plans"].push_back(PlanJson(plan));
  if (!record.execution.empty() || !record.report_trouble.empty()) {
    object["report"] = {{"execution", record.execution},
                        {"delivered_window_count", record.delivered_window_count},
                        {"lost_window_count", record.lost_window_count},
                        {"trouble", record.report_trouble}};
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string RecordTable(const RunRecord& record) {
  std::string text;
  for (const PlanRecord& plan : record.plans) {
    if (plan.step_count > 0) absl::StrAppend(&text, PlanTable(plan));
  }
  return text;
}

}  // namespace parplan
