#include "planner/planners/galvatron/galvatron_search.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "planner/check/plan_check.h"
#include "planner/planners/baselines/baseline_search.h"
#include "planner/planners/galvatron/bmw_walk.h"
#include "planner/planners/galvatron/galvatron_stages.h"
#include "planner/search/stage/layer_assignment.h"
#include "tests/planner/search/plain_programme.h"
#include "tests/support/random_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

constexpr GalvatronVariant kVariants[] = {GalvatronVariant::kGalvatron,
                                          GalvatronVariant::kGalvatronBase,
                                          GalvatronVariant::kGalvatronBmw};
constexpr int64_t kMebibyte = int64_t{1} << 20;

std::optional<PlanningResult> Search(const PlanningProblem& problem, GalvatronVariant variant,
                                     const SearchControl& control = {}) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs);
  return SearchGalvatron(problem, *costs, variant, control);
}

// Checks what holds for every answer, whatever the problem.
void ExpectHonest(const PlanningProblem& problem, GalvatronVariant variant, int& found_count,
                  int& nothing_count) {
  const std::optional<PlanningResult> result = Search(problem, variant);
  if (!result) return;
  if (const auto* found = std::get_if<PlanFound>(&*result)) {
    ++found_count;
    EXPECT_OK(CheckPlan(problem, found->plan, found->prediction));
    EXPECT_TRUE(found->prediction.fits());
    EXPECT_LE(found->search.bound, found->prediction.step);
    EXPECT_EQ(found->search.termination, Termination::kFeasible);
    EXPECT_EQ(found->search.limit, SearchLimit::kMethod);
    ASSERT_GE(found->notes.size(), 2u);
    EXPECT_EQ(found->notes[0], "partitioner best");
    EXPECT_EQ(found->notes.size() > 2, variant == GalvatronVariant::kGalvatronBmw);
    for (const StagePlan& stage : found->plan.stages) {
      for (const StageLayerRun& run : stage.layer_runs) {
        EXPECT_EQ(run.strategy.context_parallel_degree, 1);
        EXPECT_TRUE(run.strategy.sharding_level == ShardingLevel::kNone ||
                    run.strategy.sharding_level == ShardingLevel::kParameters);
        if (variant == GalvatronVariant::kGalvatron) {
          EXPECT_EQ(run.strategy.recompute_level, RecomputeLevel::kNone);
        }
      }
    }
    return;
  }
  ++nothing_count;
  const auto* nothing = std::get_if<NothingFits>(&*result);
  ASSERT_NE(nothing, nullptr);
  EXPECT_GT(nothing->smallest_usable_memory, problem.usable_memory());
  // The number is one with which the same planner finds a plan.
  const PlanningProblem larger = problem.WithUsableMemory(nothing->smallest_usable_memory);
  const std::optional<PlanningResult> again = Search(larger, variant);
  ASSERT_TRUE(again && std::holds_alternative<PlanFound>(*again));
  EXPECT_OK(
      CheckPlan(larger, std::get<PlanFound>(*again).plan, std::get<PlanFound>(*again).prediction));
}

TEST(SearchGalvatron, AnswersPassTheCheckAndMemoryThatIsNamedSuffices) {
  int found_count = 0, nothing_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    for (GalvatronVariant variant : kVariants) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << " variant " << static_cast<int>(variant));
      ExpectHonest(problem, variant, found_count, nothing_count);
    }
  }
  EXPECT_GT(found_count, 30);
  EXPECT_GT(nothing_count, 5);
}

// Dimensions, targets, schedules, ranges of batches, data sheets.
TEST(SearchGalvatron, AnswersOddProblemsWithinTheirRules) {
  int found_count = 0, nothing_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const PlanningProblem problem = RandomProblem(seed);
    for (GalvatronVariant variant : kVariants) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << " variant " << static_cast<int>(variant));
      ExpectHonest(problem, variant, found_count, nothing_count);
    }
  }
  EXPECT_GT(found_count, 30);
}

