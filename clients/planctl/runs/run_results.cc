#include "clients/planctl/runs/run_results.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/json/json_text.h"
#include "base/status_macros.h"
#include "clients/calibrate/rank_statistics.h"

namespace parplan::planctl {
namespace {

absl::Status Wrong(absl::string_view path, const std::string& field, const std::string& rule) {
  return FieldError(Reason::kSpecInvalid, absl::StrCat(path, ": ", field), rule);
}

bool IsArray(const JsonValue* value) {
  return value != nullptr && value->type == JsonValue::Type::kArray;
}
bool IsNumber(const JsonValue& value) {
  return value.type == JsonValue::Type::kInteger || value.type == JsonValue::Type::kNumber;
}

// Returns the number above 0 at `key` of `object`, which `field` names.
absl::StatusOr<double> PositiveAt(absl::string_view path, const std::string& field,
                                  const JsonValue& object, const char* key) {
  const JsonValue* const found = object.Find(key);
  if (found == nullptr || !IsNumber(*found) || !(found->number > 0.0)) {
    return Wrong(path, absl::StrCat(field, ".", key), "must be a number above 0");
  }
  return found->number;
}

// Returns the whole number at `key` of `object`, which `field` names. It may be written as 1.5e9.
absl::StatusOr<int64_t> CountAt(absl::string_view path, const std::string& field,
                                const JsonValue& object, const char* key) {
  // Doubles of this size and below fit an int64_t, and so do sums of two.
  constexpr double kMaxCount = 0x1p62;
  const JsonValue* const found = object.Find(key);
  if (found == nullptr || !IsNumber(*found) || !(found->number >= 0.0) ||
      found->number > kMaxCount || found->number != std::floor(found->number)) {
    return Wrong(path, absl::StrCat(field, ".", key), "must be a whole number from 0 to 2^62");
  }
  if (found->type == JsonValue::Type::kInteger) return found->integer;
  return static_cast<int64_t>(found->number);
}

std::string LabelOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  absl::string_view name = slash == absl::string_view::npos ? path : path.substr(slash + 1);
  const size_t dot = name.find('.');
  if (dot != absl::string_view::npos && dot > 0) name = name.substr(0, dot);
  return std::string(name);
}

// The items that the prediction or the measurement of a stage names.
absl::StatusOr<std::vector<RunMemoryItem>> ItemsOf(absl::string_view path, const std::string& field,
                                                   const JsonValue& stage, int index) {
  std::vector<RunMemoryItem> items;
  const JsonValue* const predicted = stage.Find("predicted_memory_bytes");
  const JsonValue* const measured = stage.Find("measured_memory_bytes");
  if (predicted == nullptr || measured == nullptr) return items;
  if (predicted->type != JsonValue::Type::kObject || measured->type != JsonValue::Type::kObject) {
    return Wrong(path, absl::StrCat(field, ".predicted_memory_bytes, .measured_memory_bytes"),
                 "must be objects of bytes by item");
  }
  std::set<std::string> names;
  for (const JsonValue& item : predicted->items) names.insert(item.key);
  for (const JsonValue& item : measured->items) names.insert(item.key);
  for (const std::string& name : names) {
    RunMemoryItem item = {.stage = index, .name = name};
    for (const auto& [side, bytes] :
         {std::pair{predicted, &item.predicted_bytes}, std::pair{measured, &item.measured_bytes}}) {
      if (side->Find(name) != nullptr) {
        PARPLAN_ASSIGN_OR_RETURN(*bytes, CountAt(path, field, *side, name.c_str()));
      }
    }
    items.push_back(std::move(item));
  }
  return items;
}

absl::StatusOr<RunResult> ReadPlan(absl::string_view path, const std::string& field,
                                   const JsonValue& plan) {
  RunResult result;
  if (const JsonValue* const gist = plan.Find("gist"); gist != nullptr) result.gist = gist->text;
  PARPLAN_ASSIGN_OR_RETURN(result.step_count, CountAt(path, field, plan, "step_count"));
  PARPLAN_ASSIGN_OR_RETURN(result.predicted_step,
                           PositiveAt(path, field, plan, "predicted_step_seconds"));
  PARPLAN_ASSIGN_OR_RETURN(result.measured_step,
                           PositiveAt(path, field, plan, "measured_step_seconds"));
  PARPLAN_ASSIGN_OR_RETURN(result.predicted_peak_bytes,
                           CountAt(path, field, plan, "predicted_peak_memory_bytes"));
  PARPLAN_ASSIGN_OR_RETURN(result.measured_peak_bytes,
                           CountAt(path, field, plan, "measured_peak_memory_bytes"));
  if (const JsonValue* const used = plan.Find("machine_used_by_others_ratio"); used != nullptr) {
    if (!IsNumber(*used) || !(used->number >= 0.0)) {
      return Wrong(path, field + ".machine_used_by_others_ratio",
                   "must be a number that is not negative");
    }
    result.used_by_others = used->number;
  }
  if (const JsonValue* const busy = plan.Find("machine_is_busy"); busy != nullptr) {
    if (busy->type != JsonValue::Type::kBoolean) {
      return Wrong(path, field + ".machine_is_busy", "must be true or false");
    }
    result.is_machine_busy = busy->boolean;
  }
  const JsonValue* const stages = plan.Find("stages");
  if (stages == nullptr) return result;
  if (!IsArray(stages)) return Wrong(path, field + ".stages", "must be a list");
  for (size_t s = 0; s < stages->items.size(); ++s) {
    const JsonValue& stage = stages->items[s];
    const std::string name = absl::StrCat(field, ".stages[", s, "]");
    if (stage.type != JsonValue::Type::kObject) return Wrong(path, name, "must be an object");
    PARPLAN_ASSIGN_OR_RETURN(const std::vector<RunMemoryItem> items,
                             ItemsOf(path, name, stage, static_cast<int>(s)));
    result.items.insert(result.items.end(), items.begin(), items.end());
  }
  return result;
}

double Share(int64_t measured, int64_t predicted, double least) {
  const double base = std::max({static_cast<double>(predicted), least, 1.0});
  return std::abs(static_cast<double>(measured - predicted)) / base;
}

}  // namespace

