#include "clients/planctl/view/explain_json.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "clients/planctl/view/measure_next_view.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::planctl {
namespace {

using Json = nlohmann::ordered_json;

Json TermsObject(const PlanTerms& terms) {
  Json object;
  object["gist"] = PlanGist(terms.plan);
  object["step_seconds"] = terms.prediction.step.value();
  object["samples_per_second"] = terms.prediction.samples_per_second;
  object["busiest_stage"] = terms.step.stage_index;
  object["fullest_stage"] = terms.memory.stage_index;
  object["peak_memory_bytes_upper"] = terms.memory.upper.count();
  object["usable_memory_bytes"] = terms.prediction.usable_memory.count();
  object["bytes_left"] = terms.memory.left.count();
  object["bound_by"] = terms.memory.left < Bytes() ? "does_not_fit"
                       : terms.memory.binds        ? "memory"
                                                   : "none";
  object["memory_items"] = Json::object();
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    std::string name = v1::MemoryItemKind_Name(static_cast<v1::MemoryItemKind>(kind + 1));
    name = absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"MEMORY_ITEM_KIND_", ""}}));
    object["memory_items"][name] = terms.memory.items.size[kind].count();
  }
  return object;
}

Json ExplanationObject(const PlanExplanation& explanation) {
  Json object;
  object["time_ratio"] = explanation.time_ratio;
  object["plan"] = TermsObject(explanation.plan);
  object["rival"] = TermsObject(explanation.rival);
  object["differences"] = Json::array();
  for (const PlanExplanation::Difference& difference : explanation.differences) {
    Json item;
    item["term"] = std::string(difference.name);
    item["plan_seconds"] = difference.plan.value();
    item["rival_seconds"] = difference.rival.value();
    object["differences"].push_back(std::move(item));
  }
  return object;
}

Json WhyNotObject(const WhyNot& why_not) {
  Json object;
  object["planner"] = why_not.planner;
  object["feasible"] = why_not.explanation.has_value();
  if (why_not.explanation.has_value()) {
    object["explanation"] = ExplanationObject(*why_not.explanation);
    return object;
  }
  object["has_no_candidates"] = why_not.has_no_candidates;
  object["stopped_early"] = why_not.stopped_early;
  object["smallest_device_memory_bytes"] = why_not.smallest_device_memory.count();
  object["smallest_device_count"] = why_not.smallest_device_count.value_or(0);
  if (why_not.smallest.has_value()) object["smallest"] = TermsObject(*why_not.smallest);
  return object;
}

Json SensitivityObject(const Sensitivity& sensitivity) {
  Json object;
  object["resource"] = std::string(ResourceName(sensitivity.resource));
  object["factor"] = sensitivity.factor;
  object["kept_step_seconds"] = sensitivity.kept_step.value();
  if (sensitivity.best.has_value()) {
    object["best_step_seconds"] = sensitivity.best->prediction.step.value();
    object["best_gist"] = PlanGist(sensitivity.best->plan);
    object["best_global_batch_size"] = sensitivity.best->plan.global_batch_size;
  }
  object["plan_changes"] = sensitivity.plan_changes;
  object["gain"] = sensitivity.gain;
  return object;
}

const char* VerdictName(PartitionVerdict verdict) {
  switch (verdict) {
    case PartitionVerdict::kStart:
      return "start";
    case PartitionVerdict::kEnd:
      return "end";
    case PartitionVerdict::kJoined:
      return "joined";
    case PartitionVerdict::kSlower:
      return "slower";
    case PartitionVerdict::kDoesNotFit:
      return "does_not_fit";
    case PartitionVerdict::kTooFull:
      return "too_full";
  }
  return "";
}

const char* EndName(WalkEnd end) {
  switch (end) {
    case WalkEnd::kNothingLeft:
      return "nothing_left";
    case WalkEnd::kMostPartitions:
      return "most_partitions";
    case WalkEnd::kStopped:
      return "stopped";
  }
  return "";
}

Json WalkObject(const ExplainedWalk& walk) {
  Json object;
  object["with_recompute"] = walk.with_recompute;
  object["measure"] = std::string(MeasureName(walk.measure));
  object["balances_recomputed_memory"] =
      walk.with_recompute && walk.measure == MemoryMeasure::kLeast;
  object["ended"] = EndName(walk.end);
  object["steps"] = Json::array();
  for (const ExplainedStep& step : walk.steps) {
    Json item;
    item["verdict"] = VerdictName(step.step.verdict);
    item["layer_counts"] = step.layer_counts;
    if (step.step.parent >= 0) {
      item["parent"] = step.step.parent;
      item["from_stage"] = step.step.from_stage;
      item["to_stage"] = step.step.to_stage;
    }
    if (step.step.figures) {
      item["alpha_t"] = step.degrees->time;
      item["alpha_m"] = step.degrees->memory;
      item["stage_seconds"] = Json::array();
      for (const Seconds time : step.step.figures->times) {
        item["stage_seconds"].push_back(time.value());
      }
      item["stage_bytes"] = Json::array();
      for (const Bytes peak : step.step.figures->peaks) {
        item["stage_bytes"].push_back(peak.count());
      }
      item["step_seconds"] = step.plan->prediction.step.value();
      item["fits"] = step.plan->prediction.fits();
      item["gist"] = PlanGist(step.plan->plan);
    }
    object["steps"].push_back(std::move(item));
  }
  return object;
}

Json CollectivesObject(const PricedCollectives& priced) {
  Json object;
  object["rank"] = priced.rank;
  object["runtime_id"] = priced.runtime_id;
  object["rows"] = Json::array();
  for (const StepCollective& one : priced.rows) {
    Json row;
    row["purpose"] = std::string(CollectivePurposeName(one.purpose));
    row["collective"] = CollectiveName(one.collective);
    row["ranks"] = one.ranks;
    row["calls"] = one.count;
    row["total_bytes"] = one.bytes;
    object["rows"].push_back(std::move(row));
  }
  return object;
}

}  // namespace

std::string ExplainJson(const ExplainAnswer& answer) {
  Json object;
  if (answer.parameters.has_value()) {
    for (const auto& [name, count] : NamedParameterParts(*answer.parameters)) {
      object["parameters"][std::string(name)] = count;
    }
  }
  if (answer.collectives.has_value()) {
    object["collectives"] = CollectivesObject(*answer.collectives);
  }
  if (answer.against.has_value()) object["against"] = ExplanationObject(*answer.against);
  if (!answer.why_not.empty()) {
    object["why_not"] = Json::array();
    for (const WhyNot& why_not : answer.why_not) {
      object["why_not"].push_back(WhyNotObject(why_not));
    }
  }
  if (!answer.sensitivities.empty()) {
    object["sensitivities"] = Json::array();
    for (const Sensitivity& sensitivity : answer.sensitivities) {
      object["sensitivities"].push_back(SensitivityObject(sensitivity));
    }
  }
  if (!answer.walks.empty()) {
    object["bmw"] = Json::array();
    for (const ExplainedWalk& walk : answer.walks) object["bmw"].push_back(WalkObject(walk));
  }
  if (answer.measure_next.has_value()) {
    object["measure_next"] = MeasureNextObject(*answer.measure_next, answer.against.has_value());
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace parplan::planctl
