// `OverlapSection` and `ChecksSection` of page_sections.h.

#include "studies/papers/page_sections.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

// Milliseconds below which two predictions of a step are equal: the last digit of the table.
constexpr double kEqualMs = 0.05;

// Error within which the summary of BMW asks for estimates.
constexpr double kWithin = 0.1;

// Returns how far off the predicted peaks of memory are; empty without runs.
std::string MemoryText(const PapersResults& results) {
  std::vector<std::string> texts;
  for (const bool from_profile : {true, false}) {
    const MemoryErrors errors = ErrorsOf(results.memory, from_profile);
    if (errors.plan_count == 0) continue;
    texts.push_back(
        absl::StrFormat("%d plans predicted from %s: median error of the peak %.2f %%, "
                        "worst %.2f %% (%s)",
                        errors.plan_count, from_profile ? "a profile" : "the model alone",
                        100 * errors.median, 100 * errors.worst, errors.worst_plan));
  }
  return absl::StrJoin(texts, "; ");
}

// Returns which prediction of a plan is closer, `=` if nothing overlaps in it.
std::string CloserText(const MeasuredPlan& plan) {
  if (std::abs(plan.predicted_ms - plan.predicted_without_slowdown_ms) < kEqualMs) return "=";
  if (!plan.Decides()) return "not decided";
  return plan.SlowdownIsCloser() ? "with" : "without";
}

double WorstMemoryError(const PapersResults& results) {
  return std::max(ErrorsOf(results.memory, true).worst, ErrorsOf(results.memory, false).worst);
}

const GridCell* FindCell(const PapersResults& results, const std::string& model, int device_count,
                         int memory_gb) {
  for (const GridCell& cell : results.grid) {
    if (cell.model == model && cell.device_count == device_count && cell.memory_gb == memory_gb) {
      return &cell;
    }
  }
  return nullptr;
}

const PipelineRow* FindPipeline(const PapersResults& results, const std::string& model,
                                int memory_gb) {
  for (const PipelineRow& row : results.pipelines) {
    if (row.model == model && row.memory_gb == memory_gb) return &row;
  }
  return nullptr;
}

}  // namespace

std::string OverlapSection(const PapersResults& results) {
  if (results.runs.empty()) return "";
  const std::vector<std::vector<MeasuredPlan>> sets = BySet(results.runs);
  std::vector<std::string> slowdowns;
  for (const std::vector<MeasuredPlan>& set : sets) {
    slowdowns.push_back(absl::StrFormat("%.2f (set `%s`)", set.front().slowdown, set.front().set));
  }
  std::string text = "## Estimation error with and without the slow-down of overlap\n\n";
  text += Paragraph(absl::StrFormat(
      "Computation and communication that run at the same time are slower than each alone; the "
      "artefact of 2022 estimates with a factor, 1.3 ([papers.md](../papers.md) 1.6). Here the "
      "profile of the machine that ran the plans has it, measured: %s. Each plan was run and "
      "predicted twice, with that factor and with 1; %s. [prediction.md](prediction.md) says what "
      "the sets of plans are. The runs are stored, since they do not fit into this command's two "
      "minutes; their machine is the one named here, and not that of the searches above.",
      absl::StrJoin(slowdowns, ", "), results.runs_source));
  text += Head({"set", "plan", "median, ms", "95 % of the median", "p10 to p90", "with", "error",
                "without", "error", "closer"});
  for (const MeasuredPlan& plan : results.runs) {
    text += Row({plan.set, plan.plan, absl::StrFormat("%.1f", plan.measured_ms),
                 absl::StrFormat("± %.1f", plan.median_uncertainty_ms),
                 absl::StrFormat("%.1f to %.1f", plan.p10_ms, plan.p90_ms),
                 absl::StrFormat("%.1f", plan.predicted_ms), Signed(plan.Error()),
                 absl::StrFormat("%.1f", plan.predicted_without_slowdown_ms),
                 Signed(plan.ErrorWithoutSlowdown()), CloserText(plan)});
  }
  text += "\n";
  std::string found;
  int decided_count = 0, closer_count = 0;
  for (const std::vector<MeasuredPlan>& set : sets) {
    const OverlapErrors errors = OverlapErrorsOf(set);
    decided_count += errors.decided_count;
    closer_count += errors.closer_count;
    absl::StrAppendFormat(
        &found,
        "In set `%s` the median error is %s with the slow-down and %s without, the largest %s and "
        "%s; in %d of its %d plans the two predictions are further apart than the 95 %% interval "
        "of the measured median is wide, and in %d of these the one with the slow-down is closer. ",
        set.front().set, Percent(errors.median_with), Percent(errors.median_without),
        Percent(errors.worst_with), Percent(errors.worst_without), errors.decided_count, set.size(),
        errors.closer_count);
  }
  const char* const verdict =
      decided_count == 0 ? "**Not decided**: these runs do not show which of the two estimates is "
                           "better; that needs plans whose overlap takes a larger part of a step."
      : closer_count == decided_count ? "**The slow-down is needed** in every plan that decides."
      : closer_count == 0             ? "**The slow-down only adds error** in every plan that "
                                        "decides."
                                      : "**No clear answer**: the plans that decide disagree.";
  text += Paragraph(absl::StrCat(
      found, verdict,
      " The interval is by order statistics, as if steps were independent. These are processes on "
      "two cores, whose collectives are the same processors' work, so the factor is not a GPU's; a "
      "GPU has run none of this."));
  return text;
}

