#include "planner/search/space/undominated_masks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "planner/cost/cost_model.h"
#include "planner/search/space/strategy_space.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

// Everything that an option costs in plans that reshard nowhere.
std::vector<double> CostsOf(const OptionTable& table, int definition, int index) {
  const StageOption& option = table.options(definition)[index];
  std::vector<double> costs = {option.forward.value(),
                               option.backward.value(),
                               option.sync.value(),
                               option.states.as_double(),
                               option.states_in_step.as_double(),
                               option.kept.as_double(),
                               option.transient.as_double(),
                               option.step.as_double(),
                               option.bucket.as_double(),
                               static_cast<double>(option.communicator_count),
                               table.Message(definition, option.layout).as_double()};
  for (const bool leaves_node : {false, true}) {
    costs.push_back(table.Send(definition, option.layout, option.layout, leaves_node).value());
  }
  return costs;
}

bool Dominates(const OptionTable& table, const OptionLists& a, const OptionLists& b) {
  for (int definition = 0; definition < static_cast<int>(a.size()); ++definition) {
    for (const int theirs : b[definition]) {
      const std::vector<double> costs = CostsOf(table, definition, theirs);
      if (std::none_of(a[definition].begin(), a[definition].end(), [&](int ours) {
            const std::vector<double> own = CostsOf(table, definition, ours);
            return std::equal(own.begin(), own.end(), costs.begin(),
                              [](double x, double y) { return x <= y; });
          })) {
        return false;
      }
    }
  }
  return true;
}

// Random masks of one to four options for each definition, some of which occur twice, against a
// comparison of all pairs.
TEST(UndominatedMasks, AreThoseThatNoOtherDominates) {
  const PlanningProblem problem = EstimatedProblem({.device_count = 16,
                                                    .decoder_count = 4,
                                                    .hidden_size = 1024,
                                                    .attention_head_count = 16,
                                                    .sequence_length = 512,
                                                    .global_batch_size = 32,
                                                    .rules = {.allow_estimates = true}});
  const CostModel costs = *CostModel::Create(problem);
  const StrategySpace space(problem, costs);
  std::mt19937 random(11);
  int dropped_count = 0;
  int kept_count = 0;
  for (const int degree : {1, 4}) {
    const OptionTable table(problem, costs, space, degree, 8);
    ASSERT_TRUE(table.usable());
    const size_t definition_count = problem.model().layer_definitions().size();
    for (int round = 0; round < 20; ++round) {
      std::vector<OptionLists> masks;
      for (int k = 0; k < 40; ++k) {
        if (k > 0 && random() % 8 == 0) {
          masks.push_back(masks[random() % masks.size()]);
          continue;
        }
        OptionLists& mask = masks.emplace_back(definition_count);
        for (size_t definition = 0; definition < definition_count; ++definition) {
          const size_t option_count = table.options(static_cast<int>(definition)).size();
          const size_t chosen_count = random() % 3 == 0 ? 1 + random() % 4 : 1;
          for (size_t choice = 0; choice < chosen_count; ++choice) {
            mask[definition].push_back(static_cast<int>(random() % option_count));
          }
          std::sort(mask[definition].begin(), mask[definition].end());
        }
      }
      std::vector<OptionLists> expected;
      for (size_t k = 0; k < masks.size(); ++k) {
        bool is_dominated = false;
        for (size_t other = 0; other < masks.size() && !is_dominated; ++other) {
          is_dominated = other != k && Dominates(table, masks[other], masks[k]) &&
                         (other < k || !Dominates(table, masks[k], masks[other]));
        }
        if (!is_dominated) expected.push_back(masks[k]);
      }
      dropped_count += static_cast<int>(masks.size() - expected.size());
      kept_count += static_cast<int>(expected.size());
      EXPECT_EQ(UndominatedMasks(table, masks, /*works=*/nullptr), expected);
      EXPECT_TRUE(UndominatedMasks(table, masks, [](int64_t) { return false; }).empty());
    }
  }
  EXPECT_GE(dropped_count, 100);
  EXPECT_GE(kept_count, 100);
}

}  // namespace
}  // namespace parplan
