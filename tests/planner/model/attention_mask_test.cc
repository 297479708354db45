#include "planner/model/attention_mask.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/support/sample_layers.h"

namespace parplan {
namespace {

LayerDefinition Layer(int window, int chunk) {
  LayerDefinition layer;
  layer.attention_window = window;
  layer.attention_chunk_size = chunk;
  return layer;
}

// Counts the pairs of a query and a key one by one.
int CountedPairs(int tokens, bool causal, int window, int chunk) {
  int count = 0;
  for (int query = 0; query < tokens; ++query) {
    for (int key = 0; key < tokens; ++key) {
      if (causal && key > query) continue;
      if (window > 0 && std::abs(query - key) >= window) continue;
      if (chunk > 0 && query / chunk != key / chunk) continue;
      ++count;
    }
  }
  return count;
}

TEST(AttentionPairs, OfACausalWindowIsTheCountLessHalfTheDiagonalThatTheMaskCuts) {
  for (const int tokens : {1, 2, 7, 16, 33}) {
    EXPECT_DOUBLE_EQ(AttentionPairs(Layer(0, 0), true, tokens),
                     CountedPairs(tokens, true, 0, 0) - 0.5 * tokens);
    for (int window = 1; window <= tokens; ++window) {
      EXPECT_DOUBLE_EQ(AttentionPairs(Layer(window, 0), true, tokens),
                       CountedPairs(tokens, true, window, 0) - 0.5 * window)
          << tokens << " " << window;
    }
  }
}

TEST(AttentionPairs, OfACausalChunkIsTheCountLessHalfTheDiagonal) {
  for (const int tokens : {1, 7, 16, 33}) {
    for (int chunk = 1; chunk <= tokens; ++chunk) {
      EXPECT_DOUBLE_EQ(AttentionPairs(Layer(0, chunk), true, tokens),
                       CountedPairs(tokens, true, 0, chunk) - 0.5 * tokens);
      EXPECT_DOUBLE_EQ(AttentionPairs(Layer(0, chunk), false, tokens),
                       CountedPairs(tokens, false, 0, chunk));
    }
  }
}

TEST(AttentionPairs, OfAWindowToBothSidesIsTheCountButForItsEdges) {
  for (const int tokens : {7, 16, 33}) {
    for (int window = 1; window <= tokens; ++window) {
      EXPECT_DOUBLE_EQ(AttentionPairs(Layer(window, 0), false, tokens),
                       CountedPairs(tokens, false, window, 0) + (tokens - window));
    }
  }
}

TEST(AttentionPairs, GrowWithTheWindow) {
  for (const bool causal : {false, true}) {
    double last_window = 0.0;
    double last_chunk = 0.0;
    for (int tokens = 1; tokens <= 64; ++tokens) {
      const double window = AttentionPairs(Layer(tokens, 0), causal, 64);
      const double chunk = AttentionPairs(Layer(0, tokens), causal, 64);
      EXPECT_GT(window, last_window);
      EXPECT_GE(chunk, last_chunk);
      EXPECT_GE(window, chunk);
      last_window = window;
      last_chunk = chunk;
    }
  }
}

TEST(VisibleShare, IsExactlyOneForWindowsThatReachAllTokens) {
  for (const bool causal : {false, true}) {
    for (const int tokens : {1, 63, 4096, 1 << 20}) {
      for (const int more : {0, 1, 1000}) {
        EXPECT_EQ(VisibleShare(Layer(tokens + more, 0), causal, tokens), 1.0);
        EXPECT_EQ(VisibleShare(Layer(0, tokens + more), causal, tokens), 1.0);
      }
      EXPECT_EQ(VisibleShare(Layer(0, 0), causal, tokens), 1.0);
    }
  }
}

}  // namespace
}  // namespace parplan
