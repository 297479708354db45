#include "planner/planners/exact/first_plan.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/plan.h"

namespace parplan {
namespace {

// Work after which no further plan is priced, in layer definitions priced, passes simulated and
// strategies listed. A definition counts as a hundred passes, a strategy as two. Rough; not
// measured for other values.
constexpr int64_t kMostWork = 200'000;
constexpr int64_t kWorkOfLayerKind = 100;
constexpr int64_t kWorkOfStrategy = 2;
// The most of it that listing the shapes of one pipeline degree may take, so that the first
// degrees leave some to the others. Not measured for other values.
constexpr int64_t kMostWorkOfDegree = kMostWork / 16;
// Micro-batches times pipeline degree of a plan, at most: larger ones take the search itself long
// to simulate. Not measured for other values.
constexpr int64_t kMostPasses = 1 << 16;

// The part of a plan that all its layers have in common.
struct Shape {
  int64_t micro_batch_count = 1;
  int pipeline_parallel_degree = 1;
  Strategy strategy;

  int64_t pass_count() const { return micro_batch_count * pipeline_parallel_degree; }
};

class FirstPlans {
 public:
  FirstPlans(const StrategySpace& space, const CostModel& costs)
      : space_(space), problem_(space.problem()), evaluator_(space.problem(), costs) {
    const std::vector<int64_t> batches = problem_.GlobalBatchSizes();
    if (!batches.empty()) global_batch_size_ = batches.back();
    const std::vector<int>& layers = problem_.model().definition_of_layer();
    for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
      const int definition = space.DefinitionLike(layers[layer]);
      if (std::find(kinds_.begin(), kinds_.end(), definition) == kinds_.end()) {
        kinds_.push_back(definition);
      }
      if (IsTransformer(problem_.model().layer(layer).kind)) transformer_layers_.push_back(layer);
    }
  }

  std::optional<PredictedPlan> Find() {
    if (transformer_layers_.empty() || global_batch_size_ == 0) return std::nullopt;
    int64_t work_left = kMostWork;
    for (const int degree : space_.PipelineDegrees()) {
      if (degree > static_cast<int>(transformer_layers_.size()) || work_left <= 0) break;
      if (ScheduleOf(degree) == std::nullopt) continue;
      for (const Shape& shape : ShapesOf(degree, work_left)) {
        if (work_left <= 0) break;
        for (const bool recomputes : {true, false}) {
          work_left -=
              kWorkOfLayerKind * static_cast<int64_t>(problem_.model().layer_definitions().size()) +
              shape.pass_count();
          Try(shape, recomputes);
        }
      }
    }
    return std::move(best_);
  }

