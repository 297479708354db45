// Bounds and plans by prices of memory, which models of many layers get, on small problems:
// judged by what the exact search of each candidate finds.

#include "planner/planners/exact/pipeline/priced_search.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/planners/exact/interleaved/interleaved_relaxation.h"
#include "planner/planners/exact/interleaved/interleaved_rounding.h"
#include "planner/planners/exact/interleaved/interleaved_search.h"
#include "planner/planners/exact/pipeline/layer_menus.h"
#include "planner/planners/exact/pipeline/mask_floor.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"
#include "planner/search/base/search_numbers.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr double kTolerance = 1e-9;

struct Case {
  const PlanningProblem& problem;
  const CostModel& costs;
  const StrategySpace& space;
  const OptionTable& table;
  PipelineCandidate candidate;
};

// All candidates of random problems, interleaved ones or all others.
void ForEachCandidate(uint64_t first_seed, uint64_t end_seed, bool interleaved,
                      const std::function<void(const Case&)>& visit) {
  for (uint64_t seed = first_seed; seed < end_seed; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    ASSERT_TRUE(costs.ok()) << costs.status();
    const StrategySpace space(problem, *costs);
    const int64_t batch = problem.GlobalBatchSizes().back();
    for (const int degree : space.PipelineDegrees()) {
      for (const int64_t count : space.MicroBatchCounts(batch)) {
        const OptionTable table(problem, *costs, space, degree, batch / count);
        if (!table.usable()) continue;
        for (const Schedule schedule : space.Schedules(degree)) {
          if ((schedule == Schedule::kInterleaved) != interleaved) continue;
          if (interleaved && (degree == 1 || count % degree != 0)) continue;
          SCOPED_TRACE(absl::StrCat("seed ", seed, " P ", degree, " m ", count, " schedule ",
                                    static_cast<int>(schedule)));
          visit({problem, *costs, space, table, {batch, count, degree, schedule}});
        }
      }
    }
  }
}

void ExpectPlanIsNoBetter(const Case& each, const PredictedPlan& plan, Seconds best) {
  EXPECT_OK(CheckPlan(each.problem, plan.plan, plan.prediction));
  EXPECT_TRUE(plan.prediction.fits());
  EXPECT_GE(plan.prediction.step, best * (1.0 - kTolerance));
}

TEST(PricedSearch, BoundsAreBelowAndPlansNotBelowTheBest) {
  int plan_count = 0;
  int found_count = 0;
  int close_count = 0;
  ForEachCandidate(20'000, 20'060, /*interleaved=*/false, [&](const Case& each) {
    const SearchControl control;
    SearchMeter meter(control);
    const PipelineOutcome exact = SearchPipeline(each.space, each.costs, each.table, each.candidate,
                                                 Seconds::Infinite(), 1, meter);
    const Seconds bound = PricedPipelineBound(each.space, each.costs, each.table, each.candidate,
                                              Seconds::Infinite(), meter);
    const PipelineOutcome priced = SearchPricedPipeline(
        each.space, each.costs, each.table, each.candidate, Seconds::Infinite(), 1, meter);
    if (exact.plans.empty()) {
      EXPECT_TRUE(priced.plans.empty() || !exact.is_exact);
      return;
    }
    ++plan_count;
    const Seconds best = exact.plans.front().prediction.step;
    EXPECT_LE(bound, best * (1.0 + kTolerance));
    EXPECT_LE(priced.bound, best * (1.0 + kTolerance));
    if (bound >= best * 0.8) ++close_count;
    // Whether anything is below a step is no matter of what else is asked.
    const Seconds above = best * (1.0 + 1e-6);
    EXPECT_LE(PricedPipelineBound(each.space, each.costs, each.table, each.candidate, above, meter),
              best * (1.0 + kTolerance));
    if (priced.plans.empty()) return;
    ++found_count;
    if (exact.is_exact) ExpectPlanIsNoBetter(each, priced.plans.front(), best);
  });
  EXPECT_GE(plan_count, 100);
  EXPECT_GE(found_count, plan_count / 2);
  EXPECT_GE(close_count, plan_count / 3);
}