// The programme on forward memory and the downward scan, against the plain programme with
// a scan of every single unit.
TEST(GalvatronStages, SolvesAsThePlainProgrammeWithAPlainScan) {
  int solved_count = 0, scanned_count = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SyntheticOptions options = RandomSyntheticOptions(seed);
    options.device_count = 8;
    options.devices_per_node = 8;
    options.decoder_count = 3 + static_cast<int>(seed % 3);
    const PlanningProblem problem = SyntheticProblem(options);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    for (const auto& [degree, count] : {std::pair(1, 1), std::pair(1, 2), std::pair(2, 2)}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " P " << degree << " m " << count);
      const GalvatronTables tables(space, costs, degree, problem.global_batch_size() / count,
                                   /*with_recompute=*/true);
      if (!tables.usable()) continue;
      const SearchControl control;
      SearchMeter meter(control);
      GalvatronStages stages(problem, costs, tables, Schedule::kOneForwardOneBackward, count,
                             meter);
      const int unit_count = static_cast<int>(tables.kind_of_unit().size()) / degree;
      const GalvatronStage* const solved = stages.Solve(0, unit_count, 0);

      const int64_t in_flight = std::min(degree, count);
      DenseStage dense;
      dense.layout_count = tables.layout_count();
      for (const GalvatronKind& kind : tables.kinds()) {
        DenseKind choices;
        for (const GalvatronOption& option : kind.options) {
          const int64_t bytes = (option.states + option.kept * in_flight).count();
          choices.options.push_back({.layout = option.layout,
                                     .time = option.micro_batch * count + option.once,
                                     .units = (bytes + kMebibyte - 1) / kMebibyte});
        }
        for (Seconds transition : kind.transitions) {
          choices.transitions.push_back(transition * count);
        }
        dense.kinds.push_back(choices);
      }
      dense.kind_of_layer.assign(tables.kind_of_unit().begin(),
                                 tables.kind_of_unit().begin() + unit_count);
      const Bytes budget =
          costs.group(kFirstGroup)
              .overheads()
              .TensorBudget(problem.usable_memory(), degree, problem.device_count() / degree);
      const int64_t most = budget.count() / kMebibyte;
      const PlainProgramme plain(dense, most);
      std::optional<double> time;
      for (int64_t capacity = most; capacity >= 0 && !time; --capacity) {
        const std::optional<std::vector<int>> options_found = plain.At(capacity);
        if (!options_found) break;
        Bytes kept, transient;
        double sum = 0.0;
        for (int unit = 0; unit < unit_count; ++unit) {
          const GalvatronKind& kind = tables.kinds()[tables.kind_of_unit()[unit]];
          const GalvatronOption& option = kind.options[(*options_found)[unit]];
          kept += option.states + option.kept * in_flight;
          transient = std::max(transient, option.transient);
          sum += (option.micro_batch * count + option.once).value();
          if (unit == 0) continue;
          const int before = tables.kinds()[tables.kind_of_unit()[unit - 1]]
                                 .options[(*options_found)[unit - 1]]
                                 .layout;
          sum += kind.transitions[before * tables.layout_count() + option.layout].value() * count;
        }
        if (kept + transient > budget) {
          ++scanned_count;
          continue;
        }
        time = sum;
      }
      ASSERT_EQ(solved != nullptr, time.has_value());
      if (solved == nullptr) continue;
      ++solved_count;
      // Ticks round.
      EXPECT_NEAR(solved->time.value(), *time, *time * 1e-6);
      EXPECT_LE(solved->peak, problem.usable_memory());
    }
  }
  EXPECT_GT(solved_count, 8);
  EXPECT_GT(scanned_count, 8);
}

// With one stage the programme minimises the step itself, so a byte more is never slower;
// several stages are solved each by itself, and the law does not hold for them.
TEST(SearchGalvatron, MoreMemoryIsNeverSlowerOnOneStage) {
  for (GalvatronVariant variant : kVariants) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      SyntheticOptions options = RandomSyntheticOptions(seed);
      options.rules.max_pipeline_parallel_degree = 1;
      Seconds before = Seconds::Infinite();
      for (int64_t half_gibibytes = 2; half_gibibytes <= 16; ++half_gibibytes) {
        options.device_memory = Bytes::Of(half_gibibytes << 29);
        const auto result = Search(SyntheticProblem(options), variant);
        if (!result) continue;
        const auto* found = std::get_if<PlanFound>(&*result);
        if (found == nullptr) {
          EXPECT_FALSE(before.is_finite());
          continue;
        }
        EXPECT_LE(found->prediction.step, before * (1.0 + 1e-6));
        before = found->prediction.step;
      }
    }
  }
}

