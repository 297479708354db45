#include "planner/planners/ilp/graph_search.h"

#include <cmath>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/planners/ilp/paper_program.h"
#include "tests/planner/planners/ilp/random_graph.h"

namespace parplan {
namespace {

constexpr int kGraphCount = 300;

MATCHER_P(NearlyEquals, expected, "") {
  return std::fabs(arg - expected) <= 1e-6 * std::max(std::fabs(arg), std::fabs(expected)) + 1e-9;
}

class RandomGraphs : public testing::Test {
 protected:
  template <typename Check>
  void ForEach(unsigned first_seed, const Check& check) {
    for (unsigned seed = first_seed; seed < first_seed + kGraphCount; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937 random(seed);
      const StrategyGraph graph = RandomGraph(random);
      check(graph, random);
      if (HasFailure()) return;
    }
  }
};

TEST_F(RandomGraphs, CopiesTogetherTakeWhatTheyTakeOneByOne) {
  ForEach(1000, [](const StrategyGraph& graph, std::mt19937&) {
    std::vector<int> copied_from;
    const StrategyGraph unfolded = Unfold(graph, copied_from);
    VisitChoices(graph, [&](const GraphChoice& choice) {
      GraphChoice all;
      for (const int from : copied_from) all.push_back(choice[from]);
      const GraphTotals folded = EvaluateChoice(graph, choice);
      const GraphTotals single = EvaluateChoice(unfolded, all);
      EXPECT_THAT(folded.state_bytes, NearlyEquals(single.state_bytes));
      EXPECT_THAT(folded.kept_bytes, NearlyEquals(single.kept_bytes));
      EXPECT_THAT(folded.peak_bytes, NearlyEquals(single.peak_bytes));
      EXPECT_THAT(folded.seconds, NearlyEquals(single.seconds));
    });
  });
}

TEST_F(RandomGraphs, WeightedOptimumIsThatOfBruteForce) {
  ForEach(2000, [](const StrategyGraph& graph, std::mt19937& random) {
    const double alphas[] = {0.0, kMebibyte * 1e2, kMebibyte * 1e3, kMebibyte * 1e6};
    const double alpha = alphas[random() % 4];
    const auto answer = GraphSearch(graph, {}).SolveWeighted(alpha);
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->is_proved);
    const auto least = LeastByBruteForce(graph, [&](const GraphTotals& totals) {
      return std::optional(totals.memory_bytes() + alpha * totals.seconds);
    });
    EXPECT_THAT(answer->objective, NearlyEquals(*least));
    EXPECT_LE(answer->relaxed_bound, answer->objective);
    EXPECT_LE(answer->bound, answer->objective);
  });
}

// Rows per edge and memory on nodes, against the authors' rows per strategy and memory on edges.
TEST_F(RandomGraphs, TheFormOfTheAuthorsHasTheSameOptimum) {
  int weaker = 0;
  ForEach(2500, [&](const StrategyGraph& graph, std::mt19937& random) {
    const double alphas[] = {0.0, kMebibyte * 1e2, kMebibyte * 1e3};
    const double alpha = alphas[random() % 3];
    const auto ours = GraphSearch(graph, {}).SolveWeighted(alpha);
    const auto theirs = SolvePaperProgram(graph, alpha);
    ASSERT_TRUE(ours.has_value() && theirs.has_value());
    EXPECT_THAT(ours->objective, NearlyEquals(theirs->objective));
    // The choice has the value that the program says, by plain sums.
    const GraphTotals totals = EvaluateChoice(graph, theirs->choice);
    EXPECT_THAT(totals.memory_bytes() + alpha * totals.seconds, NearlyEquals(theirs->objective));
    EXPECT_LE(theirs->relaxed_objective, ours->relaxed_bound * (1.0 + 1e-6) + 1.0);
    weaker += theirs->relaxed_objective < ours->relaxed_bound * (1.0 - 1e-6) ? 1 : 0;
  });
  // Why ours has rows per edge.
  EXPECT_GT(weaker, kGraphCount / 10);
}

TEST_F(RandomGraphs, LexicographicOptimumIsThatOfBruteForce) {
  ForEach(3000, [](const StrategyGraph& graph, std::mt19937&) {
    const auto answer = GraphSearch(graph, {}).SolveLexicographic();
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->is_proved);
    const auto memory = LeastByBruteForce(
        graph, [](const GraphTotals& totals) { return std::optional(totals.memory_bytes()); });
    EXPECT_THAT(answer->objective, NearlyEquals(*memory));
    const auto seconds =
        LeastByBruteForce(graph, [&](const GraphTotals& totals) -> std::optional<double> {
          if (totals.memory_bytes() > *memory * (1.0 + 1e-9) + 1.0) return std::nullopt;
          return totals.seconds;
        });
    EXPECT_THAT(answer->totals.seconds, NearlyEquals(*seconds));
  });
}