// A menu has an item that is nowhere worse than each option, and none that another is nowhere worse
// than.
TEST(LayerMenus, HaveTheOptionsThatNoOtherDominates) {
  int item_count = 0;
  int dropped_count = 0;
  ForEachCandidate(20'000, 20'020, /*interleaved=*/false, [&](const Case& each) {
    const PipelineSetting setting(each.space, each.costs, each.table, each.candidate,
                                  each.problem.usable_memory());
    const SearchControl control;
    SearchMeter meter(control);
    const LayerMenus menus(setting, /*mask=*/{}, meter);
    const auto is_nowhere_worse = [](const LayerItem& a, const LayerItem& b) {
      return a.forward_backward <= b.forward_backward && a.sync <= b.sync && a.states <= b.states &&
             a.kept <= b.kept;
    };
    for (const ModelLayerRun& run : each.problem.model().layer_runs()) {
      const std::vector<LayerItem>& items = menus.items(run.definition_index);
      const std::vector<StageOption>& options = each.table.options(run.definition_index);
      for (size_t k = 0; k < options.size(); ++k) {
        const LayerItem own = ItemOf(options[k], static_cast<int>(k));
        EXPECT_TRUE(std::any_of(items.begin(), items.end(), [&](const LayerItem& item) {
          return is_nowhere_worse(item, own);
        }));
      }
      for (const LayerItem& item : items) {
        EXPECT_EQ(
            std::count_if(items.begin(), items.end(),
                          [&](const LayerItem& other) { return is_nowhere_worse(other, item); }),
            1);
      }
      item_count += static_cast<int>(items.size());
      dropped_count += static_cast<int>(options.size() - items.size());
    }
  });
  EXPECT_GE(item_count, 100);
  EXPECT_GE(dropped_count, 1);
}

// Layers of six kinds, small ones first, on 64 devices.
PlanningProblem ManyKinds(DimensionSet dimensions = DimensionSet::All()) {
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
  const auto add = [&](LayerDefinition raw, int layer_count) {
    raw.hidden_size = 2048;
    raw.sequence_length = 2048;
    raw.layer_definition_id = absl::StrCat("layer", definitions.size());
    runs.push_back({static_cast<int>(definitions.size()), layer_count});
    definitions.push_back(*LayerDefinition::Create(std::move(raw), "layer"));
  };
  add({.kind = LayerKind::kEmbedding, .vocabulary_size = 32000}, 1);
  for (const int size : {4096, 8192, 6144, 10240, 7168, 9216}) {
    add({.kind = LayerKind::kDecoder,
         .attention_head_count = 16,
         .feed_forward_size = size,
         .feed_forward_kind = FeedForwardKind::kSwiglu},
        50);
  }
  add({.kind = LayerKind::kHead, .vocabulary_size = 32000}, 1);
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = 8,
                  .devices_per_node = 8,
                  .device_memory = Bytes::Of(int64_t{80} << 30)};
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
  return *PlanningProblem::Create(
      std::make_shared<const ModelSpec>(*ModelSpec::Create(
          "kinds", std::move(definitions), std::move(runs), Precision::kBf16, Optimizer::kAdam)),
      std::make_shared<const Topology>(
          *Topology::Create("kinds", {group}, {{"node", 8}, {"network", 64}})),
      std::move(knowledge), 512, {.dimensions = dimensions, .allow_estimates = true});
}

