#include "planner/worth/measure_next.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "planner/calibrate/fit_parameters.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/cost/step_collectives.h"
#include "planner/model/calibration.h"

namespace parplan {
namespace {

// Changes of ln(time) below this are rounding of sums of some thousand terms.
constexpr double kRounding = 1e-9;

MeasureTarget TargetOf(Coefficient coefficient) {
  switch (coefficient) {
    case Coefficient::kIntraNodeEfficiency:
    case Coefficient::kCollectiveLatency:
      return MeasureTarget::kIntraNodeCollectives;
    case Coefficient::kInterNodeEfficiency:
    case Coefficient::kNetworkLatency:
      return MeasureTarget::kInterNodeCollectives;
    case Coefficient::kContention:
      return MeasureTarget::kOverlap;
    case Coefficient::kStepOverhead:
      return MeasureTarget::kExecutions;
    default:
      return MeasureTarget::kLayers;
  }
}

// The question of one plan under other coefficients.
class ShiftedQuestion {
 public:
  explicit ShiftedQuestion(const PlanningProblem& problem)
      : problem_(problem),
        model_(std::make_shared<const ModelSpec>(problem.model())),
        topology_(std::make_shared<const Topology>(problem.topology())) {
    for (int i = 0; i < problem.group_count(); ++i) {
      const GroupIndex group(i);
      GroupKnowledge known;
      known.profile = std::make_shared<const ProfileSnapshot>(problem.profile(group));
      if (problem.hardware(group) != nullptr) {
        known.hardware = std::make_shared<const Hardware>(*problem.hardware(group));
      }
      groups_.push_back(std::move(known));
    }
  }

  // Returns ln(time per sample) of a plan if `parameter` has `value`.
  absl::StatusOr<double> LogTime(const Plan& plan, const FitParameter& parameter,
                                 double value) const {
    Calibration::Content content = problem_.calibration().content();
    content.coefficient_values =
        WithValues(problem_.calibration(), absl::MakeConstSpan(&parameter, 1), {value});
    PARPLAN_ASSIGN_OR_RETURN(Calibration calibration, Calibration::Create(std::move(content)));
    Knowledge knowledge;
    knowledge.groups = groups_;
    knowledge.calibration = std::make_shared<const Calibration>(std::move(calibration));
    PARPLAN_ASSIGN_OR_RETURN(
        const PlanningProblem shifted,
        PlanningProblem::Create(model_, topology_, std::move(knowledge),
                                problem_.global_batch_size(), problem_.rules()));
    PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(shifted));
    return LogTimeOf(PredictPlan(shifted, costs, plan), plan);
  }

  static double LogTimeOf(const Prediction& prediction, const Plan& plan) {
    return std::log(prediction.step.value() / static_cast<double>(plan.global_batch_size));
  }

 private:
  const PlanningProblem& problem_;
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Topology> topology_;
  std::vector<GroupKnowledge> groups_;
};

// Returns the change of ln(time per sample) for one width, from both sides. A side that a bound
// cuts off is stretched to a whole width.
absl::StatusOr<double> ChangeFor(const ShiftedQuestion& question, const Plan& plan,
                                 const FitParameter& parameter) {
  const double above =
      std::min(parameter.prior * std::exp(parameter.prior_width), parameter.highest);
  const double below =
      std::max(parameter.prior * std::exp(-parameter.prior_width), parameter.lowest);
  if (!(below > 0.0 && above > below)) return 0.0;
  PARPLAN_ASSIGN_OR_RETURN(const double more, question.LogTime(plan, parameter, above));
  PARPLAN_ASSIGN_OR_RETURN(const double less, question.LogTime(plan, parameter, below));
  const double change = (more - less) / std::log(above / below) * parameter.prior_width;
  return std::abs(change) > kRounding ? change : 0.0;
}

// Lists the layer timings of a plan that its profile lacks.
void AddLayerEntries(const PlanOfProblem& of, std::set<std::string>& entries) {
  const ModelSpec& model = of.problem.model();
  const ProfileSnapshot& profile = of.problem.profile(kFirstGroup);
  for (const StagePlan& stage : of.plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      const LayerDefinition& definition = model.layer(run.first_layer_index);
      const int degree = run.strategy.tensor_parallel_degree;
      const MeasuredLayer* const measured = profile.FindLayer(definition, model.precision());
      const bool is_known =
          measured != nullptr && std::any_of(measured->timings.begin(), measured->timings.end(),
                                             [degree](const LayerTimingPoint& point) {
                                               return point.tensor_parallel_degree == degree;
                                             });
      if (is_known) continue;
      const int64_t micro_batch = std::max<int64_t>(
          1, of.plan.micro_batch_size() / std::max(1, run.strategy.data_parallel_degree));
      entries.insert(absl::StrCat("layer_timings: ", definition.layer_definition_id,
                                  ", tensor_parallel_degree ", degree, ", micro_batch_size ",
                                  micro_batch));
    }
  }
}

