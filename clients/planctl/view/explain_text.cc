#include "clients/planctl/view/explain_text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/quantity_text.h"
#include "clients/planctl/view/measure_next_view.h"
#include "clients/planctl/view/text_layout.h"
#include "clients/report/html.h"

namespace parplan::planctl {
namespace {

using report::Change;
using report::Percent;

// `+1.20 ms`, `-3.40 GB`, `±0`.
template <typename Value, typename Text>
std::string Signed(Value from, Value to, Text text) {
  if (from == to) return "±0";
  return from < to ? absl::StrCat("+", text(to - from)) : absl::StrCat("-", text(from - to));
}

std::string Row(absl::string_view name, const std::string& of_plan, const std::string& of_rival,
                const std::string& difference) {
  return absl::StrCat("  ", absl::StrFormat("%-28s", name), PaddedLeft(of_plan, 12),
                      PaddedLeft(of_rival, 12), PaddedLeft(difference, 14), "\n");
}

std::string BoundBy(const PlanTerms& terms) {
  const MemoryTerms& memory = terms.memory;
  const Bytes usable = terms.prediction.usable_memory;
  if (memory.left < Bytes()) {
    return absl::StrCat("does not fit: stage ", memory.stage_index, " lacks ",
                        SizeText(memory.upper - usable), " of the ", SizeText(memory.upper),
                        " it may need");
  }
  return absl::StrCat(memory.binds ? "memory of stage " : "nothing of memory: stage ",
                      memory.stage_index, memory.binds ? ", which has " : " has ",
                      SizeText(memory.left), " left of ", SizeText(usable));
}

std::string Head(const char* label, const PlanTerms& terms) {
  std::string text =
      absl::StrFormat("%-12s %s\n", label, WrapGist(PlanGist(terms.plan), kValueColumn));
  absl::StrAppendFormat(
      &text, "%-12s %s\n", "",
      Wrap(absl::StrCat(terms.plan.micro_batch_count, " micro-batches of ",
                        terms.plan.micro_batch_size(), ", ", TraitsOf(terms.plan.schedule).title,
                        report::GroupsText(terms.plan), "; step ", TimeText(terms.prediction.step),
                        ", ", report::Rate(terms.prediction.samples_per_second), " samples/s"),
           kValueColumn));
  absl::StrAppendFormat(&text, "%-12s %s\n", "  bound by", Wrap(BoundBy(terms), kValueColumn));
  return text;
}

std::string ExplanationText(const std::string& name, const PlanExplanation& explanation) {
  const PlanTerms& plan = explanation.plan;
  const PlanTerms& rival = explanation.rival;
  std::string text = absl::StrCat("against ", name, ": the plan ");
  if (explanation.time_ratio >= 1.0) {
    absl::StrAppend(&text, "needs ", Percent(1.0 - 1.0 / explanation.time_ratio),
                    " less time a sample\n");
  } else {
    absl::StrAppend(&text, "needs ", Percent(1.0 / explanation.time_ratio - 1.0),
                    " more time a sample\n");
  }
  absl::StrAppend(&text, Head("this plan", plan), Head("the rival", rival), "\n");
  const double samples = static_cast<double>(plan.plan.global_batch_size) /
                         static_cast<double>(rival.plan.global_batch_size);
  absl::StrAppend(&text, Row("time of a step", "this plan", "the rival", "difference"));
  for (const PlanExplanation::Difference& difference : explanation.differences) {
    absl::StrAppend(&text,
                    Row(difference.name, TimeText(difference.plan), TimeText(difference.rival),
                        Signed(difference.plan, difference.rival, &TimeText)));
  }
  const Seconds rival_step = rival.prediction.step * samples;
  absl::StrAppend(&text,
                  Row("together", TimeText(plan.prediction.step), TimeText(rival_step),
                      Signed(plan.prediction.step, rival_step, &TimeText)),
                  "  ",
                  Wrap(absl::StrCat("On the busiest device, stage ", plan.step.stage_index,
                                    " here, stage ", rival.step.stage_index, " there",
                                    samples == 1.0 ? "." : "; the rival's for as many samples."),
                       2),
                  "\n\n");
  absl::StrAppend(&text,
                  Row("memory of the fullest device", "this plan", "the rival", "difference"));
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    const Bytes of_plan = plan.memory.items.size[kind];
    const Bytes of_rival = rival.memory.items.size[kind];
    if (of_plan == Bytes() && of_rival == Bytes()) continue;
    absl::StrAppend(&text, Row(report::Name(static_cast<MemoryItemKind>(kind)), SizeText(of_plan),
                               SizeText(of_rival), Signed(of_plan, of_rival, &SizeText)));
  }
  absl::StrAppend(&text, Row("at most", SizeText(plan.memory.upper), SizeText(rival.memory.upper),
                             Signed(plan.memory.upper, rival.memory.upper, &SizeText)));
  return text;
}

std::string WhyNotText(const WhyNot& why_not) {
  if (why_not.explanation.has_value()) {
    return ExplanationText(absl::StrCat("`", why_not.planner, "`"), *why_not.explanation);
  }
  std::string text = absl::StrCat("why not `", why_not.planner, "`: ");
  if (why_not.has_no_candidates) {
    absl::StrAppend(&text, "it has no plan for these devices, heads and batch");
  } else if (why_not.stopped_early) {
    absl::StrAppend(&text, "not known, a limit ended its search before any plan was found");
  } else {
    absl::StrAppend(&text, "nothing of it fits; devices with ",
                    SizeText(why_not.smallest_device_memory), " would do");
    if (why_not.smallest_device_count.has_value()) {
      absl::StrAppend(&text, ", or ", *why_not.smallest_device_count, " of these");
    }
  }
  text = absl::StrCat(Wrap(text, 2), "\n");
  if (why_not.smallest.has_value()) {
    absl::StrAppend(&text, Head("its smallest", *why_not.smallest));
  }
  return text;
}

std::string SensitivityText(const std::vector<Sensitivity>& sensitivities) {
  std::string text = absl::StrFormat("%-34s %12s %12s %12s\n", "what more would buy", "same plan",
                                     "best plan", "time saved");
  for (const Sensitivity& sensitivity : sensitivities) {
    const std::string name =
        absl::StrCat(Change(sensitivity.factor - 1.0), " ", ResourceName(sensitivity.resource));
    absl::StrAppend(
        &text, "  ", absl::StrFormat("%-32s", name), " ",
        PaddedLeft(TimeText(sensitivity.kept_step), 12), " ",
        PaddedLeft(sensitivity.best.has_value() ? TimeText(sensitivity.best->prediction.step) : "–",
                   12),
        " ", PaddedLeft(Percent(sensitivity.gain), 12), "\n");
    if (sensitivity.plan_changes) {
      absl::StrAppend(&text, "      ", WrapGist(PlanGist(sensitivity.best->plan), 6), "\n");
    }
  }
  return text;
}

const char* VerdictText(PartitionVerdict verdict) {
  switch (verdict) {
    case PartitionVerdict::kStart:
      return "start: balanced memory";
    case PartitionVerdict::kEnd:
      return "end: balanced time";
    case PartitionVerdict::kJoined:
      return "joins";
    case PartitionVerdict::kSlower:
      return "no: slowest stage slower";
    case PartitionVerdict::kDoesNotFit:
      return "no: a stage does not fit";
    case PartitionVerdict::kTooFull:
      return "no: fuller than balanced time";
  }
  return "";
}

const char* EndText(WalkEnd end) {
  switch (end) {
    case WalkEnd::kNothingLeft:
      return "no neighbour of these partitions is left";
    case WalkEnd::kMostPartitions:
      return "as many partitions as a walk may try";
    case WalkEnd::kStopped:
      return "as many states as a walk may expand, or the limits of the question";
  }
  return "";
}

// Returns whether the walk goes on from this partition and its slowest stage has one layer, so that
// it has none to give.
bool HasNothingToGive(const ExplainedStep& step) {
  const PartitionVerdict verdict = step.step.verdict;
  if (!step.step.figures ||
      (verdict != PartitionVerdict::kStart && verdict != PartitionVerdict::kJoined)) {
    return false;
  }
  const std::vector<Seconds>& times = step.step.figures->times;
  return step.step.partition[std::max_element(times.begin(), times.end()) - times.begin()] == 1;
}

// One line per partition: number, layers of the stages, the move that made it, balance, slowest
// stage, fullest stage, step, verdict.
std::string WalkText(const ExplainedWalk& walk) {
  std::string text = absl::StrCat(
      "from balanced memory to balanced time, layers ",
      walk.with_recompute ? "recomputed where it helps" : "never recomputed",
      walk.measure == MemoryMeasure::kFastest ? ", memory of the fastest strategies balanced\n"
      : walk.measure == MemoryMeasure::kLeast && walk.with_recompute
          ? ", memory balanced as if all could be\n"
          : ", memory balanced without recomputation\n");
  absl::StrAppendFormat(&text, "  %4s %4s %-10s %8s %8s %11s %11s %11s  %s\n", "step", "from",
                        "stages", "alpha_t", "alpha_m", "slowest", "fullest", "step time",
                        "verdict");
  for (size_t index = 0; index < walk.steps.size(); ++index) {
    const ExplainedStep& step = walk.steps[index];
    const std::string move = step.step.from_stage < 0
                                 ? ""
                                 : absl::StrCat(step.step.from_stage, " to ", step.step.to_stage);
    absl::StrAppendFormat(&text, "  %4d %4s %-10s", index,
                          step.step.parent < 0 ? "" : absl::StrCat(step.step.parent), move);
    if (step.step.figures) {
      const StageFigures& figures = *step.step.figures;
      absl::StrAppend(
          &text, absl::StrFormat(" %8.4f %8.4f ", step.degrees->time, step.degrees->memory),
          PaddedLeft(TimeText(*std::max_element(figures.times.begin(), figures.times.end())), 11),
          " ",
          PaddedLeft(SizeText(*std::max_element(figures.peaks.begin(), figures.peaks.end())), 11),
          " ", PaddedLeft(TimeText(step.plan->prediction.step), 11));
    } else {
      absl::StrAppendFormat(&text, " %8s %8s %11s %11s %11s", "", "", "", "", "");
    }
    absl::StrAppend(&text, "  ", VerdictText(step.step.verdict),
                    step.plan && !step.plan->prediction.fits() ? ", does not fit as a whole" : "",
                    HasNothingToGive(step) ? ", its slowest stage has nothing to give" : "", "\n",
                    "            ", Wrap(absl::StrJoin(step.layer_counts, " | "), 12), "\n");
  }
  absl::StrAppend(&text, "  ended: ", EndText(walk.end), "\n");
  return text;
}

std::string ParameterText(const ParameterParts& parts) {
  std::string text = "Parameters of the model\n";
  int64_t sum = 0;
  for (const auto& [name, count] : NamedParameterParts(parts)) {
    sum += count;
    absl::StrAppendFormat(&text, "  %-18s %16d\n", name, count);
  }
  absl::StrAppendFormat(&text, "  %-18s %16d\n", "in all", sum);
  return text;
}

// `0-7`, `0-12/4` (every fourth) or `0,1,5`.
std::string RanksText(const std::vector<int>& ranks) {
  const int step = ranks.size() < 3 ? 0 : ranks[1] - ranks[0];
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != step) return absl::StrJoin(ranks, ",");
  }
  const std::string ends = absl::StrCat(ranks.front(), "-", ranks.back());
  return step > 1 ? absl::StrCat(ends, "/", step) : ends;
}