// The masks that a floor keeps are those that it keeps if it is asked only once all transformer
// layers have chosen: what it refuses before, it refuses whatever they choose.
TEST(MaskFloor, RefusesEarlyWhatItRefusesInTheEnd) {
  const PlanningProblem problem =
      ManyKinds(DimensionSet::All().Without(SearchDimension::kPerLayer));
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const StrategySpace space(problem, *costs);
  const std::vector<LayerDefinition>& definitions = problem.model().layer_definitions();
  const PipelineCandidate candidate = {512, 32, 8, Schedule::kOneForwardOneBackward};
  const OptionTable table(problem, *costs, space, 8, 16);
  int refused_early_count = 0;
  int fewer_count = 0;
  for (const int share_of_memory : {1, 2, 8}) {
    const PipelineSetting setting(space, *costs, table, candidate,
                                  Bytes::Of(problem.usable_memory().count() / share_of_memory));
    for (const bool interleaves : {false, true}) {
      const size_t all_count = PlanWideMasks(space, table).size();
      for (const double cutoff : {1e9, 20.0, 12.0, 9.0, 6.0}) {
        MaskFloor floor(setting, interleaves, cutoff);
        MaskFloor late_floor(setting, interleaves, cutoff);
        const MaskFilter keeps = floor.Filter();
        const MaskFilter late_keeps = late_floor.Filter();
        const auto is_decided = [&](absl::Span<const int> chosen) {
          for (size_t definition = 0; definition < definitions.size(); ++definition) {
            if (IsTransformer(definitions[definition].kind) && chosen[definition] < 0) return false;
          }
          return true;
        };
        const auto asks = [&](absl::Span<const int> chosen) {
          const bool is_kept = keeps(chosen);
          if (!is_kept && !is_decided(chosen)) ++refused_early_count;
          return is_kept;
        };
        const auto asks_late = [&](absl::Span<const int> chosen) {
          return !is_decided(chosen) || late_keeps(chosen);
        };
        const std::vector<OptionMask> masks = PlanWideMasks(space, table, asks);
        EXPECT_EQ(masks, PlanWideMasks(space, table, asks_late));
        // Early refusals for time may stand for late ones for memory, never the other way round.
        EXPECT_TRUE(floor.dropped_slow() || !late_floor.dropped_slow());
        if (masks.size() < all_count) ++fewer_count;
      }
    }
  }
  EXPECT_GE(refused_early_count, 100);
  EXPECT_GE(fewer_count, 5);
}

// Few micro-batches a stage, where a partition that is not even would win by much in a bound of
// single paths.
TEST(PricedSearch, BoundsOfManyLayersAreNearTheirPlans) {
  const PlanningProblem problem = ManyKinds();
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  ASSERT_TRUE(costs.ok()) << costs.status();
  const StrategySpace space(problem, *costs);
  const SearchControl control;
  SearchMeter meter(control);
  for (const int depth : {4, 8, 16}) {
    for (const int64_t count : {2 * depth, 4 * depth}) {
      SCOPED_TRACE(absl::StrCat("P ", depth, " m ", count));
      const OptionTable table(problem, *costs, space, depth, 512 / count);
      const PipelineCandidate candidate = {512, count, depth, Schedule::kOneForwardOneBackward};
      const PipelineOutcome priced =
          SearchPricedPipeline(space, *costs, table, candidate, Seconds::Infinite(), 1, meter);
      ASSERT_FALSE(priced.plans.empty());
      const PredictedPlan& best = priced.plans.front();
      EXPECT_OK(CheckPlan(problem, best.plan, best.prediction));
      EXPECT_LE(priced.bound, best.prediction.step * (1.0 + kTolerance));
      EXPECT_GE(priced.bound, best.prediction.step * 0.97);
    }
  }
}

// `layer_count` equal layers between two ends, on nodes of eight A100 of 40 GiB.
PlanningProblem ManyEqualLayers(int layer_count, int node_count, DimensionSet dimensions) {
  std::vector<LayerDefinition> definitions;
  const auto add = [&](LayerDefinition raw) {
    raw.hidden_size = 4096;
    raw.sequence_length = 2048;
    raw.layer_definition_id = absl::StrCat("layer", definitions.size());
    definitions.push_back(*LayerDefinition::Create(std::move(raw), "layer"));
  };
  add({.kind = LayerKind::kEmbedding, .vocabulary_size = 32000});
  add({.kind = LayerKind::kDecoder,
       .attention_head_count = 32,
       .feed_forward_size = 11008,
       .feed_forward_kind = FeedForwardKind::kSwiglu});
  add({.kind = LayerKind::kHead, .vocabulary_size = 32000});
  NodeGroup group{.node_group_id = "nodes",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = node_count,
                  .devices_per_node = 8,
                  .device_memory = Bytes::Of(int64_t{40} << 30)};
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware = std::make_shared<const Hardware>(EightA100Nodes());
  return *PlanningProblem::Create(
      std::make_shared<const ModelSpec>(*ModelSpec::Create("equal", std::move(definitions),
                                                           {{0, 1}, {1, layer_count}, {2, 1}},
                                                           Precision::kBf16, Optimizer::kAdam)),
      std::make_shared<const Topology>(
          *Topology::Create("equal", {group}, {{"node", 8}, {"network", 8 * node_count}})),
      std::move(knowledge), 256, {.dimensions = dimensions, .allow_estimates = true});
}