// The step per sample of an answer; infinite if nothing fits.
Seconds PerSampleOf(const std::optional<PlanningResult>& result) {
  if (!result) return Seconds::Infinite();
  const auto* const found = std::get_if<PlanFound>(&*result);
  if (found == nullptr) return Seconds::Infinite();
  return found->prediction.step / static_cast<double>(found->plan.global_batch_size);
}

// Base is never slower than Galvatron, nor BMW than Base, nor any of them than a baseline, with
// each partitioner; recomputation never makes one slower, nor does `best` than the others.
TEST(SearchGalvatron, IsNeverSlowerThanItsParts) {
  int found_count = 0, pipeline_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SyntheticOptions options = RandomSyntheticOptions(seed);
    // [variant] with the partitioners before.
    std::vector<Seconds> others(std::size(kVariants), Seconds::Infinite());
    for (const Partitioner partitioner :
         {Partitioner::kEven, Partitioner::kGreedy, Partitioner::kBest}) {
      SCOPED_TRACE(testing::Message()
                   << "seed " << seed << " partitioner " << PartitionerName(partitioner));
      options.rules.partitioner = partitioner;
      const PlanningProblem problem = SyntheticProblem(options);
      ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
      Seconds before = Seconds::Infinite();
      for (const absl::string_view baseline : PaperBaselineNames()) {
        before = std::min(before, PerSampleOf(SearchBaseline(
                                      problem, costs, *SpaceOfBaseline(baseline, problem), {})));
      }
      PlanningRules without = problem.rules();
      without.allow_recompute = false;
      for (const GalvatronVariant variant : kVariants) {
        const std::optional<PlanningResult> result = Search(problem, variant);
        const Seconds now = PerSampleOf(result);
        EXPECT_LE(now, before) << static_cast<int>(variant);
        EXPECT_LE(now, PerSampleOf(Search(problem.WithRules(without), variant)));
        before = now;
        Seconds& other = others[static_cast<size_t>(variant)];
        if (partitioner == Partitioner::kBest) {
          EXPECT_LE(now, other);
        }
        other = std::min(other, now);
        if (!now.is_finite()) continue;
        ++found_count;
        const PlanFound& found = std::get<PlanFound>(*result);
        if (found.plan.pipeline_parallel_degree() > 1) ++pipeline_count;
        EXPECT_EQ(found.notes[0], absl::StrCat("partitioner ", PartitionerName(partitioner)));
      }
    }
  }
  EXPECT_GT(found_count, 100);
  EXPECT_GT(pipeline_count, 20);
}

// No partition that a walk came to has a faster plan than the answer, whether a test kept it out of
// the queue or not.
TEST(SearchGalvatron, AdjustedStagesAreTheFastestOfTheirWalks) {
  int joined_count = 0, refused_count = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    for (const bool with_recompute : {false, true}) {
      const std::optional<PlanningResult> result = SearchGalvatronMethod(
          problem, costs, {.with_recompute = with_recompute, .adjusts = true}, {});
      const auto* const found = result ? std::get_if<PlanFound>(&*result) : nullptr;
      if (found == nullptr) continue;
      for (const ExplainedWalk& walk : ExplainWalks(problem, costs, found->plan, {})) {
        if (walk.with_recompute != with_recompute) continue;
        for (const ExplainedStep& step : walk.steps) {
          if (!step.plan || !step.plan->prediction.fits()) continue;
          const bool is_refused = step.step.verdict == PartitionVerdict::kSlower ||
                                  step.step.verdict == PartitionVerdict::kTooFull;
          ++(is_refused ? refused_count : joined_count);
          EXPECT_LE(found->prediction.step, step.plan->prediction.step);
        }
      }
    }
  }
  EXPECT_GT(joined_count, 20);
  EXPECT_GT(refused_count, 20);
}

