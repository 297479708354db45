#include "studies/accuracy/accuracy_metrics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/calibrate/rank_statistics.h"
#include "clients/calibrate/run_slice.h"
#include "clients/report/html.h"

namespace parplan::accuracy {
namespace {

double Mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double MeanMagnitude(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::abs(value);
  return sum / static_cast<double>(values.size());
}

double Share(int part, int whole) { return static_cast<double>(part) / whole; }

std::vector<const AccuracyRow*> Worst(const std::vector<const AccuracyRow*>& rows,
                                      std::optional<double> (AccuracyRow::*error)() const) {
  std::vector<const AccuracyRow*> worst;
  for (const AccuracyRow* row : rows) {
    if ((row->*error)().has_value()) worst.push_back(row);
  }
  std::stable_sort(worst.begin(), worst.end(), [error](const AccuracyRow* a, const AccuracyRow* b) {
    return std::abs(*(a->*error)()) > std::abs(*(b->*error)());
  });
  if (worst.size() > kWorstCount) worst.resize(kWorstCount);
  return worst;
}

// Names and sizes of items, largest first.
std::string LargestTwo(std::vector<std::pair<double, std::string>> items) {
  double total = 0.0;
  for (const auto& [size, name] : items) total += size;
  if (!(total > 0.0)) return "";
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < 2 && i < items.size() && items[i].first > 0.0; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", items[i].second,
                    absl::StrFormat(" %.0f %%", 100.0 * items[i].first / total));
  }
  return text;
}

}  // namespace

std::optional<double> AccuracyRow::TimeError() const {
  if (!measured_step.has_value()) return std::nullopt;
  return prediction.step / *measured_step - 1.0;
}

std::optional<double> AccuracyRow::MemoryError() const {
  if (!measured_memory.has_value()) return std::nullopt;
  return prediction.memory.as_double() / measured_memory->as_double() - 1.0;
}

bool IsFitted(const std::string& source, const std::string& id) {
  static const auto* const slices = new std::vector<planctl::RunSlice>([] {
    std::vector<planctl::RunSlice> both;
    for (const char* text : {planctl::kPublishedTimeSlice, planctl::kPublishedMemorySlice}) {
      both.push_back(*planctl::RunSlice::Parse(text, "slice"));
    }
    return both;
  }());
  return std::any_of(slices->begin(), slices->end(),
                     [&](const planctl::RunSlice& slice) { return slice.Holds(source, id); });
}

std::string FittedSliceRule() {
  return absl::StrCat("coefficients may be fitted on these rows: for steps ",
                      planctl::kPublishedTimeSlice, "; for memory ", planctl::kPublishedMemorySlice,
                      "; unfitted are all others");
}

AccuracyFigures FiguresOf(absl::Span<const AccuracyRow* const> rows) {
  AccuracyFigures figures;
  std::vector<double> time;
  std::vector<double> memory;
  int ranged = 0;
  int in_range = 0;
  int under = 0;
  int over_bound = 0;
  int known_to_run = 0;
  int refused = 0;
  for (const AccuracyRow* row : rows) {
    ++figures.count;
    if (const auto error = row->TimeError()) {
      time.push_back(*error);
      if (const auto& range = row->prediction.step_range) {
        ++ranged;
        if (range->lower <= *row->measured_step && *row->measured_step <= range->upper) ++in_range;
      }
    }
    if (const auto error = row->MemoryError()) {
      memory.push_back(*error);
      if (*error < 0.0) ++under;
      if (*row->measured_memory > row->prediction.memory_bound) ++over_bound;
    }
    if (row->failed) {
      ++figures.failed_total;
      if (row->Refused()) ++figures.failed_refused;
    }
    if (!row->out_of_memory.has_value()) continue;
    if (*row->out_of_memory) {
      ++figures.oom_total;
      if (row->Refused()) ++figures.oom_refused;
    } else {
      ++known_to_run;
      if (row->Refused()) ++refused;
    }
  }
  figures.time_count = static_cast<int>(time.size());
  figures.memory_count = static_cast<int>(memory.size());
  if (!time.empty()) {
    figures.time_mape = MeanMagnitude(time);
    figures.time_bias = Mean(time);
    for (double& error : time) error = std::abs(error);
    figures.time_median = Median(std::move(time));
  }
  if (ranged > 0) figures.time_in_range = Share(in_range, ranged);
  if (!memory.empty()) {
    figures.memory_mape = MeanMagnitude(memory);
    figures.memory_bias = Mean(memory);
    figures.memory_under_rate = Share(under, figures.memory_count);
    figures.memory_over_bound = Share(over_bound, figures.memory_count);
  }
  if (known_to_run > 0) figures.false_refusals = Share(refused, known_to_run);
  return figures;
}

