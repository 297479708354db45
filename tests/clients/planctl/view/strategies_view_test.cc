// Checks the output of `planctl strategies` against the tree it shows.

#include "clients/planctl/view/strategies_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/clients/planctl/view/expect_tidy.h"
#include "tests/support/shared_data.h"

namespace parplan::planctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json JsonOf(const StrategiesQuestion& question) {
  return nlohmann::json::parse(StrategiesJson(question));
}

TEST(StrategiesView, HasTheTotalsOfThePapersFor8Devices) {
  const std::string text = StrategiesText({.device_count = 8});
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr("of 8 devices: 22 strategies, 44 with recomputation\n"));
  EXPECT_THAT(text, HasSubstr("2 stages of 4 devices: 7 strategies, 14 with recomputation\n"));
  EXPECT_THAT(text, HasSubstr("  2-2*-2f        2-2*-2f-c        PP2>SDP2>TP2\n"));
  EXPECT_THAT(text, HasSubstr("52 ordered paths of equal splits; 30 are left out"));
  EXPECT_THAT(text, HasSubstr("    18  pipeline-first: "));
  EXPECT_THAT(text, HasSubstr("    12  one-kind-of-data: "));
  const nlohmann::json json = JsonOf({.device_count = 8});
  EXPECT_EQ(json["strategy_count"], 44);
  EXPECT_EQ(json["strategy_count_without_recompute"], 22);
  EXPECT_EQ(JsonOf({.device_count = 8, .recompute = false})["strategy_count"], 22);
}

TEST(StrategiesView, OnePathIsNotCalledPaths) {
  EXPECT_THAT(StrategiesText({.device_count = 1}),
              HasSubstr("\n1 ordered path of equal splits; no rule leaves any out.\n"));
}

TEST(StrategiesView, CountsWhatItLists) {
  for (const int device_count : {1, 6, 8, 12, 64}) {
    for (const bool recompute : {false, true}) {
      const nlohmann::json json = JsonOf({.device_count = device_count,
                                          .limits = {.max_tensor_parallel_degree = 8},
                                          .recompute = recompute});
      std::set<std::string> names;
      for (const nlohmann::json& stage : json["stages"]) {
        EXPECT_EQ(stage["pipeline_parallel_degree"].get<int>() * stage["rank_count"].get<int>(),
                  device_count);
        for (const nlohmann::json& strategy : stage["strategies"]) {
          names.insert(strategy["notation"].get<std::string>());
          int product = 1;
          for (const nlohmann::json& level : strategy["path"])
            product *= level["degree"].get<int>();
          EXPECT_EQ(product, device_count);
        }
      }
      EXPECT_EQ(names.size(), json["strategy_count"]);
      size_t paths = json["strategy_count_without_recompute"];
      for (const nlohmann::json& rule : json["rules"]) {
        EXPECT_EQ(rule["pruned_paths"].size(), rule["pruned_path_count"]);
        paths += rule["pruned_paths"].size();
      }
      EXPECT_EQ(paths, json["path_count"]);
    }
  }
}

TEST(StrategiesView, ShowsOnePipelineDegree) {
  const StrategiesQuestion question = {
      .device_count = 16, .recompute = false, .pipeline_parallel_degree = 4};
  EXPECT_THAT(StrategiesText(question), HasSubstr("16 devices, pipeline degree 4: 7 strategies\n"));
  const nlohmann::json json = JsonOf(question);
  ASSERT_EQ(json["stages"].size(), 1u);
  EXPECT_EQ(json["strategy_count"], 7);
  for (const nlohmann::json& strategy : json["stages"][0]["strategies"]) {
    EXPECT_EQ(strategy["path"][0]["axis"], "pipeline");
    EXPECT_EQ(strategy["path"][0]["degree"], 4);
  }
}

// 64 devices have more paths of a rule than the text lists.
TEST(StrategiesView, SaysHowManyPathsTheTextLacks) {
  const std::string text = StrategiesText({.device_count = 64});
  ExpectTidy(text);
  EXPECT_THAT(text, HasSubstr(" more (--format json)"));
  EXPECT_THAT(StrategiesText({.device_count = 8}), Not(HasSubstr("more (--format json)")));
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// docs/galvatron.md shows this picture.
TEST(StrategiesView, DrawsThePictureOfTheDocuments) {
  const std::string path = SourceDir() + "/docs/images/decision-tree-8.svg";
  std::ifstream file(path);
  const std::string drawn((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(drawn, StrategiesSvg({.device_count = 8}))
      << "planctl strategies --devices 8 --svg " << path;
}

TEST(StrategiesView, DrawsEveryStrategyAndEveryPathThatARuleLeavesOut) {
  const std::string svg = StrategiesSvg({.device_count = 8});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(CountOf(svg, "-c</text>"), 22u);
  EXPECT_EQ(CountOf(svg, ">one-kind-of-data</text>"), 12u);
  EXPECT_EQ(CountOf(svg, ">1-2*-4f, 1-2*-4f-c</text>"), 1u);
  EXPECT_THAT(svg, HasSubstr("18 more paths have a pipeline that is not first"));
}

}  // namespace
}  // namespace parplan::planctl
