// Modules that `--target megatron` recomputes by name: the sets that are searched, and their twin.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/check/plan_check.h"
#include "planner/check/result_check.h"
#include "planner/find_plan.h"
#include "planner/search/space/strategy_space.h"
#include "tests/planner/search/space/space_options.h"
#include "tests/support/brute_force_plans.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;

// Experts with one that all tokens pass, beside layers without any and with latent attention in
// both.
PlanningProblem ProblemWithModules(int device_count) {
  EstimatedOptions options = MegatronOptions(4, device_count);
  options.tied_embedding = false;
  const PlanningProblem base = EstimatedProblem(options);
  LayerDefinition dense = base.model().layer(1);
  dense.feed_forward_kind = FeedForwardKind::kSwiglu;
  dense.head_size = 96;
  dense.latent_attention = LatentAttention{
      .query_rank = 256, .key_value_rank = 128, .rotary_head_size = 32, .value_head_size = 64};
  dense.parameter_count = 0;
  LayerDefinition experts = dense;
  experts.layer_definition_id = "experts";
  experts.feed_forward_size = 0;
  experts.expert_count = 8;
  experts.experts_per_token = 2;
  experts.expert_feed_forward_size = 1024;
  experts.shared_expert_feed_forward_size = 1024;
  std::vector<LayerDefinition> definitions = {base.model().layer(0)};
  for (const LayerDefinition& raw : {dense, experts}) {
    absl::StatusOr<LayerDefinition> definition = LayerDefinition::Create(raw, "layer");
    EXPECT_OK(definition);
    definitions.push_back(*std::move(definition));
  }
  definitions.push_back(base.model().layer(base.model().layer_count() - 1));
  absl::StatusOr<ModelSpec> model = ModelSpec::Create(
      "modules", definitions, {{0, 1}, {1, 1}, {2, 3}, {3, 1}}, Precision::kBf16, Optimizer::kAdam);
  EXPECT_OK(model);
  Knowledge knowledge;
  knowledge.groups.emplace_back().hardware =
      std::make_shared<const Hardware>(EightA100Nodes(1.0, 1.0, 1.0));
  absl::StatusOr<PlanningProblem> problem =
      PlanningProblem::Create(std::make_shared<const ModelSpec>(*std::move(model)),
                              std::make_shared<const Topology>(base.topology()),
                              std::move(knowledge), options.global_batch_size, options.rules);
  EXPECT_OK(problem);
  return *std::move(problem);
}

std::set<std::string> ModuleNames(const std::vector<Strategy>& strategies) {
  std::set<std::string> names;
  for (const Strategy& strategy : strategies) {
    if (!strategy.recompute_modules.empty()) {
      names.insert(strategy.recompute_modules.ToString("+"));
    }
  }
  return names;
}

TEST(MegatronTarget, RecomputesTheModulesOfTheModel) {
  const auto names_of = [](const EstimatedOptions& options) {
    const PlanningProblem problem = EstimatedProblem(options);
    const CostModel costs = *CostModel::Create(problem);
    return ModuleNames(StrategySpace(problem, costs).Strategies(1, 1, options.global_batch_size));
  };
  const EstimatedOptions dense = MegatronOptions(2, 1);
  EXPECT_THAT(names_of(dense), ElementsAre("core_attn+mlp", "mlp"));
  EstimatedOptions unfused = dense;
  unfused.rules.runtime.attention_kernel = AttentionKernel::kUnfused;
  EXPECT_THAT(names_of(unfused), ElementsAre("core_attn+mlp", "mlp"));
  unfused.rules.dimensions = DimensionSet::All().Without(SearchDimension::kSelectiveRecompute);
  EXPECT_THAT(names_of(unfused), ElementsAre("mlp"));
  EstimatedOptions experts = dense;
  experts.expert_count = 8;
  EXPECT_THAT(names_of(experts),
              ElementsAre("core_attn+layernorm+moe", "core_attn+moe_act+layernorm", "layernorm+moe",
                          "moe_act+layernorm"));
  const PlanningProblem all = ProblemWithModules(1);
  const CostModel costs = *CostModel::Create(all);
  const StrategySpace space(all, costs);
  // All layers name the same, also modules that they do not have.
  for (const int definition : {1, 2}) {
    EXPECT_THAT(ModuleNames(space.Strategies(definition, 1, 16)),
                ElementsAre("core_attn+layernorm+mla_up_proj+mlp+moe",
                            "core_attn+moe_act+layernorm+mla_up_proj",
                            "layernorm+mla_up_proj+mlp+moe", "moe_act+layernorm+mla_up_proj"));
  }
  PlanningRules rules = all.rules();
  rules.dimensions = DimensionSet::All().Without(SearchDimension::kModuleRecompute);
  const PlanningProblem without = all.WithRules(rules);
  EXPECT_THAT(ModuleNames(StrategySpace(without, costs).Strategies(2, 1, 16)), ElementsAre());
}

// Of all plans, with every set of modules on all layers, the best is found and proved.
TEST(MegatronTarget, AnswersAsBruteForceWithModules) {
  int module_count = 0;
  for (const int device_count : {1, 2}) {
    for (const bool is_fused : {true, false}) {
      const PlanningProblem drawn = ProblemWithModules(device_count);
      PlanningRules rules = drawn.rules();
      rules.micro_batch_count = 4;
      rules.schedule = Schedule::kOneForwardOneBackward;
      rules.dimensions = DimensionSet::All()
                             .Without(SearchDimension::kContext)
                             .Without(SearchDimension::kUlysses)
                             .Without(SearchDimension::kTensor);
      if (!is_fused) rules.runtime.attention_kernel = AttentionKernel::kUnfused;
      // Layers as small as these would mostly wait for the host, and so rarely repeat experts.
      rules.runtime.reads_expert_counts = false;
      // They are the largest of any layer, which no sum over layers bounds: beside layers as small
      // as these they are much, and leave a plan unproved.
      rules.runtime.keeps_placeholder_gradients = false;
      // Where layers keep more, more is worth repeating.
      rules.runtime.keeps_exchanged_tokens = true;
      const PlanningProblem roomy = drawn.WithRules(rules);
      ASSERT_OK_AND_ASSIGN(const PlanningResult best, FindPlan(roomy, "exact"));
      const double most = std::get<PlanFound>(best).prediction.peak_memory_upper.as_double();
      for (double share = 0.6; share < 1.0; share += 0.08) {
        SCOPED_TRACE(testing::Message() << device_count << " devices, " << is_fused << ", " << share
                                        << " of the memory");
        const PlanningProblem problem = roomy.WithUsableMemory(Bytes::Ceil(most * share));
        ASSERT_OK_AND_ASSIGN(const CostModel costs, CostModel::Create(problem));
        const BruteForceAnswer twin = EveryPlan(problem, costs);
        ASSERT_OK_AND_ASSIGN(const PlanningResult result, FindPlan(problem, "exact"));
        ASSERT_EQ(std::holds_alternative<PlanFound>(result), twin.best.has_value());
        if (!twin.best.has_value()) continue;
        EXPECT_OK(CheckResult(problem, result));
        const auto& found = std::get<PlanFound>(result);
        EXPECT_NEAR(found.prediction.step / twin.best->prediction.step, 1.0, 1e-9)
            << PlanGist(found.plan) << " and not " << PlanGist(twin.best->plan);
        EXPECT_EQ(found.search.termination, Termination::kOptimal);
        if (!found.plan.stages[0].layer_runs[1].strategy.recompute_modules.empty()) ++module_count;
      }
    }
  }
  EXPECT_GT(module_count, 3);
}

}  // namespace
}  // namespace parplan
