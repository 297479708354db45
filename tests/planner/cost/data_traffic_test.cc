// What ranks that have the same parameters exchange of their gradients.

#include <memory>

#include <gtest/gtest.h>

#include "planner/cost/cost_model.h"
#include "planner/cost/layer_traffic.h"
#include "tests/planner/cost/small_problem.h"
#include "tests/support/estimated_problem.h"
#include "tests/support/valid.h"

namespace parplan {
namespace {

// Eight A100 with layers of 1024, of 16 experts if there are any.
CostModel CostsUnder(const RuntimeTraits& runtime, int expert_count, Precision precision) {
  EstimatedOptions options;
  options.device_count = 8;
  options.decoder_count = 2;
  options.hidden_size = 1024;
  options.attention_head_count = 16;
  options.expert_count = expert_count;
  options.global_batch_size = 8;
  options.rules.runtime = runtime;
  const PlanningProblem plain = EstimatedProblem(options);
  const ModelSpec model =
      Valid(ModelSpec::Create("model", plain.model().layer_definitions(),
                              plain.model().layer_runs(), precision, Optimizer::kAdam));
  return Valid(CostModel::Create(Valid(PlanningProblem::Create(
      std::make_shared<const ModelSpec>(model), std::make_shared<const Topology>(plain.topology()),
      Knowledge{{{.hardware = std::make_shared<const Hardware>(*plain.hardware(kFirstGroup))}}},
      options.global_batch_size, options.rules))));
}

double BytesOf(const CollectiveList& calls) {
  double bytes = 0.0;
  for (const LayerCollective& call : calls) bytes += call.bytes * call.count;
  return bytes;
}

// Ranks of sequence parallelism route tokens of their own: the router's gradient is a sum, like
// those of both norms. 1024 x (2 + 16) elements of four bytes.
TEST(LayerTraffic, RoutersHavePartialGradientsToo) {
  for (const int expert_count : {0, 16}) {
    const CostModel costs = CostsUnder(*FindRuntime("torch"), expert_count, Precision::kBf16);
    const GroupCosts& group = costs.group(kFirstGroup);
    const LayerDefinition& layer = group.layer_source(1).definition();
    Strategy strategy = Degrees(2, 4);
    EXPECT_EQ(BytesOf(group.traffic().PartialGradientCollectives(layer, strategy)), 0.0);
    strategy.sequence_parallel = true;
    EXPECT_EQ(BytesOf(group.traffic().PartialGradientCollectives(layer, strategy)),
              4.0 * 1024 * (2 + expert_count));
  }
}

// The flat copy of gradients is as wide as the message that it is for: 4 bytes under fp32, whatever
// the messages of 16-bit training have.
TEST(LayerTraffic, FlatBucketsAreAsWideAsTheirMessages) {
  for (const Precision precision : {Precision::kFp16, Precision::kFp32}) {
    const CostModel costs = CostsUnder(*FindRuntime("megatron-deepspeed"), 0, precision);
    const GroupCosts& group = costs.group(kFirstGroup);
    const LayerSource& source = group.layer_source(1);
    const Strategy strategy = Degrees(1, 8);
    const LayerFootprint footprint = source.Footprint(strategy, 1);
    const LayerMemory memory =
        MemoryOfLayer(footprint, precision, Optimizer::kAdam, costs.runtime(), strategy, 1.0);
    EXPECT_DOUBLE_EQ(
        memory.bucket.as_double(),
        BytesOf(
            group.traffic().DataCollectives(footprint, strategy, ShardingLevel::kNone).backward));
  }
}

// The time by which copies of gathered parts make the step of one decoder longer, on eight ranks.
double CopiesOf(RuntimeTraits runtime, ShardingLevel level) {
  const auto step = [&] {
    const CostModel costs = CostsUnder(runtime, 0, Precision::kBf16);
    Strategy strategy = Degrees(1, 8);
    strategy.sharding_level = level;
    return costs.group(kFirstGroup).CostOfLayer(1, strategy, 8, 1).optimizer_step.value();
  };
  const double with = step();
  runtime.copies_gathered_parts = false;
  return with - step();
}

// nanotron's ZeRO-1: four matrices and two norms from each of eight ranks are 48 launches, of which
// those beside the gather itself cost nothing.
TEST(LayerTraffic, PartsThatAreGatheredAreCopiedOneByOne) {
  const RuntimeTraits nanotron = *FindRuntime("nanotron");
  ASSERT_TRUE(nanotron.copies_gathered_parts);
  const CostModel costs = CostsUnder(nanotron, 0, Precision::kBf16);
  const GroupCosts& group = costs.group(kFirstGroup);
  const Strategy strategy = Degrees(1, 8);
  const double gather = group.traffic()
                            .DataParallel(group.layer_source(1).Footprint(strategy, 1), strategy,
                                          ShardingLevel::kOptimizer)
                            .forward.value();
  const LayerDefinition& definition = group.layer_source(1).definition();
  LayerFootprint footprint = group.layer_source(1).Footprint(strategy, 1);
  const double launches =
      group.PartCopyTime(definition, footprint, ShardingLevel::kOptimizer, strategy).value();
  EXPECT_NEAR(launches, 48 * group.memory_coefficients()[Coefficient::kLaunchInterval], 1e-12);
  ASSERT_GT(launches, gather);
  EXPECT_NEAR(CopiesOf(nanotron, ShardingLevel::kOptimizer), launches - gather, 1e-12);
  EXPECT_EQ(CopiesOf(nanotron, ShardingLevel::kNone), 0.0);
  RuntimeTraits captured = nanotron;
  captured.eager = false;
  EXPECT_EQ(CopiesOf(captured, ShardingLevel::kOptimizer), 0.0);
  // Frozen parameters do not change, so nothing is gathered.
  footprint.parameter_count = 0;
  EXPECT_EQ(group.PartCopyTime(definition, footprint, ShardingLevel::kOptimizer, strategy),
            Seconds());
}

// Experts over four of eight ranks: their two tensors come from two ranks each, the router, two
// norms and the two matrices of the attention from eight.
TEST(LayerTraffic, PartsOfExpertsAreCopiedFromRanksThatHaveTheSameExperts) {
  const CostModel costs = CostsUnder(*FindRuntime("nanotron"), 0, Precision::kBf16);
  const GroupCosts& group = costs.group(kFirstGroup);
  LayerDefinition definition = group.layer_source(1).definition();
  definition.expert_count = 8;
  ASSERT_TRUE(definition.has_experts());
  Strategy strategy = Degrees(1, 8);
  strategy.expert_parallel_degree = 4;
  ASSERT_EQ(strategy.expert_replica_count(), 2);
  LayerFootprint footprint;
  footprint.parameter_count = 1;
  footprint.expert_parameter_count = 1;
  const double launch = group.memory_coefficients()[Coefficient::kLaunchInterval];
  const auto copies = [&] {
    return group.PartCopyTime(definition, footprint, ShardingLevel::kOptimizer, strategy).value() /
           launch;
  };
  EXPECT_NEAR(copies(), 5 * 8 + 2 * 2, 1e-9);
  strategy.expert_parallel_degree = 8;
  EXPECT_NEAR(copies(), 5 * 8, 1e-9);
}

}  // namespace
}  // namespace parplan