// Lists the collectives of a plan that its profile lacks, inside or between nodes. Stages in the
// middle of a pipeline communicate as the second one does.
absl::Status AddCollectiveEntries(const PlanOfProblem& of, bool between_nodes,
                                  std::set<std::string>& entries) {
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(of.problem));
  const Topology& topology = of.problem.topology();
  const std::vector<CollectivePoint>& measured = of.problem.profile(kFirstGroup).collectives();
  const size_t depth = static_cast<size_t>(of.plan.pipeline_parallel_degree());
  for (const size_t stage : std::set<size_t>{0, std::min<size_t>(1, depth - 1), depth - 1}) {
    for (const StepCollective& needed :
         CollectivesOfStep(of.problem, costs, of.plan, of.plan.stages[stage].first_rank)) {
      if (needed.ranks.size() < 2) continue;
      const bool leaves_node =
          topology.NodeOfRank(needed.ranks.front()) != topology.NodeOfRank(needed.ranks.back());
      if (leaves_node != between_nodes) continue;
      // Around a ring, ranks send to their neighbours: profiles time pairs.
      const int count =
          needed.collective == Collective::kSendReceive ? 2 : static_cast<int>(needed.ranks.size());
      const int stride = needed.ranks[1] - needed.ranks[0];
      const bool is_known =
          std::any_of(measured.begin(), measured.end(), [&](const CollectivePoint& point) {
            return point.collective == needed.collective && point.participant_count == count &&
                   point.rank_stride == stride;
          });
      if (is_known) continue;
      entries.insert(absl::StrCat("collective_timings: ", CollectiveName(needed.collective),
                                  ", participant_count ", count, ", rank_stride ", stride));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> EntriesOf(MeasureTarget target,
                                                   const std::vector<PlanOfProblem>& plans) {
  std::set<std::string> entries;
  for (const PlanOfProblem& plan : plans) {
    if (target == MeasureTarget::kLayers) AddLayerEntries(plan, entries);
    if (target == MeasureTarget::kIntraNodeCollectives ||
        target == MeasureTarget::kInterNodeCollectives) {
      PARPLAN_RETURN_IF_ERROR(
          AddCollectiveEntries(plan, target == MeasureTarget::kInterNodeCollectives, entries));
    }
  }
  return std::vector<std::string>(entries.begin(), entries.end());
}

double Square(double value) { return value * value; }

}  // namespace

absl::string_view MeasureTargetName(MeasureTarget target) {
  switch (target) {
    case MeasureTarget::kLayers:
      return "layers";
    case MeasureTarget::kIntraNodeCollectives:
      return "collectives inside nodes";
    case MeasureTarget::kInterNodeCollectives:
      return "collectives between nodes";
    case MeasureTarget::kOverlap:
      return "overlap of computation and communication";
    case MeasureTarget::kExecutions:
      return "whole steps";
  }
  return "";
}

absl::StatusOr<MeasureNext> FindMeasureNext(const PlanOfProblem& plan, const PlanOfProblem* rival) {
  const PlanningProblem& problem = plan.problem;
  MeasureNext answer;
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  answer.plan = PredictPlan(problem, costs, plan.plan);
  std::vector<PlanOfProblem> plans = {plan};
  std::optional<ShiftedQuestion> of_rival;
  if (rival != nullptr) {
    plans.push_back(*rival);
    of_rival.emplace(rival->problem);
    PARPLAN_ASSIGN_OR_RETURN(const CostModel rival_costs, CostModel::Create(rival->problem));
    answer.log_time_ratio =
        ShiftedQuestion::LogTimeOf(PredictPlan(rival->problem, rival_costs, rival->plan),
                                   rival->plan) -
        ShiftedQuestion::LogTimeOf(answer.plan, plan.plan);
  }
  const ShiftedQuestion of_plan(problem);
  const Hardware* const hardware = problem.hardware(kFirstGroup);
  const FitPlace place = {
      .device_family = hardware == nullptr ? "" : hardware->device.device_family,
      .cluster = problem.topology().cluster(),
      .moves_wider_scopes = false};
  std::array<MeasureStep, kMeasureTargetCount> steps;
  for (const FitParameter& parameter :
       ParametersOf(ResidualQuantity::kStepDuration, problem.calibration(),
                    absl::MakeConstSpan(&place, 1))) {
    UncertainCoefficient uncertain;
    uncertain.coefficient = parameter.coefficient;
    uncertain.value = parameter.prior;
    uncertain.width = parameter.prior_width;
    PARPLAN_ASSIGN_OR_RETURN(uncertain.plan_change, ChangeFor(of_plan, plan.plan, parameter));
    if (rival != nullptr) {
      PARPLAN_ASSIGN_OR_RETURN(uncertain.rival_change,
                               ChangeFor(*of_rival, rival->plan, parameter));
    }
    if (uncertain.plan_change == 0.0 && uncertain.rival_change == 0.0) continue;
    steps[static_cast<size_t>(TargetOf(parameter.coefficient))].coefficients.push_back(uncertain);
  }

  // Squares first.
  const auto weight = [rival](const UncertainCoefficient& uncertain) {
    return rival == nullptr ? Square(uncertain.plan_change)
                            : Square(uncertain.plan_change - uncertain.rival_change);
  };
  double whole = 0.0;
  for (int i = 0; i < kMeasureTargetCount; ++i) {
    MeasureStep& step = steps[static_cast<size_t>(i)];
    if (step.coefficients.empty()) continue;
    step.target = static_cast<MeasureTarget>(i);
    double variance = 0.0;
    for (const UncertainCoefficient& uncertain : step.coefficients) {
      step.plan_deviation += Square(uncertain.plan_change);
      variance += weight(uncertain);
    }
    answer.plan_deviation += step.plan_deviation;
    step.plan_deviation = std::sqrt(step.plan_deviation);
    if (rival != nullptr) step.difference_deviation = std::sqrt(variance);
    step.share = variance;
    whole += variance;
    std::stable_sort(step.coefficients.begin(), step.coefficients.end(),
                     [&weight](const auto& a, const auto& b) { return weight(a) > weight(b); });
    PARPLAN_ASSIGN_OR_RETURN(step.entries, EntriesOf(step.target, plans));
    answer.steps.push_back(std::move(step));
  }
  answer.plan_deviation = std::sqrt(answer.plan_deviation);
  if (rival != nullptr) answer.difference_deviation = std::sqrt(whole);
  for (MeasureStep& step : answer.steps) step.share = whole > 0.0 ? step.share / whole : 0.0;
  std::stable_sort(answer.steps.begin(), answer.steps.end(),
                   [](const MeasureStep& a, const MeasureStep& b) { return a.share > b.share; });
  return answer;
}

}  // namespace parplan
