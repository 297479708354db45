#include "planner/check/result_check.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "planner/check/plan_check.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"
#include "tests/support/synthetic_problem.h"

namespace parplan {
namespace {

using enum SearchDimension;
using testing::HasSubstr;

// Four devices, five layers; the result may have two plans in addition to the best.
SyntheticOptions Options() {
  SyntheticOptions options{.device_count = 4, .decoder_count = 3};
  options.global_batch_size = 4;
  options.device_memory = Bytes::Of(int64_t{8} << 30);
  options.rules.top_plan_count = 3;
  options.rules.wants_memory_front = true;
  return options;
}

Plan TwoStages() {
  const Strategy tensor{.tensor_parallel_degree = 2};
  const Strategy data{.data_parallel_degree = 2};
  Plan plan{.device_count = 4, .global_batch_size = 4, .micro_batch_count = 2};
  plan.stages = {{0, 2, {{0, 1, data}, {1, 1, tensor}}},
                 {2, 2, {{2, 1, tensor}, {3, 1, data}, {4, 1, data}}}};
  return plan;
}

PlanFound Found(const PlanningProblem& problem, const Plan& plan) {
  const absl::StatusOr<CostModel> costs = CostModel::Create(problem);
  EXPECT_OK(costs);
  PlanFound found{.plan = plan, .prediction = PredictPlan(problem, *costs, plan)};
  found.search = {.termination = Termination::kOptimal,
                  .limit = SearchLimit::kNone,
                  .bound = found.prediction.step,
                  .gap_ratio = 0.0};
  return found;
}

TEST(CheckResult, FindsEveryFalsePromiseOfAPlanFound) {
  const PlanningProblem problem = SyntheticProblem(Options());
  const PlanFound good = Found(problem, TwoStages());
  EXPECT_OK(CheckResult(problem, good));
  const std::vector<std::pair<const char*, std::function<void(PlanFound&)>>> lies = {
      {"step", [](PlanFound& f) { f.prediction.step = f.prediction.step * 0.999; }},
      {"step_upper", [](PlanFound& f) { f.prediction.step_upper += Seconds::Of(1); }},
      {"step_lower", [](PlanFound& f) { f.prediction.step_lower = Seconds(); }},
      {"class", [](PlanFound& f) { f.prediction.range_basis = "none"; }},
      {"peak_memory_lower", [](PlanFound& f) { f.prediction.peak_memory_lower = Bytes(); }},
      {"above the step", [](PlanFound& f) { f.search.bound = f.search.bound * 1.1; }},
      {"the gap", [](PlanFound& f) { f.search.gap_ratio = 0.1; }},
      {"the gap", [](PlanFound& f) { f.search.bound = f.search.bound * 0.9; }},
      {"optimal with a gap",
       [](PlanFound& f) {
         f.search.bound = f.search.bound * 0.5;
         f.search.gap_ratio = 0.5;
       }},
      {"optimal and stopped", [](PlanFound& f) { f.search.limit = SearchLimit::kTime; }},
      {"no time", [](PlanFound& f) { f.search.bound = Seconds::Infinite(); }},
      {"negative", [](PlanFound& f) { f.search.expanded_state_count = -1; }},
      {"twice",
       [](PlanFound& f) {
         f.alternatives.push_back({f.plan, f.prediction});
       }},
      {"where the rules allow",
       [](PlanFound& f) {
         f.alternatives.assign(3, {f.plan, f.prediction});
       }},
      {"begins with another",
       [](PlanFound& f) {
         f.memory_front.push_back({f.plan, f.prediction});
         f.memory_front.front().plan.micro_batch_count = 4;
       }},
      {"not slower and smaller",
       [](PlanFound& f) {
         f.memory_front.assign(2, {f.plan, f.prediction});
       }},
  };
  for (const auto& [told, lie] : lies) {
    SCOPED_TRACE(told);
    PlanFound found = good;
    lie(found);
    EXPECT_THAT(CheckResult(problem, found),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(told)));
  }
}

// An answer with alternatives and a front of more than one plan.
PlanFound FoundSeveral(const PlanningProblem& problem) {
  absl::StatusOr<PlanningResult> result = FindPlan(problem, "exact");
  EXPECT_OK(result);
  PlanFound found = std::get<PlanFound>(*std::move(result));
  EXPECT_EQ(found.alternatives.size(), 2u);
  EXPECT_GT(found.memory_front.size(), 1u);
  return found;
}

TEST(CheckResultInTime, ChecksNoFurtherPlanOnceItMustStop) {
  const PlanningProblem problem = SyntheticProblem(Options());
  const PlanFound all = FoundSeveral(problem);
  const size_t others = all.alternatives.size() + all.memory_front.size();
  for (size_t time = 0; time <= others; ++time) {
    SCOPED_TRACE(time);
    PlanFound found = all;
    // Whatever the time is over for is not looked at: these plans are false.
    const size_t points = std::min(time / 2, all.memory_front.size());
    const size_t alternatives = std::min(time - points, all.alternatives.size());
    const size_t further_points = time - alternatives;
    for (size_t i = alternatives; i < found.alternatives.size(); ++i) {
      found.alternatives[i].prediction.samples_per_second *= 2.0;
    }
    for (size_t i = further_points; i < found.memory_front.size(); ++i) {
      found.memory_front[i].prediction.samples_per_second *= 2.0;
    }
    PlanningResult result = found;
    if (time < others) {
      EXPECT_THAT(CheckResult(problem, result), StatusIs(absl::StatusCode::kInternal));
    }
    size_t asked = 0;
    ASSERT_OK_AND_ASSIGN(const int left_out, CheckResultInTime(
                                                 problem, [&] { return ++asked > time; }, result));
    EXPECT_EQ(asked, std::min(time + 1, others));
    EXPECT_EQ(static_cast<size_t>(left_out), others - time);
    const auto& checked = std::get<PlanFound>(result);
    EXPECT_EQ(checked.plan, all.plan);
    EXPECT_EQ(checked.alternatives.size(), alternatives);
    EXPECT_EQ(checked.memory_front.size(), further_points);
    EXPECT_EQ(checked.notes.size(), all.notes.size() + (time < others ? 1 : 0));
    if (time < others) {
      EXPECT_THAT(checked.notes.back(),
                  HasSubstr(absl::StrFormat(
                      "%d of 2 alternatives, %d of %d plans", 2 - alternatives,
                      all.memory_front.size() - further_points, all.memory_front.size())));
    }
    EXPECT_OK(CheckResult(problem, result));
  }
}

TEST(CheckResultInTime, AlwaysChecksThePlanAndAnAnswerWithoutOne) {
  const PlanningProblem problem = SyntheticProblem(Options());
  const auto over = [] { return true; };
  PlanFound found = Found(problem, TwoStages());
  found.prediction.step = found.prediction.step * 0.5;
  PlanningResult result = found;
  EXPECT_THAT(CheckResultInTime(problem, over, result), StatusIs(absl::StatusCode::kInternal));
  result = StoppedEmpty{{.limit = SearchLimit::kNone}};
  EXPECT_THAT(CheckResultInTime(problem, over, result), StatusIs(absl::StatusCode::kInternal));
  result = StoppedEmpty{{.limit = SearchLimit::kTime}};
  EXPECT_OK(CheckResultInTime(problem, over, result));
}

TEST(CheckResult, FindsEveryFalsePromiseOfNothingFits) {
  SyntheticOptions options = Options();
  options.device_memory = Bytes::Of(int64_t{300} << 20);
  const PlanningProblem problem = SyntheticProblem(options);
  const NothingFits good = {
      .smallest_usable_memory = Bytes::Of((int64_t{400} << 20) - 5),
      .smallest_device_memory = Bytes::Of(int64_t{400} << 20),
      .smallest_device_count = 8,
      .search = {.termination = Termination::kOptimal, .limit = SearchLimit::kNone}};
  EXPECT_OK(CheckResult(problem, good));
  const std::vector<std::pair<const char*, std::function<void(NothingFits&)>>> lies = {
      {"would do",
       [](NothingFits& n) { n.smallest_usable_memory = Bytes::Of(int64_t{300} << 20); }},
      {"whole MiB", [](NothingFits& n) { n.smallest_device_memory += Bytes::Of(1); }},
      {"whole MiB", [](NothingFits& n) { n.smallest_device_memory -= Bytes::Of(1 << 20); }},
      {"whole MiB", [](NothingFits& n) { n.smallest_device_memory += Bytes::Of(8 << 20); }},
      {"whole nodes", [](NothingFits& n) { n.smallest_device_count = 4; }},
      {"whole nodes", [](NothingFits& n) { n.smallest_device_count = 9; }},
      {"optimal and stopped", [](NothingFits& n) { n.search.limit = SearchLimit::kTime; }},
  };
  for (const auto& [told, lie] : lies) {
    SCOPED_TRACE(told);
    NothingFits nothing = good;
    lie(nothing);
    EXPECT_THAT(CheckResult(problem, nothing),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(told)));
  }
}

