// Attention, forward and backward, against fp64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/executor/device/cuda/kernel_twins.h"

namespace parplan {
namespace {

struct Heads {
  int count;
  int key_value_count;
  int size;
};

// Queries token by token with all samples of a token together, keys and values sample by
// sample. `gap`: elements between rows, which nothing may touch.
AttentionShape ShapeOf(int64_t samples, int64_t queries, int64_t keys, const Heads& heads,
                       bool is_causal, int64_t first_query, int64_t gap) {
  const int64_t query_row = int64_t{heads.count} * heads.size + gap;
  const int64_t key_value_row = int64_t{heads.key_value_count} * heads.size + gap;
  return {.sample_count = samples,
          .query_count = queries,
          .key_count = keys,
          .head_count = heads.count,
          .key_value_head_count = heads.key_value_count,
          .head_size = heads.size,
          .is_causal = is_causal,
          .first_query = first_query,
          .query_stride = samples * query_row,
          .key_value_stride = key_value_row,
          .output_stride = query_row,
          .query_sample_stride = query_row,
          .key_value_sample_stride = keys * key_value_row,
          .output_sample_stride = queries * query_row};
}

struct AttentionCase {
  std::string name;
  AttentionShape shape;
};

std::vector<AttentionCase> Cases() {
  return {
      {"Encoder", ShapeOf(2, 5, 5, {2, 2, 4}, false, 0, 3)},
      {"Decoder", ShapeOf(2, 6, 6, {2, 2, 3}, true, 0, 1)},
      // Several tiles of queries and keys, whole and not.
      {"Tiles", ShapeOf(1, 130, 130, {1, 1, 16}, true, 0, 0)},
      {"TilesOfAnEncoder", ShapeOf(1, 128, 192, {1, 1, 64}, false, 0, 0)},
      {"GroupedQueries", ShapeOf(2, 70, 70, {6, 2, 32}, true, 0, 8)},
      {"LargeHeads", ShapeOf(1, 70, 66, {1, 1, 128}, true, 0, 0)},
      {"OddHeads", ShapeOf(1, 33, 33, {2, 1, 80}, true, 0, 1)},
      // Queries of a later rank, such that see no key, and no keys at all.
      {"LaterTokens", ShapeOf(1, 40, 100, {2, 2, 24}, true, 60, 0)},
      {"BeforeAllKeys", ShapeOf(1, 80, 80, {1, 1, 8}, true, -70, 0)},
      {"NoKeys", ShapeOf(1, 4, 0, {1, 1, 8}, false, 0, 0)},
  };
}

class AttentionCases : public KernelTwinsTest {};

TEST_P(AttentionCases, ForwardAndBackward) {
  for (AttentionCase& each : Cases()) {
    SCOPED_TRACE(each.name);
    const AttentionShape& shape = each.shape;
    const int64_t query_size = shape.query_count * shape.query_stride;
    const int64_t key_size = shape.sample_count * shape.key_value_sample_stride;
    const int64_t output_size = shape.sample_count * shape.output_sample_stride;
    const Twin q = twins().Random(query_size, 1);
    const Twin k = twins().Random(key_size, 2);
    const Twin v = twins().Random(key_size, 3);
    const Twin output = twins().Room(output_size);
    const Twin kept =
        twins().RoomForStatistics(shape.sample_count * shape.head_count * shape.query_count);
    const Twin dy = twins().Random(output_size, 4, 0.3);
    const Twin dq = twins().Room(query_size);
    const Twin dk = twins().Room(key_size);
    const Twin dv = twins().Room(key_size);
    const Twin more_q = twins().Random(query_size, 5, 0.3);
    const Twin more_k = twins().Random(key_size, 6, 0.3);
    const Twin more_v = twins().Random(key_size, 7, 0.3);
    twins().Run([&](LayerKernels& kernels, auto at) {
      AttentionShape own = shape;
      kernels.Attention(own, at(q), at(k), at(v), at(output), at(kept));
      kernels.AttentionBackward(own, at(q), at(k), at(v), at(output), at(kept), at(dy), at(dq),
                                at(dk), at(dv));
      own.adds_gradients = true;
      kernels.AttentionBackward(own, at(q), at(k), at(v), at(output), at(kept), at(dy), at(more_q),
                                at(more_k), at(more_v));
    });
    twins().ExpectSame(output, "output", 1.5);
    twins().ExpectSame(kept, "kept");
    twins().ExpectSame(dq, "dq", 1.5);
    twins().ExpectSame(dk, "dk", 1.5);
    twins().ExpectSame(dv, "dv", 1.5);
    twins().ExpectSame(more_q, "added dq", 1.5);
    twins().ExpectSame(more_k, "added dk", 1.5);
    twins().ExpectSame(more_v, "added dv", 1.5);
  }
}

// Attention to two halves of the keys, put together, is attention to all of them.
TEST_P(AttentionCases, MergedHalvesAreTheWhole) {
  const Heads heads = {2, 1, 24};
  const AttentionShape shape = ShapeOf(2, 20, 20, heads, false, 0, 0);
  const Twin q = twins().Random(20 * shape.query_stride, 1);
  const Twin k = twins().Random(2 * shape.key_value_sample_stride, 2);
  const Twin v = twins().Random(2 * shape.key_value_sample_stride, 3);
  const Twin output = twins().Room(2 * shape.output_sample_stride);
  const Twin part = twins().Room(2 * shape.output_sample_stride);
  const Twin whole = twins().Room(2 * shape.output_sample_stride);
  const Twin kept = twins().RoomForStatistics(80);
  const Twin part_kept = twins().RoomForStatistics(80);
  const Twin whole_kept = twins().RoomForStatistics(80);
  twins().Run([&](LayerKernels& kernels, auto at) {
    AttentionShape half = shape;
    half.key_count = 10;
    kernels.Attention(half, at(q), at(k), at(v), at(output), at(kept));
    const int64_t offset = 10 * shape.key_value_stride;
    kernels.Attention(half, at(q), at(k, offset), at(v, offset), at(part), at(part_kept));
    kernels.MergeAttention(half, at(part), at(part_kept), at(output), at(kept));
    kernels.Attention(shape, at(q), at(k), at(v), at(whole), at(whole_kept));
  });
  twins().ExpectSame(output, "merged", 1.5);
  twins().ExpectSame(kept, "merged kept");
  for (size_t i = 0; i < twins().Exact(whole).size(); ++i) {
    ASSERT_NEAR(twins().Exact(output)[i], twins().Exact(whole)[i], 1e-12);
  }
}

// The same sums in the same order every time.
TEST_P(AttentionCases, GradientsAreTheSameEveryTime) {
  const AttentionShape shape = ShapeOf(1, 70, 70, {4, 2, 16}, true, 0, 0);
  const Twin q = twins().Random(70 * shape.query_stride, 1);
  const Twin k = twins().Random(shape.key_value_sample_stride, 2);
  const Twin v = twins().Random(shape.key_value_sample_stride, 3);
  const Twin output = twins().Room(shape.output_sample_stride);
  const Twin kept = twins().RoomForStatistics(4 * 70);
  const Twin dy = twins().Random(shape.output_sample_stride, 4);
  Numbers seen[2];
  for (Numbers& gradients : seen) {
    const Twin dq = twins().Room(70 * shape.query_stride);
    const Twin dk = twins().Room(shape.key_value_sample_stride);
    const Twin dv = twins().Room(shape.key_value_sample_stride);
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.Attention(shape, at(q), at(k), at(v), at(output), at(kept));
      kernels.AttentionBackward(shape, at(q), at(k), at(v), at(output), at(kept), at(dy), at(dq),
                                at(dk), at(dv));
    });
    gradients = twins().Read(dk);
    const Numbers values = twins().Read(dv);
    gradients.insert(gradients.end(), values.begin(), values.end());
  }
  EXPECT_EQ(seen[0], seen[1]);
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionCases, testing::ValuesIn(SubjectChoices()),
                         [](const auto& info) { return SubjectName(info.param); });

}  // namespace
}  // namespace parplan