std::string ChecksSection(const PapersResults& results) {
  std::string text = "## The three first experiments and the three next checks\n\n";
  text += Paragraph(
      "The summary of BMW asks for six things ([papers.md](../papers.md) 2.5 and 2.7). What can be "
      "said "
      "here:");
  text += Head({"asked", "found", "verdict"});
  const GridCell* const bert = FindCell(results, "BERT-Huge-32", 8, 16);
  if (bert != nullptr) {
    const std::string rival = bert->BestOf(Baselines());
    double seconds = 0.0;
    for (const TimedSearch& timed : results.times) {
      if (timed.axis == "strategies" && timed.value == 44 && timed.planner == kBase) {
        seconds = timed.seconds;
      }
    }
    const bool wins = bert->RateOf(kBase) > bert->RateOf(rival);
    text +=
        Row({"1. Base on BERT of 32 layers, 8 GPUs of 16 GB: search below 5 minutes, faster than "
             "the baselines",
             absl::StrFormat("%.3g s for one batch; %.2f samples/s against %.2f of `%s`", seconds,
                             bert->RateOf(kBase), bert->RateOf(rival), rival),
             wins && seconds < 300.0 ? "yes, under our cost model" : "no"});
  }
  const GridCell* const t5 = FindCell(results, "T5-512/4-32", 8, 16);
  const PipelineRow* const pipeline = FindPipeline(results, "T5-512/4-32", 16);
  if (t5 != nullptr && pipeline != nullptr) {
    const double whole = t5->RateOf(kBmw) / t5->RateOf(kBase) - 1.0;
    const double start = pipeline->memory_balanced;
    const double alone = start > 0.0 ? pipeline->bmw / start - 1.0 : pipeline->bmw;
    int gain_count = 0;
    for (const PipelineRow& row : results.pipelines) {
      if (row.bmw > row.memory_balanced * (1.0 + kLost)) ++gain_count;
    }
    text += Row(
        {"2. BMW on T5-512/4, same setup: its adjustment is faster than balanced memory alone",
         absl::StrFormat(
             "whole tree: %.2f samples/s, `galvatron-base` %.2f (%s), optimum %.2f; "
             "pipelines alone: %.2f, the best of balanced memory alone %.2f (%s), optimum "
             "%.2f; a gain of more than 0.1 %% in %d of the %d rows of *Balance*",
             t5->RateOf(kBmw), t5->RateOf(kBase), Signed(whole), t5->OptimumRate(), pipeline->bmw,
             start, Signed(alone), pipeline->optimum, gain_count, results.pipelines.size()),
         absl::StrCat(whole > kLost ? "yes" : "no gain", " in the whole tree, ",
                      alone > kLost ? "yes" : "no gain", " with pipelines alone")});
  }
  std::string runs = "other plans: [prediction.md](prediction.md)";
  bool close = false;
  if (!results.runs.empty()) {
    const double median =
        MedianError(results.runs, [](const MeasuredPlan& plan) { return plan.Error(); });
    close = median < kWithin;
    runs = absl::StrFormat("median error of the step %s in %d plans above; %s", Percent(median),
                           results.runs.size(), runs);
  }
  const std::string memory = MemoryText(results);
  absl::StrAppend(&runs, "; memory: ", memory.empty() ? "not stored" : memory, " (check 5)");
  text += Row({"3. Predicted time and memory of a real run within 10 %", runs,
               close && !memory.empty() && WorstMemoryError(results) < kWithin
                   ? "yes, time in the median, on CPU ranks; plans of one GPU: [gpu.md](gpu.md)"
                   : "not shown"});
  const UnlikeSummary unlike = SummaryOf(results.unlike);
  text += Row(
      {"4. Next check: devices of several kinds, to validate equal groups",
       results.unlike.empty()
           ? "not stored"
           : absl::StrFormat("all 16 devices as alike are slower than the eight stronger ones "
                             "alone in %d of %d rows below, and than each node by itself, at most, "
                             "in %d; plans over several kinds are refused",
                             unlike.alone_is_faster_count, results.unlike.size(),
                             unlike.apart_is_faster_count),
       unlike.alone_is_faster_count > 0 ? "equal groups do not hold; unlike ones are not planned"
                                        : "not shown"});
  text += Row({"5. Next check: memory of all stages within 10 %",
               memory.empty() ? "not stored: `executor_memory_test --gtest_output=json:FILE`"
                              : absl::StrCat("every rank of its plans against the prediction, the "
                                             "worst device of each: ",
                                             memory, "; ", results.memory_source),
               memory.empty() ? "not shown"
               : WorstMemoryError(results) < kWithin
                   ? "yes, on CPU ranks; plans of one GPU: [gpu.md](gpu.md)"
                   : "no"});
  const auto bounds = [&results](absl::string_view axis) {
    const std::vector<TimedSearch> searches = SearchesOf(results, axis);
    std::vector<std::string> texts;
    for (const std::string& planner : PlannersOf(searches)) {
      int most = 0;
      // Searches of an axis are in ascending order: the last before the first that did not end, or
      // that left more than a hundredth of its own space unproved.
      for (const TimedSearch& timed : searches) {
        if (timed.planner != planner) continue;
        if (timed.stopped || timed.rate <= 0.0 || (BoundsItsSpace(planner) && timed.gap > 0.01)) {
          break;
        }
        most = timed.value;
      }
      texts.push_back(most > 0 ? absl::StrFormat("`%s` %d", planner, most)
                               : absl::StrFormat("`%s` none", planner));
    }
    return texts;
  };
  text += Row({"6. Next check: where search becomes too slow",
               absl::StrFormat("most layers up to which every search ended, with a gap of 1 %% at "
                               "most, within %g s: %s; within %g s: %s",
                               kSearchSeconds, absl::StrJoin(bounds("layers"), ", "),
                               kLongSearchSeconds, absl::StrJoin(bounds("long-layers"), ", ")),
               "found, on one machine"});
  return text;
}

}  // namespace parplan::papers
