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

}  // namespace
}  // namespace parplan::accuracy
