#include "planner/search/space/allowed_options.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace parplan {
namespace {

// Masks of all lengths around a multiple of eight, from empty to full.
TEST(AllowedOptions, AreVisitedOnceEachAscending) {
  std::mt19937 random(7);
  for (int size = 0; size <= 41; ++size) {
    for (const int share : {0, 1, 20, 100}) {
      std::vector<char> allowed(size);
      std::vector<int> expected;
      for (int k = 0; k < size; ++k) {
        // A mask says yes by anything but 0.
        allowed[k] = static_cast<int>(random() % 100) < share ? static_cast<char>(k % 2 + 1) : 0;
        if (allowed[k] != 0) expected.push_back(k);
      }
      std::vector<int> visited;
      ForEachAllowed(allowed, [&visited](int k) { visited.push_back(k); });
      EXPECT_EQ(visited, expected);
    }
    for (int only = 0; only < size; ++only) {
      std::vector<char> allowed(size);
      allowed[only] = 1;
      std::vector<int> visited;
      ForEachAllowed(allowed, [&visited](int k) { visited.push_back(k); });
      EXPECT_EQ(visited, std::vector<int>{only});
    }
  }
}

}  // namespace
}  // namespace parplan