std::string CollectivesText(const PricedCollectives& priced) {
  std::string text = absl::StrCat("Collectives of rank ", priced.rank,
                                  " in a step, priced for runtime `", priced.runtime_id, "`\n");
  absl::StrAppendFormat(&text, "  %-19s %-14s %-14s %10s  %s\n", "purpose", "collective", "ranks",
                        "calls", "bytes in all");
  for (const StepCollective& one : priced.rows) {
    absl::StrAppendFormat(&text, "  %-19s %-14s %-14s %10g  %s\n",
                          CollectivePurposeName(one.purpose), CollectiveName(one.collective),
                          RanksText(one.ranks), one.count,
                          SizeText(Bytes::Of(static_cast<int64_t>(one.bytes))));
  }
  return text;
}

}  // namespace

std::string ExplainText(const ExplainAnswer& answer) {
  std::vector<std::string> parts;
  if (answer.parameters.has_value()) parts.push_back(ParameterText(*answer.parameters));
  if (answer.collectives.has_value()) parts.push_back(CollectivesText(*answer.collectives));
  if (answer.against.has_value()) parts.push_back(ExplanationText("the rival", *answer.against));
  for (const WhyNot& why_not : answer.why_not) parts.push_back(WhyNotText(why_not));
  if (!answer.sensitivities.empty()) parts.push_back(SensitivityText(answer.sensitivities));
  for (const ExplainedWalk& walk : answer.walks) parts.push_back(WalkText(walk));
  if (answer.measure_next.has_value()) {
    parts.push_back(MeasureNextText(*answer.measure_next, answer.against.has_value()));
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : "\n", part);
  return text;
}

}  // namespace parplan::planctl