// Where the limit of states leaves nothing to adjust, a walk still has both its ends.
TEST(WalkPartitions, VisitsBothEndsWhateverTheLimit) {
  using Verdict = PartitionVerdict;
  int end_count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SyntheticOptions options = RandomSyntheticOptions(seed);
    options.device_count = 8;
    options.devices_per_node = 8;
    options.decoder_count = 6;
    const PlanningProblem problem = SyntheticProblem(options);
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    const GalvatronTables tables(space, costs, 2, problem.global_batch_size() / 2,
                                 /*with_recompute=*/true);
    if (!tables.usable()) continue;
    const SearchControl control;
    SearchMeter meter(control);
    GalvatronStages stages(problem, costs, tables, Schedule::kOneForwardOneBackward, 2, meter);
    std::vector<Verdict> verdicts;
    const auto on_end = [&](WalkEnd) {
      ASSERT_FALSE(verdicts.empty());
      EXPECT_EQ(verdicts[0], Verdict::kStart);
      const bool has_end = verdicts.size() > 1 && verdicts[1] == Verdict::kEnd;
      end_count += has_end;
      // One partition may be adjusted before the limit is asked, if both ends are one.
      EXPECT_LE(verdicts.size(), 2u);
      verdicts.clear();
    };
    WalkPartitions(
        tables, stages,
        [&](MemoryMeasure, const AdjustmentStep& step, const std::vector<const GalvatronStage*>&) {
          verdicts.push_back(step.verdict);
          return true;
        },
        on_end, /*max_state_count=*/0);
  }
  EXPECT_GT(end_count, 5);
}

// The fastest option is one of those over which the least is taken.
TEST(GalvatronStages, TheFastestOptionKeepsNoLessThanTheLeast) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(seed));
    ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
    const StrategySpace space(problem, costs);
    const GalvatronTables tables(space, costs, 1, problem.global_batch_size(),
                                 /*with_recompute=*/true);
    if (!tables.usable()) continue;
    const SearchControl control;
    SearchMeter meter(control);
    const GalvatronStages stages(problem, costs, tables, Schedule::kOneForwardOneBackward, 1,
                                 meter);
    ASSERT_TRUE(stages.LeastMemoryOfStages().has_value() && stages.MemoryAtFastest().has_value());
    const LeastMemory least = *stages.LeastMemoryOfStages();
    const LeastMemory fastest = *stages.MemoryAtFastest();
    ASSERT_EQ(least.caps, fastest.caps);
    for (size_t stage = 0; stage < least.kept.size(); ++stage) {
      for (size_t kind = 0; kind < least.kept[stage]->size(); ++kind) {
        for (size_t cap = 0; cap < least.caps.size(); ++cap) {
          EXPECT_LE((*least.kept[stage])[kind][cap], (*fastest.kept[stage])[kind][cap]);
        }
      }
    }
  }
}

TEST(GalvatronStages, MemoryOfStagesEndsWithTheSearch) {
  const PlanningProblem problem = SyntheticProblem(RandomSyntheticOptions(1));
  ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
  const StrategySpace space(problem, costs);
  const GalvatronTables tables(space, costs, 1, problem.global_batch_size(),
                               /*with_recompute=*/true);
  ASSERT_TRUE(tables.usable());
  const SearchControl control{.should_stop = [] { return true; }};
  SearchMeter meter(control);
  const GalvatronStages stages(problem, costs, tables, Schedule::kOneForwardOneBackward, 1, meter);
  EXPECT_TRUE(stages.LeastMemoryOfStages().has_value());
  EXPECT_FALSE(meter.ShouldContinue());
  EXPECT_FALSE(stages.LeastMemoryOfStages().has_value());
  EXPECT_FALSE(stages.MemoryAtFastest().has_value());
}

TEST(SearchGalvatron, SaysWithWhichOptionsItSearched) {
  SyntheticOptions options = RandomSyntheticOptions(1);
  const auto notes = [&options] {
    const PlanningProblem problem = SyntheticProblem(options);
    const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
    EXPECT_OK(costs);
    const std::optional<PlanningResult> result =
        SearchGalvatron(problem, *costs, GalvatronVariant::kGalvatronBase, {});
    EXPECT_TRUE(result.has_value() && std::holds_alternative<PlanFound>(*result));
    return std::get<PlanFound>(*result).notes;
  };
  EXPECT_EQ(notes().size(), 2u);
  options.rules.memory_granule = Bytes::Of(int64_t{32} << 20);
  options.rules.fused_layer_count = 2;
  const std::vector<std::string> coarse = notes();
  ASSERT_EQ(coarse.size(), 4u);
  EXPECT_EQ(coarse[2], "memory counted in units of 32 MiB");
  EXPECT_EQ(coarse[3], "one strategy for each 2 equal layers in a row");
}

