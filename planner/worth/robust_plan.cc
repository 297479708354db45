#include "planner/worth/robust_plan.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace parplan {
namespace {

Seconds UpperPerSample(const PredictedPlan& plan) {
  return plan.prediction.step_upper / static_cast<double>(plan.plan.global_batch_size);
}

// Returns whether `a` is the safer of two plans.
bool IsSafer(const PredictedPlan& a, const PredictedPlan& b) {
  if (UpperPerSample(a) != UpperPerSample(b)) return UpperPerSample(a) < UpperPerSample(b);
  return IsBetterPlan(a, b);
}

// Gives `search` the gap of a plan that was chosen instead of the one it proved something of.
void SetGap(const PredictedPlan& best, const PredictedPlan& chosen, SearchSummary& search) {
  search.bound = search.bound * (static_cast<double>(chosen.plan.global_batch_size) /
                                 static_cast<double>(best.plan.global_batch_size));
  const Seconds step = chosen.prediction.step;
  search.bound = std::min(search.bound, step);
  search.gap_ratio = (step - search.bound) / step;
  if (search.gap_ratio == 0.0) return;
  search.termination = Termination::kFeasible;
  if (search.limit == SearchLimit::kNone) search.limit = SearchLimit::kMethod;
}

std::string Note(const PredictedPlan& best, const PredictedPlan& chosen, size_t contender_count) {
  const double scale = 1e3;
  if (chosen.plan == best.plan) {
    return absl::StrFormat(
        "robust: of %d plans within %.0f %% of the fastest, the fastest also has the earliest "
        "upper "
        "end, %.6g ms a sample",
        contender_count, 100.0 * kRobustSlack, UpperPerSample(chosen).value() * scale);
  }
  return absl::StrFormat(
      "robust: of %d plans within %.0f %% of the fastest, the one whose range ends earliest: %.6g "
      "ms "
      "a sample, at most %.6g; the fastest takes %.6g, at most %.6g",
      contender_count, 100.0 * kRobustSlack, chosen.time_per_sample().value() * scale,
      UpperPerSample(chosen).value() * scale, best.time_per_sample().value() * scale,
      UpperPerSample(best).value() * scale);
}

}  // namespace

PlanFound WithRobustPlan(PlanFound found, int alternative_count) {
  std::vector<PredictedPlan> plans;
  plans.push_back({std::move(found.plan), std::move(found.prediction)});
  for (PredictedPlan& plan : found.alternatives) plans.push_back(std::move(plan));
  std::stable_sort(plans.begin(), plans.end(), IsBetterPlan);
  const Seconds limit = plans.front().time_per_sample() * (1.0 + kRobustSlack);
  const auto end = std::find_if(plans.begin(), plans.end(), [limit](const PredictedPlan& plan) {
    return plan.time_per_sample() > limit;
  });
  const auto chosen = std::min_element(plans.begin(), end, IsSafer);
  SetGap(plans.front(), *chosen, found.search);
  found.notes.push_back(Note(plans.front(), *chosen, static_cast<size_t>(end - plans.begin())));
  found.plan = std::move(chosen->plan);
  found.prediction = std::move(chosen->prediction);
  plans.erase(chosen);
  if (plans.size() > static_cast<size_t>(alternative_count)) {
    plans.erase(plans.begin() + alternative_count, plans.end());
  }
  found.alternatives = std::move(plans);
  return found;
}

}  // namespace parplan
