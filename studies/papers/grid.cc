#include "studies/papers/grid.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace parplan::papers {

double GridCell::RateOf(absl::string_view planner) const {
  const auto found = answers.find(std::string(planner));
  return found == answers.end() ? 0.0 : found->second.rate;
}

std::string GridCell::OptimumPlanner() const {
  std::string best = kTreeOptimum;
  for (const auto& [planner, answer] : answers) {
    if (answer.rate > RateOf(best) * (1.0 + kLost)) best = planner;
  }
  return best;
}

double GridCell::OptimumRate() const { return RateOf(OptimumPlanner()); }

double GridCell::UnprovedShare() const {
  const double rate = OptimumRate();
  if (rate <= 0.0 || optimum_gap >= 1.0) return 1.0;
  // No plan has a higher rate than this.
  const double bound = RateOf(kTreeOptimum) / (1.0 - optimum_gap);
  return std::max(0.0, 1.0 - rate / bound);
}

std::string GridCell::BestOf(const std::vector<std::string>& planners) const {
  std::string best;
  for (const std::string& planner : planners) {
    if (RateOf(planner) > (best.empty() ? 0.0 : RateOf(best))) best = planner;
  }
  return best;
}

GridCell CellOf(const GridQuestion& question) {
  GridCell cell{.model = ModelName(question.family, question.layer_count),
                .device_count = question.device_count,
                .memory_gb = question.memory_gb};
  const PlanningProblem problem = ProblemOf(question);
  std::map<std::string, Answer> found;
  for (const std::string& planner : StudyPlanners()) {
    const Answer& answer = found[planner] = Ask(problem, planner);
    cell.answers[planner] = {SixDigits(answer.rate), answer.batch, answer.micro_batch_count,
                             answer.pipeline_degree};
  }
  cell.optimum_gap = SixDigits(found.at(kTreeOptimum).gap);
  const Answer& method = found.at(kBmwAlone);
  const Answer& optimum = found.at(cell.OptimumPlanner());
  if (method.rate < optimum.rate * (1.0 - kLost)) {
    cell.method_gist = method.gist;
    cell.method_stages = method.stages;
    cell.optimum_gist = optimum.gist;
    cell.optimum_stages = optimum.stages;
    cell.method_loss = LossOnOptimumStages(InTree(problem), *optimum.plan);
  }
  return cell;
}

std::vector<GridQuestion> GridQuestions() {
  std::vector<GridQuestion> questions;
  for (const int device_count : kGridDevices) {
    for (const Family family : kFamilies) {
      for (const int layer_count : kGridDepths) {
        for (const int memory_gb : kGridBudgets) {
          questions.push_back({family, layer_count, device_count, memory_gb});
        }
      }
    }
  }
  return questions;
}

SpeedUp LargestSpeedUp(const std::vector<GridCell>& cells, absl::string_view planner,
                       const std::vector<std::string>& rivals, bool over_fastest) {
  SpeedUp largest{.ratio = -1.0, .where = ""};
  for (const GridCell& cell : cells) {
    double rate = over_fastest ? 0.0 : std::numeric_limits<double>::infinity();
    std::string chosen;
    for (const std::string& rival : rivals) {
      const double of_rival = cell.RateOf(rival);
      if (of_rival <= 0.0 || (over_fastest ? of_rival <= rate : of_rival >= rate)) continue;
      rate = of_rival;
      chosen = rival;
    }
    if (chosen.empty()) continue;
    const double ratio = cell.RateOf(planner) / rate - 1.0;
    if (ratio <= largest.ratio) continue;
    largest = {ratio, absl::StrCat(cell.model, ", ", cell.device_count, " GPUs, ", cell.memory_gb,
                                   " GB, over `", chosen, "`")};
  }
  return largest;
}

}  // namespace parplan::papers