TEST(CheckResult, ThePlanOfTheSmallestMemoryIsSummedUpAnew) {
  SyntheticOptions options = Options();
  const PlanningProblem roomy = SyntheticProblem(options);
  const Plan plan = TwoStages();
  const Bytes needed = Found(roomy, plan).prediction.peak_memory_upper;
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  const auto nothing_fits = [&](Bytes smallest) {
    NothingFits nothing = {
        .smallest_usable_memory = smallest,
        .smallest_device_memory =
            Bytes::Of((smallest.count() + kMebibyte - 1) / kMebibyte * kMebibyte),
        .smallest_plan = plan,
        .search = {.termination = Termination::kOptimal, .limit = SearchLimit::kNone}};
    return nothing;
  };
  options.device_memory = Bytes::Of(needed.count() / 2);
  const PlanningProblem problem = SyntheticProblem(options);
  EXPECT_OK(CheckResult(problem, nothing_fits(needed)));
  EXPECT_THAT(CheckResult(problem, nothing_fits(needed - Bytes::Of(1))),
              StatusIs(absl::StatusCode::kInternal));
  NothingFits more = nothing_fits(needed + Bytes::Of(2 * kMebibyte));
  EXPECT_THAT(CheckResult(problem, more),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("said to be the least")));
  more.memory_is_proved = false;
  EXPECT_OK(CheckResult(problem, more));
  NothingFits broken = nothing_fits(needed);
  broken.smallest_plan->stages.pop_back();
  EXPECT_THAT(CheckResult(problem, broken), StatusIs(absl::StatusCode::kInternal));
}

