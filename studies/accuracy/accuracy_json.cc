// `AccuracyJson` of accuracy_report.h.

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "clients/report/html.h"
#include "studies/accuracy/accuracy_report.h"

namespace parplan::accuracy {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json();
}

// The members every set of rows has.
Json FiguresObject(const AccuracyFigures& figures) {
  Json object;
  object["count"] = figures.count;
  object["time_count"] = figures.time_count;
  object["memory_count"] = figures.memory_count;
  object["time_mape"] = OrNull(figures.time_mape);
  object["time_median"] = OrNull(figures.time_median);
  object["time_bias"] = OrNull(figures.time_bias);
  object["time_in_range"] = OrNull(figures.time_in_range);
  object["memory_mape"] = OrNull(figures.memory_mape);
  object["memory_bias"] = OrNull(figures.memory_bias);
  object["memory_under_rate"] = OrNull(figures.memory_under_rate);
  object["memory_over_bound"] = OrNull(figures.memory_over_bound);
  object["oom_total"] = figures.oom_total;
  object["oom_refused"] = figures.oom_refused;
  object["failed_total"] = figures.failed_total;
  object["failed_refused"] = figures.failed_refused;
  object["false_refusals"] = OrNull(figures.false_refusals);
  return object;
}

Json GroupFiguresObject(const GroupFigures& figures) {
  Json object;
  object["count"] = figures.count;
  object["regret_mean"] = OrNull(figures.regret_mean);
  object["regret_max"] = OrNull(figures.regret_max);
  object["rank_correlation_mean"] = OrNull(figures.rank_correlation_mean);
  return object;
}

// `optimizer states` as `optimizer_states`.
std::string ShortName(std::string name) {
  for (char& character : name) {
    if (!absl::ascii_isalnum(character)) character = '_';
  }
  return name;
}

template <typename Items, typename Kind>
Json ItemsObject(const Items& items, int count, double (*value)(const Items&, Kind)) {
  Json object = Json::object();
  for (int i = 0; i < count; ++i) {
    const Kind kind = static_cast<Kind>(i);
    const double size = value(items, kind);
    if (size > 0.0) object[ShortName(report::Name(kind))] = size;
  }
  return object;
}

double SecondsOf(const TimeItems& items, TimeItemKind kind) { return items[kind].value(); }
double BytesOf(const MemoryItems& items, MemoryItemKind kind) { return items[kind].as_double(); }

Json RowObject(const AccuracyRow& row) {
  Json object;
  object["id"] = row.id;
  object["source"] = row.source;
  object["fitted"] = row.fitted;
  object["plan"] = row.plan_key;
  object["job"] = row.job_key;
  object["predicted_step_seconds"] = row.prediction.step.value();
  if (row.prediction.step_range.has_value()) {
    object["predicted_step_lower_seconds"] = row.prediction.step_range->lower.value();
    object["predicted_step_upper_seconds"] = row.prediction.step_range->upper.value();
  }
  object["measured_step_seconds"] =
      row.measured_step.has_value() ? Json(row.measured_step->value()) : Json();
  object["time_error"] = OrNull(row.TimeError());
  object["time_items"] = ItemsObject<TimeItems, TimeItemKind>(row.prediction.time_items,
                                                              kTimeItemKindCount, SecondsOf);
  object["memory_view"] = ViewName(row.memory_view);
  object["predicted_memory_bytes"] = row.prediction.memory.count();
  object["predicted_memory_bound_bytes"] = row.prediction.memory_bound.count();
  object["predicted_memory_upper_bytes"] = row.prediction.memory_upper.count();
  object["measured_memory_bytes"] =
      row.measured_memory.has_value() ? Json(row.measured_memory->count()) : Json();
  object["memory_error"] = OrNull(row.MemoryError());
  object["memory_items"] = ItemsObject<MemoryItems, MemoryItemKind>(row.prediction.memory_items,
                                                                    kMemoryItemKindCount, BytesOf);
  object["device_memory_bytes"] = row.device_memory.count();
  object["oom"] = row.out_of_memory.has_value() ? Json(*row.out_of_memory) : Json();
  object["refused"] = row.Refused();
  object["assumptions"] = row.assumptions;
  return object;
}

}  // namespace

std::string AccuracyJson(const AccuracySummary& summary) {
  Json root;
  root["calibration"] = summary.calibration_id;
  root["slices"] = {{"fitted", FittedSliceRule()}};
  root["sources"] = Json::object();
  for (const auto& [source, accuracy] : summary.sources) {
    Json object = FiguresObject(accuracy.all);
    object["skipped"] = accuracy.skipped;
    object["unfitted"] = FiguresObject(accuracy.unfitted);
    object["groups"] = GroupFiguresObject(accuracy.groups);
    root["sources"][source] = std::move(object);
  }
  root["groups"] = Json::array();
  for (const JobGroup& group : summary.groups) {
    Json object;
    object["source"] = group.source;
    object["job"] = group.job_key;
    object["row_count"] = group.row_count;
    object["plan_count"] = group.plan_count;
    object["fitted"] = group.fitted;
    object["regret"] = group.regret;
    object["rank_correlation"] = OrNull(group.rank_correlation);
    root["groups"].push_back(std::move(object));
  }
  root["rows"] = Json::array();
  for (const AccuracyRow& row : summary.rows) root["rows"].push_back(RowObject(row));
  root["skipped"] = Json::array();
  for (const SkippedRun& skip : summary.skipped) {
    root["skipped"].push_back({{"id", skip.id}, {"source", skip.source}, {"reason", skip.reason}});
  }
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace parplan::accuracy