// Two equal layers in a row have one strategy, and a coarser grid only loses plans.
TEST(SearchGalvatron, FusedLayersAreAlikeAndGranulesOnlyLosePlans) {
  int found_count = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SyntheticOptions options = RandomSyntheticOptions(seed);
    options.rules.max_pipeline_parallel_degree = 1;
    const PlanningProblem fine = SyntheticProblem(options);
    const GalvatronMethod method = {.with_recompute = true};
    const auto search = [&](const SyntheticOptions& each) -> std::optional<PlanningResult> {
      const PlanningProblem problem = SyntheticProblem(each);
      const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
      EXPECT_OK(costs);
      return SearchGalvatronMethod(problem, *costs, method, {});
    };
    const Seconds best = PerSampleOf(search(options));
    options.rules.memory_granule = Bytes::Of(int64_t{64} << 20);
    EXPECT_GE(PerSampleOf(search(options)), best);
    options.rules.memory_granule = kMinMemoryGranule;
    options.rules.fused_layer_count = 2;
    const std::optional<PlanningResult> fused = search(options);
    EXPECT_GE(PerSampleOf(fused) * (1.0 + 1e-9), best);
    if (!PerSampleOf(fused).is_finite()) continue;
    ++found_count;
    const PlanFound& found = std::get<PlanFound>(*fused);
    EXPECT_OK(CheckPlan(SyntheticProblem(options), found.plan, found.prediction));
    // [layer]
    std::vector<Strategy> strategies;
    for (const StagePlan& stage : found.plan.stages) {
      for (const StageLayerRun& run : stage.layer_runs) {
        strategies.insert(strategies.end(), run.layer_count, run.strategy);
      }
    }
    int in_row = 0;
    for (int layer = 0; layer < fine.model().layer_count(); ++layer) {
      const std::vector<int>& definitions = fine.model().definition_of_layer();
      const bool is_transformer = IsTransformer(fine.model().layer(layer).kind);
      const bool goes_on =
          is_transformer && layer > 0 && definitions[layer - 1] == definitions[layer];
      in_row = goes_on ? in_row + 1 : 0;
      if (in_row % 2 == 1) {
        EXPECT_EQ(strategies[layer], strategies[layer - 1]) << layer;
      }
    }
  }
  EXPECT_GT(found_count, 8);
}

TEST(SearchGalvatron, EndsWhereTheLimitSays) {
  SyntheticOptions options;
  const PlanningProblem problem = SyntheticProblem(options);
  SearchControl control;
  control.max_state_count = 1;
  const auto stopped = Search(problem, GalvatronVariant::kGalvatronBmw, control);
  ASSERT_TRUE(stopped.has_value());
  // A baseline may have a plan by then.
  EXPECT_EQ(std::visit([](const auto& answer) { return answer.search.limit; }, *stopped),
            SearchLimit::kStates);
  control = {};
  control.should_stop = [] { return true; };
  const auto late = Search(problem, GalvatronVariant::kGalvatron, control);
  ASSERT_TRUE(late && std::holds_alternative<StoppedEmpty>(*late));
  EXPECT_EQ(std::get<StoppedEmpty>(*late).search.limit, SearchLimit::kTime);
}

TEST(SearchGalvatron, SearchesBatchesForTheLeastTimeASample) {
  SyntheticOptions options;
  options.global_batch_size = 32;
  options.rules.smallest_global_batch_size = 8;
  options.rules.global_batch_size_step = 8;
  const PlanningProblem problem = SyntheticProblem(options);
  for (GalvatronVariant variant : kVariants) {
    const auto whole = Search(problem, variant);
    ASSERT_TRUE(whole && std::holds_alternative<PlanFound>(*whole));
    double best_rate = 0.0;
    for (int64_t batch : problem.GlobalBatchSizes()) {
      const auto alone = Search(problem.WithGlobalBatchSize(batch), variant);
      if (!alone || !std::holds_alternative<PlanFound>(*alone)) continue;
      best_rate = std::max(best_rate, std::get<PlanFound>(*alone).prediction.samples_per_second);
    }
    EXPECT_NEAR(std::get<PlanFound>(*whole).prediction.samples_per_second, best_rate,
                best_rate * 1e-9);
  }
}

}  // namespace
}  // namespace parplan