TEST(CheckResult, ALimitEndsASearchThatFoundNothing) {
  const PlanningProblem problem = SyntheticProblem(Options());
  StoppedEmpty stopped;
  stopped.search.limit = SearchLimit::kTime;
  EXPECT_OK(CheckResult(problem, stopped));
  stopped.search = {.termination = Termination::kOptimal, .limit = SearchLimit::kNone};
  EXPECT_THAT(CheckResult(problem, stopped),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no limit")));
}

// Every dimension that a plan uses is missed when it is closed.
TEST(CheckDeclaredSpace, MissesEveryDimension) {
  const auto with = [](const std::function<void(Plan&)>& change) {
    Plan plan = TwoStages();
    change(plan);
    return plan;
  };
  const auto layer = [](Plan& plan) -> Strategy& { return plan.stages[0].layer_runs[0].strategy; };
  const auto decoder = [](Plan& plan) -> Strategy& {
    return plan.stages[0].layer_runs[1].strategy;
  };
  const std::vector<std::pair<SearchDimension, Plan>> uses = {
      {kPipeline, TwoStages()},
      {kTensor, TwoStages()},
      {kPerLayer, TwoStages()},
      {kEndStrategies, TwoStages()},
      {kUnevenStages, TwoStages()},
      {kGpipe, with([](Plan& p) { p.schedule = Schedule::kGpipe; })},
      {kOptimizerSharding,
       with([&](Plan& p) { layer(p).sharding_level = ShardingLevel::kOptimizer; })},
      {kGradientSharding,
       with([&](Plan& p) { layer(p).sharding_level = ShardingLevel::kGradients; })},
      {kParameterSharding,
       with([&](Plan& p) { layer(p).sharding_level = ShardingLevel::kParameters; })},
      {kFullRecompute, with([&](Plan& p) { decoder(p).recompute_level = RecomputeLevel::kFull; })},
      {kSelectiveRecompute,
       with([&](Plan& p) { decoder(p).recompute_level = RecomputeLevel::kSelective; })},
      {kRankOrder, with([&](Plan& p) { layer(p).rank_order = RankOrder::kDataInnermost; })},
      {kContext, with([&](Plan& p) {
         layer(p) = {.data_parallel_degree = 1, .context_parallel_degree = 2};
       })},
      {kUlysses, with([&](Plan& p) {
         layer(p) = {.data_parallel_degree = 1,
                     .context_parallel_degree = 2,
                     .context_kind = ContextKind::kUlysses};
       })},
  };
  for (const auto& [dimension, plan] : uses) {
    SCOPED_TRACE(SearchDimensionName(dimension));
    SyntheticOptions options = Options();
    EXPECT_OK(CheckDeclaredSpace(SyntheticProblem(options), plan));
    options.rules.dimensions = DimensionSet::All().Without(dimension);
    EXPECT_THAT(CheckDeclaredSpace(SyntheticProblem(options), plan),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("outside its space")));
  }
}

