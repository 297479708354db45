#include "studies/papers/papers_results.h"

#include <cmath>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan::papers {
namespace {

using Json = nlohmann::ordered_json;

// Returns the numbers of a list with one for each of `count` settings, whose table has as many
// columns. Throws std::runtime_error for a list of another length, as JSON's own errors are thrown.
std::vector<double> NumbersFrom(const Json& json, const char* name, size_t count) {
  std::vector<double> numbers = json.at(name).get<std::vector<double>>();
  if (numbers.size() == count) return numbers;
  throw std::runtime_error(
      absl::StrCat("`", name, "` has ", numbers.size(), " numbers, not ", count));
}

Json ToJson(const GridCell& cell) {
  Json answers;
  for (const std::string& planner : StudyPlanners()) {
    const auto found = cell.answers.find(planner);
    if (found == cell.answers.end() || found->second.rate <= 0.0) {
      answers[planner] = nullptr;
      continue;
    }
    const GridAnswer& answer = found->second;
    answers[planner] = {answer.rate, answer.batch, answer.micro_batch_count,
                        answer.pipeline_degree};
  }
  Json json = {{"model", cell.model},
               {"devices", cell.device_count},
               {"gb", cell.memory_gb},
               {"gap", cell.optimum_gap},
               {"answers", std::move(answers)}};
  if (cell.MethodLoses()) {
    json["method"] = {cell.method_stages, cell.method_gist};
    json["optimum"] = {cell.optimum_stages, cell.optimum_gist};
    json["method_on_optimum_stages"] = {
        cell.method_loss.rate_on_optimum_stages, cell.method_loss.stage_count,
        cell.method_loss.refused_stage_count, cell.method_loss.has_strategies};
  }
  return json;
}

GridCell CellFrom(const Json& json) {
  GridCell cell{.model = json.at("model"),
                .device_count = json.at("devices"),
                .memory_gb = json.at("gb"),
                .optimum_gap = json.at("gap")};
  for (const auto& [planner, answer] : json.at("answers").items()) {
    cell.answers[planner] =
        answer.is_null() ? GridAnswer()
                         : GridAnswer{answer.at(0), answer.at(1), answer.at(2), answer.at(3)};
  }
  if (json.contains("method")) {
    cell.method_stages = json.at("method").at(0);
    cell.method_gist = json.at("method").at(1);
    cell.optimum_stages = json.at("optimum").at(0);
    cell.optimum_gist = json.at("optimum").at(1);
    const Json& loss = json.at("method_on_optimum_stages");
    cell.method_loss = {loss.at(0), loss.at(1), loss.at(2), loss.at(3)};
  }
  return cell;
}

Json ToJson(const AblationRow& row) {
  return {{"model", row.model}, {"gb", row.memory_gb}, {"rates", row.rates}};
}

AblationRow AblationFrom(const Json& json) {
  return {.model = json.at("model"),
          .memory_gb = json.at("gb"),
          .rates = NumbersFrom(json, "rates", Ablations().size())};
}

Json ToJson(const PipelineRow& row) {
  return {{"model", row.model},     {"gb", row.memory_gb},
          {"base", row.base},       {"greedy_base", row.greedy_base},
          {"bmw", row.bmw},         {"dp+pp", row.hybrid},
          {"optimum", row.optimum}, {"memory_balanced", row.memory_balanced},
          {"notes", row.notes}};
}

PipelineRow PipelineFrom(const Json& json) {
  return {.model = json.at("model"),
          .memory_gb = json.at("gb"),
          .base = json.at("base"),
          .greedy_base = json.at("greedy_base"),
          .bmw = json.at("bmw"),
          .hybrid = json.at("dp+pp"),
          .optimum = json.at("optimum"),
          .memory_balanced = json.at("memory_balanced"),
          .notes = json.at("notes").get<std::vector<std::string>>()};
}

Json ToJson(const ForwardMemoryRow& row) {
  return {{"model", row.model},
          {"questions", row.question_count},
          {"equal", row.equal_count},
          {"rounding", row.rounding_count},
          {"decoupling", row.decoupling_count},
          {"no_plan", row.no_plan_count},
          {"mean_loss", row.mean_loss},
          {"worst_loss", row.worst_loss},
          {"worst", row.worst_question},
          {"worst_decoupling_loss", row.worst_decoupling_loss},
          {"worst_decoupling", row.worst_decoupling_question}};
}

ForwardMemoryRow ForwardMemoryFrom(const Json& json) {
  return {.model = json.at("model"),
          .question_count = json.at("questions"),
          .equal_count = json.at("equal"),
          .rounding_count = json.at("rounding"),
          .decoupling_count = json.at("decoupling"),
          .no_plan_count = json.at("no_plan"),
          .mean_loss = json.at("mean_loss"),
          .worst_loss = json.at("worst_loss"),
          .worst_question = json.at("worst"),
          .worst_decoupling_loss = json.at("worst_decoupling_loss"),
          .worst_decoupling_question = json.at("worst_decoupling")};
}

Json ToJson(const GranularityRow& row) {
  return {
      {"model", row.model}, {"gb", row.memory_gb}, {"optimum", row.optimum}, {"rates", row.rates}};
}

GranularityRow GranularityFrom(const Json& json) {
  return {.model = json.at("model"),
          .memory_gb = json.at("gb"),
          .optimum = json.at("optimum"),
          .rates = NumbersFrom(json, "rates", std::size(kGranularities))};
}

Json ToJson(const MeasuredPlan& plan) {
  return {{"set", plan.set},
          {"plan", plan.plan},
          {"slowdown", plan.slowdown},
          {"predicted_ms", plan.predicted_ms},
          {"predicted_without_slowdown_ms", plan.predicted_without_slowdown_ms},
          {"measured_ms", plan.measured_ms},
          {"median_uncertainty_ms", plan.median_uncertainty_ms},
          {"p10_ms", plan.p10_ms},
          {"p90_ms", plan.p90_ms}};
}

MeasuredPlan MeasuredFrom(const Json& json) {
  return {.set = json.at("set"),
          .plan = json.at("plan"),
          .slowdown = json.at("slowdown"),
          .predicted_ms = json.at("predicted_ms"),
          .predicted_without_slowdown_ms = json.at("predicted_without_slowdown_ms"),
          .measured_ms = json.at("measured_ms"),
          .median_uncertainty_ms = json.at("median_uncertainty_ms"),
          .p10_ms = json.at("p10_ms"),
          .p90_ms = json.at("p90_ms")};
}

Json ToJson(const MeasuredMemory& plan) {
  return {{"plan", plan.plan}, {"from_profile", plan.from_profile}, {"error", plan.error}};
}

MeasuredMemory MemoryFrom(const Json& json) {
  return {
      .plan = json.at("plan"), .from_profile = json.at("from_profile"), .error = json.at("error")};
}

Json ToJson(const TimedSearch& timed) {
  return {{"axis", timed.axis},       {"value", timed.value},   {"planner", timed.planner},
          {"seconds", timed.seconds}, {"rate", timed.rate},     {"stopped", timed.stopped},
          {"gap", timed.gap},         {"gib", timed.memory_gib}};
}

TimedSearch TimedFrom(const Json& json) {
  return {.axis = json.at("axis"),
          .value = json.at("value"),
          .planner = json.at("planner"),
          .seconds = json.at("seconds"),
          .rate = json.at("rate"),
          .stopped = json.at("stopped"),
          .gap = json.at("gap"),
          .memory_gib = json.at("gib")};
}

Json ToJson(const WalkRow& row) {
  return {{"model", row.model},
          {"kind", row.device_kind},
          {"devices", row.device_count},
          {"gb", row.memory_gb},
          {"batch", row.batch},
          {"stages", row.stage_count},
          {"micro_batches", row.micro_batch_count},
          {"walks", row.walk_count},
          {"most_partitions", row.most_partitions},
          {"has_most_partitions", row.has_most_partitions},
          {"by_partitions", row.steps_by_partitions},
          {"by_states", row.steps_by_states},
          {"seconds_by_states", row.seconds_by_states}};
}

WalkRow WalkFrom(const Json& json) {
  // A question without a plan has no stages and no walks, and so no steps.
  const bool has_plan = json.at("stages") != 0;
  const size_t partition_count = has_plan ? std::size(kPartitionLimits) + 1 : 0;
  const size_t state_count = has_plan ? std::size(kStateLimitLogs) : 0;
  return {.model = json.at("model"),
          .device_kind = json.at("kind"),
          .device_count = json.at("devices"),
          .memory_gb = json.at("gb"),
          .batch = json.at("batch"),
          .stage_count = json.at("stages"),
          .micro_batch_count = json.at("micro_batches"),
          .walk_count = json.at("walks"),
          .most_partitions = json.at("most_partitions"),
          .has_most_partitions = json.at("has_most_partitions"),
          .steps_by_partitions = NumbersFrom(json, "by_partitions", partition_count),
          .steps_by_states = NumbersFrom(json, "by_states", state_count),
          .seconds_by_states = NumbersFrom(json, "seconds_by_states", state_count)};
}

Json ToJson(const UnlikeRow& row) {
  return {{"model", row.model},
          {"weaker", row.weaker},
          {"stronger", row.stronger},
          {"alike", row.alike},
          {"weaker_alone", row.weaker_alone},
          {"stronger_alone", row.stronger_alone}};
}

UnlikeRow UnlikeFrom(const Json& json) {
  return {.model = json.at("model"),
          .weaker = json.at("weaker"),
          .stronger = json.at("stronger"),
          .alike = json.at("alike"),
          .weaker_alone = json.at("weaker_alone"),
          .stronger_alone = json.at("stronger_alone")};
}

// One row a line, so that a change of a row is a change of a line.
template <typename Row>
std::string Lines(const char* name, const std::vector<Row>& rows) {
  std::string text = absl::StrCat(" \"", name, "\": [");
  for (size_t index = 0; index < rows.size(); ++index) {
    absl::StrAppend(&text, index == 0 ? "\n  " : ",\n  ", ToJson(rows[index]).dump());
  }
  return text + "\n ]";
}

// One section a line, in ascending order of names.
std::string MadeLines(const std::map<std::string, SectionRun>& made) {
  std::string text;
  for (const auto& [section, run] : made) {
    const Json line = {{"machine", run.machine}, {"commit", run.commit}, {"seconds", run.seconds}};
    absl::StrAppend(&text, text.empty() ? "" : ",", "\n  ", Json(section).dump(), ": ",
                    line.dump());
  }
  return text;
}

template <typename Row>
void ReadRows(const Json& file, const char* name, Row (*read)(const Json&),
              std::vector<Row>& rows) {
  for (const Json& row : file.at(name)) rows.push_back(read(row));
}

}  // namespace