std::vector<JobGroup> GroupsOf(absl::Span<const AccuracyRow> rows) {
  std::map<std::pair<std::string, std::string>, std::vector<const AccuracyRow*>> jobs;
  for (const AccuracyRow& row : rows) {
    if (row.measured_step.has_value()) jobs[{row.source, row.job_key}].push_back(&row);
  }
  std::vector<JobGroup> groups;
  for (const auto& [key, members] : jobs) {
    std::set<std::string> plans;
    std::vector<double> predicted;
    std::vector<double> measured;
    JobGroup group;
    for (const AccuracyRow* row : members) {
      plans.insert(row->plan_key);
      predicted.push_back(row->prediction.step.value());
      measured.push_back(row->measured_step->value());
      group.fitted |= row->fitted;
    }
    if (plans.size() < kMinGroupPlans) continue;
    group.source = key.first;
    group.job_key = key.second;
    group.row_count = static_cast<int>(members.size());
    group.plan_count = static_cast<int>(plans.size());
    group.regret = TopOneRegret(predicted, measured);
    group.rank_correlation = RankCorrelation(predicted, measured);
    groups.push_back(std::move(group));
  }
  return groups;
}

GroupFigures FiguresOfGroups(absl::Span<const JobGroup* const> groups) {
  GroupFigures figures;
  std::vector<double> regrets;
  std::vector<double> correlations;
  for (const JobGroup* group : groups) {
    ++figures.count;
    regrets.push_back(group->regret);
    if (group->rank_correlation.has_value()) correlations.push_back(*group->rank_correlation);
  }
  if (!regrets.empty()) {
    figures.regret_mean = Mean(regrets);
    figures.regret_max = *std::max_element(regrets.begin(), regrets.end());
  }
  if (!correlations.empty()) figures.rank_correlation_mean = Mean(correlations);
  return figures;
}

AccuracySummary Summarise(std::vector<AccuracyRow> rows, std::vector<SkippedRun> skipped,
                          std::string calibration_id) {
  AccuracySummary summary;
  summary.rows = std::move(rows);
  summary.skipped = std::move(skipped);
  summary.calibration_id = std::move(calibration_id);
  summary.groups = GroupsOf(summary.rows);
  std::map<std::string, std::vector<const AccuracyRow*>> of_source;
  for (const AccuracyRow& row : summary.rows) of_source[row.source].push_back(&row);
  for (const SkippedRun& skip : summary.skipped) ++summary.sources[skip.source].skipped;
  for (const auto& [source, members] : of_source) {
    SourceAccuracy& accuracy = summary.sources[source];
    std::vector<const AccuracyRow*> unfitted;
    for (const AccuracyRow* row : members) {
      if (!row->fitted) unfitted.push_back(row);
    }
    accuracy.all = FiguresOf(members);
    accuracy.unfitted = FiguresOf(unfitted);
    accuracy.worst_time = Worst(members, &AccuracyRow::TimeError);
    accuracy.worst_memory = Worst(members, &AccuracyRow::MemoryError);
    std::vector<const JobGroup*> groups;
    for (const JobGroup& group : summary.groups) {
      if (group.source == source) groups.push_back(&group);
    }
    accuracy.groups = FiguresOfGroups(groups);
  }
  return summary;
}

AccuracySummary Evaluate(const PublishedRuns& runs, const std::vector<std::string>& sources,
                         const RunPredictor& predict, std::string calibration_id) {
  const auto wanted = [&sources](const std::string& source) {
    return sources.empty() || std::find(sources.begin(), sources.end(), source) != sources.end();
  };
  std::vector<AccuracyRow> rows;
  std::vector<SkippedRun> skipped;
  for (const SkippedRun& skip : runs.skipped) {
    if (wanted(skip.source)) skipped.push_back(skip);
  }
  for (const PublishedRun& run : runs.runs) {
    if (!wanted(run.source)) continue;
    const absl::StatusOr<RunQuestion> question = QuestionOf(run);
    const absl::StatusOr<RunPrediction> prediction =
        question.ok() ? predict(*question) : absl::StatusOr<RunPrediction>(question.status());
    if (!prediction.ok()) {
      skipped.push_back({run.id, run.source, std::string(prediction.status().message())});
      continue;
    }
    AccuracyRow row;
    row.id = run.id;
    row.source = run.source;
    row.job_key = question->job_key;
    row.plan_key = question->plan_key;
    row.fitted = IsFitted(run.source, run.id);
    if (run.split != "memory-validation") row.measured_step = run.step;
    row.measured_memory = run.peak_memory;
    row.memory_view = question->memory_view;
    row.out_of_memory = run.out_of_memory;
    row.failed = run.failed;
    // A row with a time or a peak has run.
    if (!row.out_of_memory.has_value() && (run.step.has_value() || run.peak_memory.has_value())) {
      row.out_of_memory = false;
    }
    row.device_memory = question->device_memory;
    row.prediction = *prediction;
    row.assumptions = question->assumptions;
    rows.push_back(std::move(row));
  }
  return Summarise(std::move(rows), std::move(skipped), std::move(calibration_id));
}

std::string DominatingTerms(const TimeItems& items) {
  std::vector<std::pair<double, std::string>> named;
  for (int i = 0; i < kTimeItemKindCount; ++i) {
    const TimeItemKind kind = static_cast<TimeItemKind>(i);
    named.emplace_back(items[kind].value(), report::Name(kind));
  }
  return LargestTwo(std::move(named));
}

std::string DominatingTerms(const MemoryItems& items) {
  std::vector<std::pair<double, std::string>> named;
  for (int i = 0; i < kMemoryItemKindCount; ++i) {
    const MemoryItemKind kind = static_cast<MemoryItemKind>(i);
    named.emplace_back(items[kind].as_double(), report::Name(kind));
  }
  return LargestTwo(std::move(named));
}

}  // namespace parplan::accuracy
