#include "planner/cost/layer_traffic.h"

#include <gtest/gtest.h>

#include "planner/cost/tensor_parallel_traffic.h"
#include "tests/planner/cost/small_problem.h"

namespace parplan {
namespace {

TEST(OverlappedTime, IsTheClosedFormOfThePaper) {
  EXPECT_DOUBLE_EQ(OverlappedTime(Seconds::Of(4.583), Seconds::Of(29.005), 1.3).value(),
                   29.005 + 0.3 * 4.583);
  EXPECT_EQ(OverlappedTime(Seconds::Of(2), Seconds(), 1.3), Seconds::Of(2));
}

// The decoder of the small problem: 2 tokens, hidden size 4, bf16.
TEST(LayerTraffic, MessagesAreTheOutputThatARankHas) {
  const CostModel costs = SmallCosts();
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerTraffic& traffic = group.traffic();
  const LayerDefinition& decoder = group.layer_source(kDecoder).definition();
  Strategy strategy = Degrees(2, 1);
  EXPECT_EQ(traffic.OutputBytes(decoder, strategy, 3.0), 3.0 * 16);
  EXPECT_EQ(traffic.MessageBytes(decoder, strategy, 3.0), 3.0 * 16);
  strategy.sequence_parallel = true;
  EXPECT_EQ(traffic.MessageBytes(decoder, strategy, 3.0), 3.0 * 8);
}

TEST(LayerTraffic, RanksThatShareNothingExchangeNothing) {
  const CostModel costs = SmallCosts();
  const GroupCosts& group = costs.group(kFirstGroup);
  const LayerTraffic& traffic = group.traffic();
  const LayerSource& source = group.layer_source(kDecoder);
  const Strategy alone = Degrees(1, 1);
  for (const LayerTraffic::Exchange& exchange :
       {traffic.TensorParallel(source.definition(), alone, 1.0, Seconds()),
        traffic.ContextParallel(source.definition(), alone, 1.0, LayerPasses()),
        traffic.ExpertParallel(source.definition(), alone, 1.0),
        traffic.DataParallel(source.Footprint(alone, 1), alone, ShardingLevel::kNone)}) {
    EXPECT_EQ(exchange.forward, Seconds());
    EXPECT_EQ(exchange.backward, Seconds());
  }
}

// Attention and feed-forward part each end with one sum, and begin with one in the backward pass;
// sequence parallelism has a scatter and a gather for each, and gathers each input once more.
TEST(TrafficOf, ADecoderHasTwoParts) {
  const CostModel costs = SmallCosts();
  const LayerDefinition& decoder = costs.group(kFirstGroup).layer_source(kDecoder).definition();
  const RuntimeTraits runtime;
  const TensorParallelTraffic whole = TrafficOf(decoder, /*sequence_parallel=*/false, runtime);
  EXPECT_EQ(whole.forward.all_reduces, 2);
  EXPECT_EQ(whole.backward.all_reduces, 2);
  EXPECT_EQ(whole.forward.gathers + whole.forward.scatters, 0);
  const TensorParallelTraffic split = TrafficOf(decoder, /*sequence_parallel=*/true, runtime);
  EXPECT_EQ(split.forward.all_reduces + split.backward.all_reduces, 0);
  EXPECT_EQ(split.forward.gathers, 2);
  EXPECT_EQ(split.forward.scatters, 2);
  EXPECT_EQ(split.backward.gathers, 4);
  EXPECT_EQ(split.backward.scatters, 2);
}

// parplan.torch keeps what it gathered.
TEST(TrafficOf, TorchGathersNoInputAgain) {
  const CostModel costs = SmallCosts();
  const LayerDefinition& decoder = costs.group(kFirstGroup).layer_source(kDecoder).definition();
  const RuntimeTraits& runtime = *FindRuntime("torch");
  const TensorParallelTraffic split = TrafficOf(decoder, /*sequence_parallel=*/true, runtime);
  EXPECT_EQ(split.forward.gathers, 2);
  EXPECT_EQ(split.backward.gathers, 2);
  EXPECT_EQ(split.backward.scatters, 2);
}

}  // namespace
}  // namespace parplan