double RunResult::PeakError() const {
  return predicted_peak_bytes > 0 ? static_cast<double>(measured_peak_bytes) /
                                            static_cast<double>(predicted_peak_bytes) -
                                        1.0
                                  : 0.0;
}

absl::StatusOr<std::vector<RunResult>> ReadRunResults(absl::string_view path,
                                                      absl::string_view text) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue file,
                           ReadJsonText(text, path, {.refuses_repeated_members = true}));
  const JsonValue* const plans = file.Find("plans");
  if (!IsArray(plans)) {
    return Wrong(path, "plans", "must be a list, as in what `parplan-exec --results` writes");
  }
  std::vector<double> losses;
  if (const JsonValue* const given = file.Find("losses"); IsArray(given)) {
    for (const JsonValue& loss : given->items) {
      if (!IsNumber(loss)) return Wrong(path, "losses", "must be numbers");
      losses.push_back(loss.number);
    }
  }
  std::vector<RunResult> results;
  for (size_t p = 0; p < plans->items.size(); ++p) {
    const JsonValue& plan = plans->items[p];
    const std::string field = absl::StrCat("plans[", p, "]");
    if (plan.type != JsonValue::Type::kObject) return Wrong(path, field, "must be an object");
    // A run may end before the first window of a plan is full.
    const JsonValue* const windows = plan.Find("windows");
    if (IsArray(windows) && windows->items.empty()) continue;
    PARPLAN_ASSIGN_OR_RETURN(RunResult result, ReadPlan(path, field, plan));
    result.label = LabelOf(path);
    if (plans->items.size() > 1) absl::StrAppend(&result.label, "/", p + 1);
    if (!losses.empty()) {
      result.first_loss = losses.front();
      result.last_loss = losses.back();
    }
    results.push_back(std::move(result));
  }
  return results;
}

RunSummary Summarize(absl::Span<const RunResult> runs) {
  RunSummary summary;
  std::vector<double> errors, predicted, measured;
  for (const RunResult& run : runs) {
    errors.push_back(std::abs(run.StepError()));
    predicted.push_back(run.predicted_step);
    measured.push_back(run.measured_step);
    summary.worst_peak_error = std::max(summary.worst_peak_error, std::abs(run.PeakError()));
    const double least = static_cast<double>(run.predicted_peak_bytes) / 100.0;
    for (const RunMemoryItem& item : run.items) {
      const double error = Share(item.measured_bytes, item.predicted_bytes, least);
      if (error <= summary.worst_item_error) continue;
      summary.worst_item_error = error;
      summary.worst_item = absl::StrCat(item.name, " of stage ", item.stage, ", ", run.label);
    }
  }
  summary.worst_step_error = *std::max_element(errors.begin(), errors.end());
  summary.median_step_error = accuracy::Median(errors);
  if (runs.size() > 1) {
    summary.rank_correlation = accuracy::RankCorrelation(predicted, measured);
  }
  summary.regret = accuracy::TopOneRegret(predicted, measured);
  return summary;
}

}  // namespace parplan::planctl