TEST(CheckDeclaredSpace, RecomputesModulesForMegatronAlone) {
  EstimatedOptions options;
  options.decoder_count = 2;
  options.rules.allow_estimates = true;
  const auto check = [&options](Target target, DimensionSet dimensions,
                                const std::vector<RecomputeModule>& modules) {
    options.rules.target = target;
    options.rules.dimensions = dimensions;
    const PlanningProblem problem = EstimatedProblem(options);
    Strategy strategy{.data_parallel_degree = options.device_count};
    strategy.set_recomputation(
        Recomputation(*RecomputeModules::Create(modules, "recompute_modules")));
    const Plan plan = PlanOf(problem, UniformPlan{.strategy = strategy});
    EXPECT_OK(CheckPlanStructure(problem, plan));
    return CheckDeclaredSpace(problem, plan);
  };
  const DimensionSet all = DimensionSet::All();
  const std::vector<RecomputeModule> part = {RecomputeModule::kFeedForward};
  const std::vector<RecomputeModule> both = {RecomputeModule::kCoreAttention,
                                             RecomputeModule::kFeedForward};
  EXPECT_OK(check(Target::kMegatron, all, part));
  EXPECT_OK(check(Target::kMegatron, all, both));
  const auto refused = [](const std::string& dimension) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(dimension));
  };
  EXPECT_THAT(check(Target::kParplan, all, part), refused("`recompute-modules`"));
  EXPECT_THAT(check(Target::kMegatron, all.Without(SearchDimension::kModuleRecompute), part),
              refused("`recompute-modules`"));
  EXPECT_OK(check(Target::kMegatron, all.Without(SearchDimension::kSelectiveRecompute), part));
  EXPECT_THAT(check(Target::kMegatron, all.Without(SearchDimension::kSelectiveRecompute), both),
              refused("`recompute-selective`"));
}

