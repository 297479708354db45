#include "planner/search/stage/suffix_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace parplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The definition, written out for one cut: a run costs its first and last layer, and for all others
// the cheapest layout that it visits on its way from the one to the other.
class PlainSuffixes {
 public:
  explicit PlainSuffixes(const FrontCase& front_case)
      : front_case_(front_case), stage_(*front_case.stage) {}

  // Returns the cost of the layers after a run that ends with `layout`.
  double After(size_t run, int layout) const {
    if (run + 1 == stage_.runs.size()) return front_case_.suffix[run].cost;
    const int kind = stage_.runs[run + 1].kind;
    double least = kInfinite;
    for (int begin = 0; begin < stage_.layout_count; ++begin) {
      for (int end = 0; end < stage_.layout_count; ++end) {
        least = std::min(least, Half(kind, layout, begin) * 2.0 + OfRun(run + 1, begin, end) +
                                    After(run + 1, end));
      }
    }
    return least;
  }

 private:
  double Half(int kind, int from, int to) const {
    const int64_t move = stage_.half_resharding[kind][from * stage_.layout_count + to];
    return move < TickStage::kNever ? static_cast<double>(move) : kInfinite;
  }

  // Returns the least half moves with at most `stops` layouts on the way, each that of a layer.
  double Way(int kind, int from, int to, int stops) const {
    double least = from == to ? 0.0 : Half(kind, from, to);
    if (stops == 0) return least;
    for (int by = 0; by < stage_.layout_count; ++by) {
      if (LayerWith(kind, by) == kInfinite) continue;
      least = std::min(least, Half(kind, from, by) + Way(kind, by, to, stops - 1));
    }
    return least;
  }

  double LayerWith(int kind, int layout) const {
    double least = kInfinite;
    for (const TickStage::Option& option : front_case_.options[kind]) {
      if (option.layout == layout) {
        least = std::min(least, front_case_.cuts.front().Cost(option.cost));
      }
    }
    return least;
  }

  double OfRun(size_t run, int begin, int end) const {
    const FrontRun& layers = stage_.runs[run];
    if (layers.layer_count == 1) {
      return begin == end ? LayerWith(layers.kind, begin) : kInfinite;
    }
    double least = kInfinite;
    for (int by = 0; by < stage_.layout_count; ++by) {
      if (LayerWith(layers.kind, by) == kInfinite) continue;
      const int stops = stage_.layout_count;
      least = std::min(
          least, LayerWith(layers.kind, by) * (layers.layer_count - 2) +
                     2.0 * (Way(layers.kind, begin, by, stops) + Way(layers.kind, by, end, stops)));
    }
    return LayerWith(layers.kind, begin) + LayerWith(layers.kind, end) + least;
  }

  const FrontCase& front_case_;
  const TickStage& stage_;
};

// Runs of random kinds and lengths; some layouts have no option and some moves do not exist.
FrontStage RandomStage(std::mt19937_64& random) {
  const auto draw = [&random](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  FrontStage stage;
  stage.layout_count = 3;
  for (int kind = 0; kind < 2; ++kind) {
    FrontKind& of_kind = stage.kinds.emplace_back();
    const int options = draw(1, 4);
    for (int index = 0; index < options; ++index) {
      FrontOption& option = of_kind.options.emplace_back();
      option.option = index;
      option.layout = draw(0, 2);
      option.forward = Seconds::Of(draw(1, 20));
      option.backward = Seconds::Of(draw(1, 20));
      option.budget = Bytes::Of(1 << 20);
    }
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        of_kind.transitions.push_back(from == to        ? Seconds()
                                      : draw(0, 4) == 0 ? Seconds::Infinite()
                                                        : Seconds::Of(2 * draw(0, 15)));
      }
    }
  }
  const int runs = draw(1, 3);
  for (int run = 0; run < runs; ++run) stage.runs.push_back({draw(0, 1), draw(1, 5)});
  return stage;
}

TEST(AddSuffixCostsByLayout, AreTheCheapestWayThroughTheRunsBehind) {
  std::mt19937_64 random(20261125);
  int compared = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const FrontStage stage = RandomStage(random);
    const TickStage ticks = ToTicks(stage, {});
    FrontCase front_case;
    front_case.stage = &ticks;
    front_case.options = ticks.options;
    front_case.cuts.push_back({{1.0, 1.0, 0.0, kInfinite}, 0.0});
    front_case.suffix.resize(ticks.runs.size());
    front_case.suffix.back().cost = trial % 2 == 0 ? 0.0 : -1e6;
    AddSuffixCostsByLayout(front_case);
    const PlainSuffixes plain(front_case);
    for (size_t run = 0; run < ticks.runs.size(); ++run) {
      for (int layout = 0; layout < ticks.layout_count; ++layout) {
        const double expected = plain.After(run, layout);
        const double cost = front_case.SuffixCost(run, 0, layout);
        if (expected == kInfinite) {
          EXPECT_EQ(cost, expected);
          continue;
        }
        ++compared;
        EXPECT_NEAR(cost, expected, 1e-12 * (1.0 + std::abs(expected))) << "trial " << trial;
      }
    }
  }
  EXPECT_GT(compared, 1'000);
}

}  // namespace
}  // namespace parplan