// A space with uneven stages contains that with equal numbers of layers; with no more
// micro-batches than stages, stages that shrink towards the end lose by up to 33 %.
TEST(PricedSearch, UnevenStagesAreNeverWorseThanEvenOnes) {
  for (const int layer_count : {256, 320, 512, 640}) {
    for (const int depth : {16, 32, 64}) {
      for (const int64_t count : {8, 16, 32, 64}) {
        if (layer_count % depth != 0) continue;
        SCOPED_TRACE(absl::StrCat("L ", layer_count, " P ", depth, " m ", count));
        Seconds steps[2];
        for (const bool is_even : {false, true}) {
          const DimensionSet all = DimensionSet::All()
                                       .Without(SearchDimension::kTensor)
                                       .Without(SearchDimension::kContext)
                                       .Without(SearchDimension::kUlysses);
          const PlanningProblem problem = ManyEqualLayers(
              layer_count, 32, is_even ? all.Without(SearchDimension::kUnevenStages) : all);
          const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
          ASSERT_TRUE(costs.ok()) << costs.status();
          const StrategySpace space(problem, *costs);
          const OptionTable table(problem, *costs, space, depth, 256 / count);
          const SearchControl control;
          SearchMeter meter(control);
          const PipelineOutcome priced = SearchPricedPipeline(
              space, *costs, table, {256, count, depth, Schedule::kOneForwardOneBackward},
              Seconds::Infinite(), 1, meter);
          steps[is_even] =
              priced.plans.empty() ? Seconds::Infinite() : priced.plans.front().prediction.step;
        }
        EXPECT_LE(steps[false], steps[true] * (1.0 + kTolerance));
      }
    }
  }
}

TEST(PricedSearch, InterleavedBoundsAreBelowAndPlansNotBelowTheBest) {
  int plan_count = 0;
  int found_count = 0;
  int close_count = 0;
  ForEachCandidate(21'000, 21'200, /*interleaved=*/true, [&](const Case& each) {
    const SearchControl control;
    SearchMeter meter(control);
    const PipelineOutcome exact = SearchInterleaved(each.space, each.costs, each.table,
                                                    each.candidate, Seconds::Infinite(), 1, meter);
    EXPECT_TRUE(exact.is_exact);
    if (exact.plans.empty()) return;
    const Seconds best = exact.plans.front().prediction.step;
    PipelineCandidate plain = each.candidate;
    plain.schedule = Schedule::kOneForwardOneBackward;
    const PipelineSetting setting(each.space, each.costs, each.table, plain,
                                  each.problem.usable_memory());
    PlanEvaluator evaluator(each.problem, each.costs);
    InterleavedFinds finds = {Seconds::Infinite(), PlanList(1), 0, 0};
    const std::vector<InterleavedPartition> partitions =
        InterleavedPartitionsOf(each.space, each.candidate.pipeline_parallel_degree).listed;
    const int64_t count = each.candidate.micro_batch_count;
    double bound = kInfinity;
    for (const OptionMask& mask : PlanWideMasks(each.space, each.table)) {
      const MaskedOptions masked = MaskedOptionsOf(setting, mask);
      if (!masked.usable) continue;
      const LayerMenus menus(setting, mask, meter);
      for (const InterleavedPartition& partition : partitions) {
        InterleavedRelaxation prices(
            setting, menus, InterleavedLoads(setting, partition.layer_counts, count), count);
        double of_partition = prices.QuickBound();
        if (of_partition < kInfinity) of_partition = prices.Improve(kInfinity, 60);
        bound = std::min(bound, of_partition);
      }
      RoundInterleaved(setting, mask, masked, menus, partitions, evaluator, finds, meter);
    }
    bound += each.costs.step_overhead().value();
    ++plan_count;
    EXPECT_LE(bound, best.value() * (1.0 + kTolerance));
    if (bound >= best.value() * 0.8) ++close_count;
    EXPECT_LE(std::min(finds.least_unseen, kInfinity), best.value() * (1.0 + kTolerance));
    if (finds.plans.plans().empty()) return;
    ++found_count;
    ExpectPlanIsNoBetter(each, finds.plans.plans().front(), best);
  });
  EXPECT_GE(plan_count, 20);
  EXPECT_GE(found_count, plan_count / 2);
  EXPECT_GE(close_count, plan_count / 2);
}

}  // namespace
}  // namespace parplan
