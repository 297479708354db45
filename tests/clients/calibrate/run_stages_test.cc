#include "clients/calibrate/run_stages.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan::accuracy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PublishedRun RunWith(int layer_count) {
  PublishedRun run;
  run.model.layer_count = layer_count;
  return run;
}

TEST(SplitLayers, LosesNoneAndLeavesNoStageBeforeTheLastEmpty) {
  for (int layers = 1; layers < 120; ++layers) {
    for (int stages = 1; stages <= std::min(layers, 64); ++stages) {
      for (const bool from_front : {false, true}) {
        const std::vector<int> split = SplitLayers(layers, stages, from_front);
        ASSERT_THAT(split, SizeIs(stages));
        EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
        EXPECT_GE(*std::min_element(split.begin(), split.end() - 1 + (stages == 1)), 1);
        EXPECT_TRUE(std::is_sorted(split.rbegin(), split.rend()));
        EXPECT_EQ(split.front(), (layers + stages - 1) / stages);
      }
    }
  }
}

TEST(SplitLayers, FillsFromTheFrontOrSpreads) {
  EXPECT_THAT(SplitLayers(10, 4, true), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(SplitLayers(10, 4, false), ElementsAre(3, 3, 2, 2));
}

// nanotron, models/base.py: 32 layers of 4 x 4096^2 + 3 x 4096 x 14336 elements and a head of
// 131072 x 4096 are 34.2 layers, so the first of 4 stages ends with the layer that exceeds 8.6.
TEST(SplitLayersByCost, TakesTheLayerThatExceedsAShare) {
  const auto split = [](int stages) {
    return SplitLayersByCost(32, stages, 4096.0 * (4 * 4096 + 3 * 14336), 4096.0 * 131072);
  };
  EXPECT_THAT(split(1), ElementsAre(32));
  EXPECT_THAT(split(2), ElementsAre(18, 14));
  EXPECT_THAT(split(4), ElementsAre(9, 9, 8, 6));
  EXPECT_THAT(split(8), ElementsAre(5, 4, 4, 5, 4, 4, 4, 2));
  // A head as large as four layers of sixteen: an equal share is not exceeded.
  EXPECT_THAT(SplitLayersByCost(16, 2, 1.0, 4.0), ElementsAre(11, 5));
  // The rule leaves the seventh stage nothing.
  EXPECT_THAT(SplitLayersByCost(16, 8, 1.0, 4.0), ElementsAre(3, 3, 2, 3, 2, 2, 1, 0));
  // Fewer layers than stages before the last.
  EXPECT_THAT(SplitLayersByCost(2, 4, 1.0, 1.0), ElementsAre(1, 1, 0, 0));
}

TEST(SplitLayersByCost, LosesNoneAndALargerHeadTakesNoneFromTheFront) {
  for (int layers = 1; layers < 100; ++layers) {
    for (int stages = 1; stages <= std::min(layers, 64); ++stages) {
      int front = 0;
      for (const double head : {0.0, 0.5, 1.0, 2.2, 4.0, 10.0}) {
        const std::vector<int> split = SplitLayersByCost(layers, stages, 1.0, head);
        ASSERT_THAT(split, SizeIs(stages));
        EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
        EXPECT_GE(*std::min_element(split.begin(), split.end() - 1 + (stages == 1)), 1);
        if (stages == 2) {
          EXPECT_GE(split.front(), front);
        }
        front = split.front();
      }
    }
  }
}

TEST(LayersPerStage, SplitsByCost) {
  PublishedRun run = RunWith(32);
  run.model.hidden_size = 4096;
  run.model.feed_forward_size = 14336;
  run.model.vocabulary_size = 131072;
  std::vector<std::string> assumptions;
  EXPECT_THAT(*LayersPerStage(run, 4, StageSplit::kByCost, &assumptions), ElementsAre(9, 9, 8, 6));
  EXPECT_THAT(assumptions, ElementsAre(HasSubstr("(9, 9, 8, 6)")));
  run.parallelism.layers_per_stage = {8, 8, 8, 8};
  EXPECT_THAT(*LayersPerStage(run, 4, StageSplit::kByCost, &assumptions), ElementsAre(8, 8, 8, 8));
}

TEST(LayersPerStage, TakesEndsFromTheirStages) {
  PublishedRun run = RunWith(6);
  run.parallelism.ends_count_as_layers = true;
  std::vector<std::string> assumptions;
  EXPECT_THAT(*LayersPerStage(run, 4, StageSplit::kEven, &assumptions), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(*LayersPerStage(run, 8, StageSplit::kEven, &assumptions),
              ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(*LayersPerStage(run, 1, StageSplit::kEven, &assumptions), ElementsAre(6));
  EXPECT_THAT(assumptions, IsEmpty());
}

TEST(LayersPerStage, ReadsListsWithAndWithoutEnds) {
  PublishedRun run = RunWith(6);
  std::vector<std::string> assumptions;
  run.parallelism.layers_per_stage = {4, 2};
  EXPECT_THAT(*LayersPerStage(run, 2, StageSplit::kEven, &assumptions), ElementsAre(4, 2));
  run.parallelism.layers_per_stage = {4, 4};
  EXPECT_THAT(*LayersPerStage(run, 2, StageSplit::kEven, &assumptions), ElementsAre(3, 3));
  run.parallelism.layers_per_stage = {4, 3};
  EXPECT_THAT(LayersPerStage(run, 2, StageSplit::kEven, &assumptions).status().message(),
              HasSubstr("parallel.layers_per_stage: adds up to 7"));
  EXPECT_THAT(LayersPerStage(run, 3, StageSplit::kEven, &assumptions).status().message(),
              HasSubstr("has 2 entries for 3 stages"));
}

TEST(LayersPerStage, SaysWhenTheSplitIsAGuess) {
  std::vector<std::string> assumptions;
  EXPECT_THAT(*LayersPerStage(RunWith(5), 2, StageSplit::kFromFront, &assumptions),
              ElementsAre(3, 2));
  EXPECT_THAT(assumptions, ElementsAre(HasSubstr("5 layers do not divide into 2 stages")));
}

TEST(LayersPerStage, RefusesAnEmptyStageBetweenTheEnds) {
  std::vector<std::string> assumptions;
  EXPECT_THAT(LayersPerStage(RunWith(2), 4, StageSplit::kEven, &assumptions).status().message(),
              HasSubstr("without layers"));
}

// Megatron's words: the embedding and four layers, fourteen stages of four, and the last with one,
// a layer that predicts a further token, and the loss.
TEST(LayersOfLayout, ReadsTheWordsOfMegatron) {
  std::vector<int> expected(16, 4);
  expected.back() = 1;
  EXPECT_EQ(LayersOfLayout("Et*4|(t*4|)*14tmL"), expected);
  EXPECT_THAT(*LayersOfLayout("Ett|t(t|)*2L"), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(*LayersOfLayout("((t*2|)*2t|)*2tL"), ElementsAre(2, 2, 1, 2, 2, 1, 1));
  for (const char* broken : {"Et*|L", "E(t|L", "Et)|L", "Ex|L", "t*99999|L", "Et*0|L"}) {
    EXPECT_FALSE(LayersOfLayout(broken).has_value()) << broken;
  }
}

TEST(LayersPerStage, TakesThoseOfTheLayout) {
  PublishedRun run = RunWith(7);
  std::vector<std::string> assumptions;
  run.parallelism.layout = "Et*3|t*3|tL";
  EXPECT_THAT(*LayersPerStage(run, 3, StageSplit::kEven, &assumptions), ElementsAre(3, 3, 1));
  EXPECT_THAT(LayersPerStage(run, 4, StageSplit::kEven, &assumptions).status().message(),
              HasSubstr("has 3 entries for 4 stages"));
  run.parallelism.layout = "Et*3|x|tL";
  EXPECT_THAT(LayersPerStage(run, 3, StageSplit::kEven, &assumptions).status().message(),
              HasSubstr("parallel.layout"));
  run.parallelism.layout = "embedding and 7 layers in equal stages, the last with fewer layers";
  EXPECT_THAT(*LayersPerStage(run, 3, StageSplit::kEven, &assumptions), ElementsAre(3, 3, 1));
}

}  // namespace
}  // namespace parplan::accuracy