int PapersResults::WholeSeconds() const {
  double whole = 0.0;
  for (const auto& [section, run] : made) {
    if (!absl::StartsWith(section, kLong)) whole += run.seconds;
  }
  return static_cast<int>(std::lround(whole));
}

std::string ResultsJson(const PapersResults& results) {
  constexpr char kAbout[] =
      "Predictions of parplan's own cost model, made by `parplan-study papers`; nothing was "
      "trained. docs/measurements/papers.md is made of this file.";
  return absl::StrCat(
      "{\n \"_about\": ", Json(kAbout).dump(), ",\n \"made\": {", MadeLines(results.made),
      "\n },\n", Lines("grid", results.grid), ",\n", Lines("ablations", results.ablations), ",\n",
      Lines("pipelines", results.pipelines), ",\n", Lines("forward_memory", results.forward_memory),
      ",\n", Lines("granularity", results.granularity), ",\n", Lines("times", results.times), ",\n",
      Lines("walks", results.walks), ",\n", Lines("unlike", results.unlike),
      ",\n \"runs_source\": ", Json(results.runs_source).dump(), ",\n", Lines("runs", results.runs),
      ",\n \"memory_source\": ", Json(results.memory_source).dump(), ",\n",
      Lines("memory", results.memory), "\n}\n");
}