TEST_F(RandomGraphs, SlackBuysTime) {
  ForEach(4000, [](const StrategyGraph& graph, std::mt19937&) {
    GraphSearch search(graph, {});
    const auto tight = search.SolveLexicographic();
    const auto loose = search.SolveLexicographic(0.2);
    ASSERT_TRUE(tight.has_value() && loose.has_value());
    EXPECT_LE(loose->totals.seconds, tight->totals.seconds + 1e-9);
    const double allowed = tight->totals.memory_bytes() * 1.2;
    EXPECT_LE(loose->totals.memory_bytes(), allowed * (1.0 + 1e-6) + 1.0);
    const auto seconds =
        LeastByBruteForce(graph, [&](const GraphTotals& totals) -> std::optional<double> {
          if (totals.memory_bytes() > allowed * (1.0 + 1e-9) + 1.0) return std::nullopt;
          return totals.seconds;
        });
    EXPECT_THAT(loose->totals.seconds, NearlyEquals(*seconds));
  });
}

TEST_F(RandomGraphs, CapHoldsWhereverABackwardPassRuns) {
  ForEach(5000, [](const StrategyGraph& graph, std::mt19937& random) {
    const auto peak = [](const GraphTotals& totals) { return std::optional(totals.peak_bytes); };
    const double least = *LeastByBruteForce(graph, peak);
    // From below the least to well above. Odd, so that it is no sum of whole MiB.
    const double cap = least * (0.9 + 0.1 * static_cast<double>(random() % 6)) + 77777.0;
    GraphSearch search(graph, {});
    const auto within = [&](const GraphTotals& totals) { return totals.peak_bytes <= cap; };
    const auto seconds =
        LeastByBruteForce(graph, [&](const GraphTotals& totals) -> std::optional<double> {
          return within(totals) ? std::optional(totals.seconds) : std::nullopt;
        });
    const auto fastest = search.SolveLeastTime(cap);
    ASSERT_EQ(fastest.has_value(), seconds.has_value()) << "cap " << cap << " least " << least;
    if (!seconds) return;
    EXPECT_THAT(fastest->totals.seconds, NearlyEquals(*seconds));
    EXPECT_TRUE(fastest->is_proved);
    EXPECT_TRUE(within(fastest->totals));
    const auto memory =
        LeastByBruteForce(graph, [&](const GraphTotals& totals) -> std::optional<double> {
          return within(totals) ? std::optional(totals.memory_bytes()) : std::nullopt;
        });
    const auto smallest = search.SolveLexicographic(0.0, cap);
    ASSERT_TRUE(smallest.has_value());
    EXPECT_THAT(smallest->objective, NearlyEquals(*memory));
    EXPECT_TRUE(within(smallest->totals));
  });
}

TEST_F(RandomGraphs, LargerAlphaIsNeverSlowerNorSmaller) {
  ForEach(6000, [](const StrategyGraph& graph, std::mt19937&) {
    GraphSearch search(graph, {});
    GraphTotals before;
    bool first = true;
    for (double alpha = kMebibyte; alpha < kMebibyte * 1e7; alpha *= 7.0) {
      const auto answer = search.SolveWeighted(alpha);
      ASSERT_TRUE(answer.has_value());
      if (!first) {
        EXPECT_LE(answer->totals.seconds, before.seconds + 1e-9);
        EXPECT_GE(answer->totals.memory_bytes(), before.memory_bytes() - 1.0);
      }
      before = answer->totals;
      first = false;
    }
    const auto smallest = search.SolveLexicographic();
    EXPECT_LE(smallest->totals.memory_bytes(), before.memory_bytes() + 1.0);
    EXPECT_GE(smallest->totals.seconds, search.SolveLeastTime()->totals.seconds - 1e-9);
  });
}

