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

TEST(LayersPerStage, TakesEndsFromTheirStages) {
  PublishedRun run = RunWith(6);
  run.parallelism.ends_count_as_layers = true;
  std::vector<std::string> assumptions;
  EXPECT_THAT(*LayersPerStage(run, 4, false, &assumptions), ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(*LayersPerStage(run, 8, false, &assumptions), ElementsAre(0, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(*LayersPerStage(run, 1, false, &assumptions), ElementsAre(6));
  EXPECT_THAT(assumptions, IsEmpty());
}

TEST(LayersPerStage, ReadsListsWithAndWithoutEnds) {
  PublishedRun run = RunWith(6);
  std::vector<std::string> assumptions;
  run.parallelism.layers_per_stage = {4, 2};
  EXPECT_THAT(*LayersPerStage(run, 2, false, &assumptions), ElementsAre(4, 2));
  run.parallelism.layers_per_stage = {4, 4};
  EXPECT_THAT(*LayersPerStage(run, 2, false, &assumptions), ElementsAre(3, 3));
  run.parallelism.layers_per_stage = {4, 3};
  EXPECT_THAT(LayersPerStage(run, 2, false, &assumptions).status().message(),
              HasSubstr("parallel.layers_per_stage: adds up to 7"));
  EXPECT_THAT(LayersPerStage(run, 3, false, &assumptions).status().message(),
              HasSubstr("has 2 entries for 3 stages"));
}

TEST(LayersPerStage, SaysWhenTheSplitIsAGuess) {
  std::vector<std::string> assumptions;
  EXPECT_THAT(*LayersPerStage(RunWith(5), 2, true, &assumptions), ElementsAre(3, 2));
  EXPECT_THAT(assumptions, ElementsAre(HasSubstr("5 layers do not divide into 2 stages")));
}

TEST(LayersPerStage, RefusesAnEmptyStageBetweenTheEnds) {
  std::vector<std::string> assumptions;
  EXPECT_THAT(LayersPerStage(RunWith(2), 4, false, &assumptions).status().message(),
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
  EXPECT_THAT(*LayersPerStage(run, 3, false, &assumptions), ElementsAre(3, 3, 1));
  EXPECT_THAT(LayersPerStage(run, 4, false, &assumptions).status().message(),
              HasSubstr("has 3 entries for 4 stages"));
  run.parallelism.layout = "Et*3|x|tL";
  EXPECT_THAT(LayersPerStage(run, 3, false, &assumptions).status().message(),
              HasSubstr("parallel.layout"));
  run.parallelism.layout = "embedding and 7 layers in equal stages, the last with fewer layers";
  EXPECT_THAT(*LayersPerStage(run, 3, false, &assumptions), ElementsAre(3, 3, 1));
}

}  // namespace
}  // namespace parplan::accuracy