TEST(CheckDeclaredSpace, HasGroupsOfAnySizeForMegatronAlone) {
  EstimatedOptions options;
  options.device_count = 2;
  options.decoder_count = 2;
  options.global_batch_size = 8;
  options.tied_embedding = false;
  const auto check = [&options](Target target, int64_t group_size, DimensionSet dimensions) {
    options.rules.target = target;
    options.rules.dimensions = dimensions;
    const PlanningProblem problem = EstimatedProblem(options);
    Plan plan = PlanOf(problem, UniformPlan{.pipeline_parallel_degree = 2,
                                            .strategy = Strategy{.data_parallel_degree = 1}});
    plan.micro_batch_group_size = group_size;
    return CheckDeclaredSpace(problem, plan);
  };
  const DimensionSet all = DimensionSet::All();
  EXPECT_OK(check(Target::kMegatron, 0, all));
  EXPECT_OK(check(Target::kMegatron, 8, all));
  const auto refused = StatusIs(absl::StatusCode::kInternal, HasSubstr("groups of 8"));
  EXPECT_THAT(check(Target::kMegatron, 8, all.Without(SearchDimension::kGroupSize)), refused);
  EXPECT_THAT(check(Target::kParplan, 8, all), refused);
}

// Megatron-LM runs them, and no search makes them.
TEST(CheckDeclaredSpace, HasNoStagesWithoutLayers) {
  EstimatedOptions options;
  options.device_count = 2;
  options.decoder_count = 2;
  options.global_batch_size = 8;
  options.tied_embedding = false;
  options.rules.schedule.reset();
  options.rules.target = Target::kMegatron;
  options.rules.runtime = *FindRuntime("megatron-core");
  const PlanningProblem problem = EstimatedProblem(options);
  // Two decoders in four stages: the third has none.
  const Plan plan = PlanOf(problem, UniformPlan{.pipeline_parallel_degree = 2,
                                                .virtual_stage_count = 2,
                                                .micro_batch_count = 8,
                                                .strategy = Strategy{.data_parallel_degree = 1}});
  EXPECT_OK(CheckPlanStructure(problem, plan));
  EXPECT_THAT(CheckDeclaredSpace(problem, plan),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("stage 2 has no layers")));
}

// DeepSpeed's engines know one axis beside data parallelism; Accelerate has FSDP alone.
TEST(CheckDeclaredSpace, KnowsWhichSplitsATargetCombines) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.global_batch_size = 8;
  options.tied_embedding = false;
  options.expert_count = 4;
  const auto check = [&options](Target target, int depth, Strategy strategy) {
    options.rules.target = target;
    const PlanningProblem problem = EstimatedProblem(options);
    return CheckDeclaredSpace(
        problem,
        PlanOf(problem, UniformPlan{.pipeline_parallel_degree = depth, .strategy = strategy}));
  };
  const auto refused = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(part));
  };
  Strategy four{.data_parallel_degree = 4, .sharding_level = ShardingLevel::kOptimizer};
  EXPECT_OK(check(Target::kDeepSpeed, 2, four));
  four.sharding_level = ShardingLevel::kNone;
  EXPECT_THAT(check(Target::kDeepSpeed, 2, four), refused("shards nothing beside a pipeline"));
  Strategy spread{.data_parallel_degree = 8, .expert_parallel_degree = 4};
  EXPECT_OK(check(Target::kDeepSpeed, 1, spread));
  EXPECT_THAT(check(Target::kAccelerate, 1, spread), refused("spreads experts"));
  spread.data_parallel_degree = 4;
  spread.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_THAT(check(Target::kDeepSpeed, 2, spread), refused("split beside a pipeline"));
  Strategy split{.tensor_parallel_degree = 2, .data_parallel_degree = 4};
  EXPECT_THAT(check(Target::kDeepSpeed, 1, split), refused("has experts and is split"));
  options.expert_count = 0;
  EXPECT_OK(check(Target::kDeepSpeed, 1, split));
  EXPECT_THAT(check(Target::kAccelerate, 1, split), refused("whole gradients on its replicas"));
  split.sharding_level = ShardingLevel::kParameters;
  EXPECT_OK(check(Target::kAccelerate, 1, split));
  split.data_parallel_degree = 2;
  split.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_THAT(check(Target::kDeepSpeed, 2, split), refused("split beside a pipeline"));
}