TEST_F(RandomGraphs, LimitOfNodesEndsOneSolveAlone) {
  int unproved = 0;
  ForEach(8000, [&](const StrategyGraph& graph, std::mt19937&) {
    const double least = *LeastByBruteForce(
        graph, [](const GraphTotals& totals) { return std::optional(totals.peak_bytes); });
    GraphSearch search(graph, {.max_node_count = 1});
    const auto within = search.SolveLeastTime(least * 1.1 + 77777.0);
    unproved += within && within->is_proved ? 0 : 1;
    EXPECT_FALSE(search.stopped());
    EXPECT_TRUE(search.SolveLexicographic().has_value());
  });
  EXPECT_GT(unproved, 0);
}

TEST_F(RandomGraphs, DroppedOptionsAreNotMissed) {
  ForEach(7000, [](const StrategyGraph& graph, std::mt19937& random) {
    StrategyGraph fewer = graph;
    DropDominatedOptions(fewer);
    const double weight = static_cast<double>(random() % 1000);
    const auto value = [&](const GraphTotals& totals) {
      return std::optional(totals.memory_bytes() / kMebibyte + weight * totals.seconds +
                           0.3 * totals.peak_bytes / kMebibyte);
    };
    EXPECT_THAT(*LeastByBruteForce(fewer, value), NearlyEquals(*LeastByBruteForce(graph, value)));
  });
}

// Two nodes and what lies between, by hand: alone each is smallest under its first
// option, but together that keeps a second copy.
StrategyGraph HandWorked() {
  StrategyGraph graph;
  for (int v = 0; v < 2; ++v) {
    GraphNode node;
    node.options = {{"a", 10.0 * kMebibyte, 5.0 * kMebibyte, 1.0 * kMebibyte, 2e-3},
                    {"b", 12.0 * kMebibyte, 5.0 * kMebibyte, 9.0 * kMebibyte, 1e-3}};
    graph.nodes.push_back(node);
  }
  GraphEdge edge;
  edge.from = 0;
  edge.to = 1;
  edge.from_class = {0, 1};
  edge.to_class = {1, 0};
  edge.from_class_count = edge.to_class_count = 2;
  edge.seconds = {0.0, 4e-3, 4e-3, 0.0};
  edge.kept_bytes = {0.0, 8.0 * kMebibyte, 8.0 * kMebibyte, 0.0};
  graph.edges.push_back(edge);
  return graph;
}

TEST(GraphSearch, AvoidsTheSecondCopy) {
  const StrategyGraph graph = HandWorked();
  GraphSearch search(graph, {});
  const auto answer = search.SolveLexicographic();
  ASSERT_TRUE(answer.has_value());
  // a and b, either way: 22 of states and 10 kept.
  EXPECT_NEAR(answer->objective / kMebibyte, 32.0, 1e-6);
  EXPECT_NEAR(answer->totals.seconds, 3e-3, 1e-12);
  // Live at the first node 22 + 5 and its transient, at the second 22 + 10.
  const double first_is_a = answer->choice[0] == 0;
  EXPECT_NEAR(answer->totals.peak_bytes / kMebibyte, first_is_a ? 41.0 : 36.0, 1e-6);
}

TEST(GraphSearch, CapForcesTheOrderThatPeaksLess) {
  const StrategyGraph graph = HandWorked();
  GraphSearch search(graph, {});
  const auto answer = search.SolveLeastTime(36.5 * kMebibyte);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->choice, (GraphChoice{1, 0}));
  EXPECT_FALSE(search.SolveLeastTime(30.0 * kMebibyte).has_value());
  EXPECT_FALSE(search.stopped());
  // The cap is gone with the next question.
  EXPECT_TRUE(search.SolveLeastTime().has_value());
}

TEST(GraphSearch, SaysThatItWasStopped) {
  const StrategyGraph graph = HandWorked();
  GraphSearch search(graph, {.max_iteration_count = 0, .should_stop = [] { return true; }});
  EXPECT_FALSE(search.SolveLexicographic().has_value());
  EXPECT_TRUE(search.stopped());
}

}  // namespace
}  // namespace parplan