 private:
  // Returns the shapes of a pipeline degree, the one that most probably fits first: tensor
  // parallelism as wide as it may be. Each has most data parallelism and most micro-batches of its
  // tensor-parallel degree, among those that are listed. Counts the work of listing off
  // `work_left`.
  std::vector<Shape> ShapesOf(int degree, int64_t& work_left) const {
    const int leader = problem_.model().definition_of_layer()[transformer_layers_.front()];
    int64_t of_degree = std::min(work_left, kMostWorkOfDegree);
    work_left -= of_degree;
    std::vector<Shape> shapes;
    for (const int64_t count : space_.MicroBatchCounts(global_batch_size_)) {
      if (count * degree > kMostPasses || of_degree <= 0) break;
      const std::vector<Strategy> strategies =
          space_.BareStrategies(leader, degree, global_batch_size_ / count);
      of_degree -= kWorkOfStrategy * (1 + static_cast<int64_t>(strategies.size()));
      for (const Strategy& strategy : strategies) {
        const auto like =
            std::find_if(shapes.begin(), shapes.end(), [&strategy](const Shape& other) {
              return other.strategy.tensor_parallel_degree == strategy.tensor_parallel_degree;
            });
        const Shape shape = {count, degree, strategy};
        if (like == shapes.end()) {
          shapes.push_back(shape);
        } else if (std::pair(strategy.data_parallel_degree, count) >
                   std::pair(like->strategy.data_parallel_degree, like->micro_batch_count)) {
          *like = shape;
        }
      }
    }
    work_left += std::max<int64_t>(of_degree, 0);
    std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
      return a.strategy.tensor_parallel_degree > b.strategy.tensor_parallel_degree;
    });
    return shapes;
  }

  // Returns the schedule of plans of so many stages; nothing if all of them interleave.
  std::optional<Schedule> ScheduleOf(int pipeline_parallel_degree) const {
    for (const Schedule schedule : space_.Schedules(pipeline_parallel_degree)) {
      if (!TraitsOf(schedule).has_virtual_stages) return schedule;
    }
    return std::nullopt;
  }

  // Returns [definition like] the strategy of each kind of layer in plans of the shape; empty if
  // some kind has none, or they do not go together.
  std::vector<Strategy> StrategiesOf(const Shape& shape, bool recomputes) const {
    const int degree = shape.pipeline_parallel_degree;
    const int64_t size = global_batch_size_ / shape.micro_batch_count;
    const std::vector<LayerDefinition>& definitions = problem_.model().layer_definitions();
    std::vector<Strategy> strategies(definitions.size());
    // The levels that all kinds may have.
    std::vector<ShardingLevel> common;
    for (const int kind : kinds_) {
      // The strategy with these degrees that spreads experts farthest.
      const Strategy* found = nullptr;
      const std::vector<Strategy> bare = space_.BareStrategies(kind, degree, size);
      for (const Strategy& each : bare) {
        Strategy like = shape.strategy;
        like.sequence_parallel = each.sequence_parallel;
        like.expert_parallel_degree = each.expert_parallel_degree;
        like.expert_tensor_parallel_degree = each.expert_tensor_parallel_degree;
        if (each == like &&
            (found == nullptr || each.expert_parallel_degree > found->expert_parallel_degree)) {
          found = &each;
        }
      }
      if (found == nullptr) return {};
      strategies[kind] = *found;
      const auto levels = space_.ShardingLevels(kind, *found, degree);
      if (kind == kinds_.front()) common.assign(levels.begin(), levels.end());
      std::erase_if(common, [&levels](ShardingLevel level) {
        return std::find(levels.begin(), levels.end(), level) == levels.end();
      });
    }
    if (common.empty()) return {};
    for (const int kind : kinds_) {
      strategies[kind].sharding_level = common.back();
      if (recomputes && IsTransformer(definitions[kind].kind) &&
          space_.dimensions().has(SearchDimension::kFullRecompute)) {
        strategies[kind].recompute_level = RecomputeLevel::kFull;
      }
      for (const int other : kinds_) {
        if (!space_.GoTogether(kind, strategies[kind], other, strategies[other])) return {};
        if (other == kind) break;
      }
    }
    return strategies;
  }

  void Try(const Shape& shape, bool recomputes) {
    const std::vector<Strategy> strategies = StrategiesOf(shape, recomputes);
    if (strategies.empty()) return;
    PredictedPlan predicted{PlanOf(shape, strategies), {}};
    const PlanScore score = evaluator_.Evaluate(predicted.plan);
    if (score.peak_memory_upper > problem_.usable_memory()) return;
    if (best_.has_value() && best_->prediction.step <= score.step) return;
    predicted.prediction = evaluator_.Predict(predicted.plan);
    best_ = std::move(predicted);
  }

  Plan PlanOf(const Shape& shape, const std::vector<Strategy>& strategies) const {
    const int stage_count = shape.pipeline_parallel_degree;
    Plan plan{.device_count = problem_.device_count(),
              .global_batch_size = global_batch_size_,
              .micro_batch_count = shape.micro_batch_count,
              .schedule = *ScheduleOf(stage_count)};
    const int ranks = problem_.device_count() / stage_count;
    const std::vector<int>& layers = problem_.model().definition_of_layer();
    const auto transformer_count = static_cast<int64_t>(transformer_layers_.size());
    int layer = 0;
    for (int index = 0; index < stage_count; ++index) {
      StagePlan& stage = plan.stages.emplace_back();
      stage.rank_count = ranks;
      stage.first_rank = index * ranks;
      const int end =
          index + 1 == stage_count
              ? static_cast<int>(layers.size())
              : transformer_layers_[transformer_count * (index + 1) / stage_count - 1] + 1;
      for (; layer < end; ++layer) {
        const bool continues = !stage.layer_runs.empty() && layers[layer] == layers[layer - 1];
        if (!continues) {
          stage.layer_runs.push_back({layer, 0, strategies[space_.DefinitionLike(layers[layer])]});
        }
        ++stage.layer_runs.back().layer_count;
      }
    }
    return plan;
  }

  const StrategySpace& space_;
  const PlanningProblem& problem_;
  PlanEvaluator evaluator_;
  // 0 if there is none.
  int64_t global_batch_size_ = 0;
  // One definition of all that have the same strategies, in the order of their layers.
  std::vector<int> kinds_;
  std::vector<int> transformer_layers_;
  std::optional<PredictedPlan> best_;
};

}  // namespace

std::optional<PredictedPlan> FindFirstPlan(const StrategySpace& space, const CostModel& costs) {
  return FirstPlans(space, costs).Find();
}

}  // namespace parplan
