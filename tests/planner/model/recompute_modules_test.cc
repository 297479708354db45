#include "planner/model/recompute_modules.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/sample_layers.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using enum RecomputeModule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RecomputeModules, AreASet) {
  ASSERT_OK_AND_ASSIGN(const RecomputeModules modules,
                       RecomputeModules::Create({kExperts, kCoreAttention, kNorms}, "modules"));
  EXPECT_THAT(modules.Modules(), ElementsAre(kCoreAttention, kNorms, kExperts));
  EXPECT_EQ(modules.ToString(" "), "core_attn layernorm moe");
  EXPECT_TRUE(modules.has(kNorms));
  EXPECT_FALSE(modules.has(kFeedForward));
  EXPECT_TRUE(RecomputeModules().empty());
  EXPECT_NE(modules, RecomputeModules());
}

TEST(RecomputeModules, RefusesWhatIsNoSet) {
  const auto refused = [](const std::string& rule) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(rule));
  };
  EXPECT_THAT(RecomputeModules::Create({}, "modules"), refused("modules: must name a module"));
  EXPECT_THAT(RecomputeModules::Create({kExperts, kExperts}, "modules"),
              refused("modules: names `moe` twice"));
  EXPECT_THAT(RecomputeModules::Create({kCoreAttention}, "modules"), refused("attention alone"));
}

TEST(RecomputeModules, HaveNamesThatAreFoundAgain) {
  std::set<absl::string_view> names;
  for (int number = 1; number <= kRecomputeModuleCount; ++number) {
    const auto module = static_cast<RecomputeModule>(number);
    names.insert(RecomputeModuleName(module));
    EXPECT_EQ(FindRecomputeModule(RecomputeModuleName(module)), module);
  }
  EXPECT_EQ(names.size(), kRecomputeModuleCount);
  EXPECT_EQ(FindRecomputeModule("attn"), std::nullopt);
}

std::vector<std::string> NamesOf(const std::vector<RecomputeModules>& sets) {
  std::vector<std::string> names;
  names.reserve(sets.size());
  for (const RecomputeModules set : sets) names.push_back(set.ToString("+"));
  return names;
}

TEST(SearchedModuleSets, AreTheCheapestModulesAndAll) {
  const LayerDefinition dense = LatentLayer();
  LayerDefinition experts = dense;
  experts.expert_count = 8;
  experts.feed_forward_size = 0;
  experts.shared_expert_feed_forward_size = 64;
  EXPECT_THAT(NamesOf(SearchedModuleSets({WindowLayer(4096, 0)}, /*with_attention=*/false)),
              ElementsAre("mlp"));
  EXPECT_THAT(NamesOf(SearchedModuleSets({dense}, /*with_attention=*/true)),
              ElementsAre("layernorm+mla_up_proj", "core_attn+layernorm+mla_up_proj",
                          "layernorm+mla_up_proj+mlp", "core_attn+layernorm+mla_up_proj+mlp"));
  EXPECT_THAT(NamesOf(SearchedModuleSets({dense, experts}, /*with_attention=*/false)),
              ElementsAre("moe_act+layernorm+mla_up_proj", "layernorm+mla_up_proj+mlp+moe"));
  EXPECT_TRUE(SearchedModuleSets({OpaqueSample()}, /*with_attention=*/true).empty());
  // A recurrence has no attention to repeat.
  EXPECT_THAT(NamesOf(SearchedModuleSets({SelectiveLayer()}, /*with_attention=*/true)),
              ElementsAre("mlp"));
}

}  // namespace
}  // namespace parplan