// torchtitan gathers keys and values, and shards parameters in one stage and something beside that
// and spread experts;
// PyTorch alone moves no tokens to experts.
TEST(CheckDeclaredSpace, KnowsWhatTorchtitanAndFsdp2Run) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 8;
  options.global_batch_size = 8;
  options.tied_embedding = false;
  const auto check = [&options](Target target, const UniformPlan& plan) {
    options.rules.target = target;
    options.rules.schedule.reset();
    const PlanningProblem problem = EstimatedProblem(options);
    return CheckDeclaredSpace(problem, PlanOf(problem, plan));
  };
  const auto refused = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(part));
  };
  UniformPlan plan{.strategy = {.data_parallel_degree = 8}};
  EXPECT_OK(check(Target::kFsdp2, plan));
  EXPECT_THAT(check(Target::kTorchtitan, plan), refused("whole parameters in one stage"));
  plan.strategy.sharding_level = ShardingLevel::kParameters;
  EXPECT_OK(check(Target::kTorchtitan, plan));
  plan = {.pipeline_parallel_degree = 2,
          .strategy = {.data_parallel_degree = 2, .context_parallel_degree = 2}};
  EXPECT_OK(check(Target::kFsdp2, plan));
  EXPECT_THAT(check(Target::kTorchtitan, plan), refused("shares tokens in another way"));
  plan.strategy.context_kind = ContextKind::kAllGather;
  EXPECT_THAT(check(Target::kFsdp2, plan), refused("shares tokens in another way"));
  EXPECT_THAT(check(Target::kTorchtitan, plan), refused("nothing beside context parallelism"));
  plan.strategy.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_OK(check(Target::kTorchtitan, plan));
  plan.strategy = {.data_parallel_degree = 4};
  for (const int virtual_stages : {2, 4}) {
    plan.virtual_stage_count = virtual_stages;
    plan.micro_batch_count = 2;
    EXPECT_OK(check(Target::kFsdp2, plan));
    if (virtual_stages == 2) {
      EXPECT_OK(check(Target::kTorchtitan, plan));
    } else {
      EXPECT_THAT(check(Target::kTorchtitan, plan), refused("4 virtual stages"));
    }
  }
  options.expert_count = 4;
  plan = {.pipeline_parallel_degree = 2,
          .strategy = {.data_parallel_degree = 4, .expert_parallel_degree = 4}};
  EXPECT_THAT(check(Target::kFsdp2, plan), refused("spreads experts"));
  EXPECT_THAT(check(Target::kTorchtitan, plan), refused("split or not sharded"));
  plan.strategy.sharding_level = ShardingLevel::kOptimizer;
  EXPECT_OK(check(Target::kTorchtitan, plan));
  options.expert_count = 0;
  options.tied_embedding = true;
  plan.strategy.expert_parallel_degree = 1;
  EXPECT_THAT(check(Target::kTorchtitan, plan), refused("beside a tied table"));
  EXPECT_THAT(check(Target::kFsdp2, plan), refused("a tied table more than a pipeline"));
}

// Whole gradients of a table that two stages hold are added up by our executor; Megatron and
// others scatter them behind that.
TEST(CheckDeclaredSpace, KnowsWhoShardsATableOfTwoStages) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.global_batch_size = 8;
  const Strategy sharded{.data_parallel_degree = 4, .sharding_level = ShardingLevel::kOptimizer};
  const PlanningProblem ours = EstimatedProblem(options);
  const UniformPlan two_stages{.pipeline_parallel_degree = 2, .strategy = sharded};
  EXPECT_OK(CheckPlanStructure(ours, PlanOf(ours, two_stages)));
  EXPECT_THAT(CheckDeclaredSpace(ours, PlanOf(ours, two_stages)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a tied table")));
  options.rules.target = Target::kMegatron;
  const PlanningProblem megatron = EstimatedProblem(options);
  EXPECT_OK(CheckDeclaredSpace(megatron, PlanOf(megatron, two_stages)));
  options.rules.target = Target::kParplan;
  options.tied_embedding = false;
  const PlanningProblem untied = EstimatedProblem(options);
  EXPECT_OK(CheckDeclaredSpace(untied, PlanOf(untied, two_stages)));
}

}  // namespace
}  // namespace parplan
