#include "clients/planctl/view/measure_next_view.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/quantity_text.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

// Entries of a step that the text lists; JSON has all.
constexpr size_t kMaxEntries = 8;

// Returns the command that measures what is asked for.
absl::string_view CommandFor(MeasureTarget target) {
  switch (target) {
    case MeasureTarget::kLayers:
      return "parplan-agent --once --model MODEL --out profile.json";
    case MeasureTarget::kIntraNodeCollectives:
      return "parplan-agent --once --out profile.json";
    case MeasureTarget::kInterNodeCollectives:
      return "parplan-agent --server SERVER --cluster CLUSTER --node NODE --link-node NODE "
             "--link-node OTHER";
    case MeasureTarget::kOverlap:
      return "parplan-agent --once --model MODEL --out profile.json";
    case MeasureTarget::kExecutions:
      return "planctl calibrate --executions FILE, after runs of a plan";
  }
  return "";
}

std::string ChangeText(double change) { return absl::StrFormat("%.2f %%", 100.0 * change); }

std::string Verdict(const MeasureNext& next) {
  const std::string faster = next.log_time_ratio >= 0.0 ? "The plan" : "The rival";
  return absl::StrCat(faster, " is predicted to be ",
                      ChangeText(std::expm1(std::abs(next.log_time_ratio))),
                      " faster, and what was not measured moves that difference by ",
                      ChangeText(next.difference_deviation), " (one standard deviation): ",
                      next.is_decided() ? "it decides nothing any more"
                                        : "measurements could turn it around, in this order");
}

}  // namespace

std::string MeasureNextText(const MeasureNext& next, bool has_rival) {
  std::string text = "What to measure next\n";
  if (next.steps.empty()) {
    return absl::StrCat(text, "  ",
                        Wrap("nothing that is estimated moves this prediction; its range is that "
                             "of predictions from measurements, which runs of the plan and "
                             "`planctl calibrate` narrow",
                             2),
                        "\n");
  }
  absl::StrAppend(
      &text, "  ",
      Wrap(has_rival ? Verdict(next)
                     : absl::StrCat("The step is predicted to take ", TimeText(next.plan.step),
                                    ", and what was not measured moves it by ",
                                    ChangeText(next.plan_deviation), " (one standard deviation)"),
           2),
      "\n");
  for (const MeasureStep& step : next.steps) {
    absl::StrAppendFormat(&text, "\n  %3.0f %%  %s: moves %s by %s\n", 100.0 * step.share,
                          MeasureTargetName(step.target), has_rival ? "the difference" : "the step",
                          ChangeText(has_rival ? step.difference_deviation : step.plan_deviation));
    absl::StrAppend(&text, "         ", Wrap(CommandFor(step.target), 9), "\n");
    for (size_t i = 0; i < step.entries.size() && i < kMaxEntries; ++i) {
      absl::StrAppend(&text, "         ", Wrap(step.entries[i], 11), "\n");
    }
    if (step.entries.size() > kMaxEntries) {
      absl::StrAppendFormat(&text, "         and %d more\n", step.entries.size() - kMaxEntries);
    }
  }
  return text;
}

nlohmann::ordered_json MeasureNextObject(const MeasureNext& next, bool has_rival) {
  nlohmann::ordered_json object;
  object["step_seconds"] = next.plan.step.value();
  object["step_seconds_lower"] = next.plan.step_lower.value();
  object["step_seconds_upper"] = next.plan.step_upper.value();
  object["plan_deviation"] = next.plan_deviation;
  if (has_rival) {
    object["log_time_ratio"] = next.log_time_ratio;
    object["difference_deviation"] = next.difference_deviation;
    object["is_decided"] = next.is_decided();
  }
  object["steps"] = nlohmann::ordered_json::array();
  for (const MeasureStep& step : next.steps) {
    nlohmann::ordered_json row;
    row["target"] = std::string(MeasureTargetName(step.target));
    row["share"] = step.share;
    row["plan_deviation"] = step.plan_deviation;
    if (has_rival) row["difference_deviation"] = step.difference_deviation;
    row["command"] = std::string(CommandFor(step.target));
    row["entries"] = step.entries;
    row["coefficients"] = nlohmann::ordered_json::array();
    for (const UncertainCoefficient& uncertain : step.coefficients) {
      nlohmann::ordered_json coefficient;
      coefficient["coefficient"] = std::string(InfoOf(uncertain.coefficient).name);
      coefficient["value"] = uncertain.value;
      coefficient["width"] = uncertain.width;
      coefficient["plan_change"] = uncertain.plan_change;
      if (has_rival) coefficient["rival_change"] = uncertain.rival_change;
      row["coefficients"].push_back(std::move(coefficient));
    }
    object["steps"].push_back(std::move(row));
  }
  return object;
}

}  // namespace parplan::planctl