absl::StatusOr<PapersResults> ParseResults(absl::string_view text) {
  try {
    const Json file = Json::parse(text.begin(), text.end());
    PapersResults results;
    for (const auto& [section, run] : file.at("made").items()) {
      results.made[section] = {
          .machine = run.at("machine"), .commit = run.at("commit"), .seconds = run.at("seconds")};
    }
    ReadRows(file, "grid", CellFrom, results.grid);
    ReadRows(file, "ablations", AblationFrom, results.ablations);
    ReadRows(file, "pipelines", PipelineFrom, results.pipelines);
    ReadRows(file, "forward_memory", ForwardMemoryFrom, results.forward_memory);
    ReadRows(file, "granularity", GranularityFrom, results.granularity);
    ReadRows(file, "times", TimedFrom, results.times);
    ReadRows(file, "walks", WalkFrom, results.walks);
    ReadRows(file, "unlike", UnlikeFrom, results.unlike);
    results.runs_source = file.at("runs_source");
    ReadRows(file, "runs", MeasuredFrom, results.runs);
    results.memory_source = file.at("memory_source");
    ReadRows(file, "memory", MemoryFrom, results.memory);
    return results;
  } catch (const std::exception& error) {
    return FieldError(
        Reason::kSpecInvalid, "results",
        absl::StrCat("must be a file that parplan-study papers wrote: ", error.what()));
  }
}

}  // namespace parplan::papers
