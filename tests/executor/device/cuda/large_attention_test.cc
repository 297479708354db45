// Attention of the sizes that are trained, forward and backward, against fp64. On a GPU only: the
// emulation of kernels would take hours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/executor/device/cuda/kernel_twins.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::Not;

struct LargeCase {
  std::string name;
  int64_t samples;
  int64_t queries;
  int64_t keys;
  int heads;
  int key_value_heads;
  int head_size;
  bool is_causal;
  int64_t first_query = 0;
  // Whether cuDNN 9.19 has it on Hopper.
  bool is_in_cudnn = true;
};

const LargeCase kLargeCases[] = {
    {"Gpt", 1, 1024, 1024, 2, 2, 128, true},
    {"Llama", 1, 768, 768, 4, 1, 128, true},
    {"SmallHeads", 2, 512, 512, 4, 4, 64, true},
    {"Encoder", 2, 512, 512, 2, 2, 64, false},
    // No multiple of any tile.
    {"OddLength", 2, 777, 777, 2, 1, 128, true},
    // The second half of a sample meets all of it, as in context parallelism.
    {"LaterQueries", 1, 512, 1024, 2, 1, 128, true, 512},
    {"FewQueries", 1, 256, 1024, 2, 2, 64, false},
    // A mask that starts in the middle: our kernels.
    {"OtherMask", 1, 256, 512, 2, 2, 64, true, 100, false},
};

class LargeAttention : public KernelTwinsTest {};

// Rows of queries, keys and values side by side, all samples of a token together: what a layer
// has.
TEST_P(LargeAttention, OfInterleavedRowsIsRight) {
  for (const LargeCase& each : kLargeCases) {
    SCOPED_TRACE(each.name);
    KernelTwins own(subject());
    const int64_t query_width = int64_t{each.heads} * each.head_size;
    const int64_t key_width = int64_t{each.key_value_heads} * each.head_size;
    const int64_t width = query_width + 2 * key_width;
    const AttentionShape shape = {.sample_count = each.samples,
                                  .query_count = each.queries,
                                  .key_count = each.keys,
                                  .head_count = each.heads,
                                  .key_value_head_count = each.key_value_heads,
                                  .head_size = each.head_size,
                                  .is_causal = each.is_causal,
                                  .first_query = each.first_query,
                                  .query_stride = each.samples * width,
                                  .key_value_stride = each.samples * width,
                                  .output_stride = each.samples * query_width,
                                  .query_sample_stride = width,
                                  .key_value_sample_stride = width,
                                  .output_sample_stride = query_width};
    const int64_t row_count = each.samples * std::max(each.queries, each.keys);
    const int64_t output_size = each.samples * each.queries * query_width;
    const Twin projections = own.Random(row_count * width, 1);
    const Twin output = own.Room(output_size);
    const Twin kept = own.RoomForStatistics(each.samples * each.heads * each.queries);
    const Twin dy = own.Random(output_size, 2, 0.3);
    // Rows of queries that have none stay as they are.
    const Twin gradients = own.Room(row_count * width);
    const Twin more = own.Random(row_count * width, 3, 0.3);
    own.Run([&](LayerKernels& kernels, auto at) {
      const int64_t k = query_width;
      const int64_t v = query_width + key_width;
      kernels.Attention(shape, at(projections), at(projections, k), at(projections, v), at(output),
                        at(kept));
      AttentionShape backward = shape;
      kernels.AttentionBackward(backward, at(projections), at(projections, k), at(projections, v),
                                at(output), at(kept), at(dy), at(gradients), at(gradients, k),
                                at(gradients, v));
      backward.adds_gradients = true;
      kernels.AttentionBackward(backward, at(projections), at(projections, k), at(projections, v),
                                at(output), at(kept), at(dy), at(more), at(more, k), at(more, v));
    });
    own.ExpectSame(output, "output", 1.5);
    own.ExpectSame(kept, "kept");
    own.ExpectSame(gradients, "gradients", 1.5);
    own.ExpectSame(more, "added gradients", 1.5);
  }
  for (const std::string& note : subject().Notes()) std::printf("%s\n", note.c_str());
}

// The subjects that are named after cuDNN used it for every shape that it has.
TEST_P(LargeAttention, IsOfCudnnWhereItIsAskedFor) {
  if (GetParam().variant == 0) GTEST_SKIP() << "own kernels";
  for (const LargeCase& each : kLargeCases) {
    if (!each.is_in_cudnn) continue;
    SCOPED_TRACE(each.name);
    KernelTwins own(subject());
    const int64_t query_width = int64_t{each.heads} * each.head_size;
    const int64_t key_width = int64_t{each.key_value_heads} * each.head_size;
    const AttentionShape shape = {.sample_count = each.samples,
                                  .query_count = each.queries,
                                  .key_count = each.keys,
                                  .head_count = each.heads,
                                  .key_value_head_count = each.key_value_heads,
                                  .head_size = each.head_size,
                                  .is_causal = each.is_causal,
                                  .first_query = each.first_query,
                                  .query_stride = query_width,
                                  .key_value_stride = key_width,
                                  .output_stride = query_width,
                                  .query_sample_stride = each.queries * query_width,
                                  .key_value_sample_stride = each.keys * key_width,
                                  .output_sample_stride = each.queries * query_width};
    const Twin q = own.Room(each.samples * each.queries * query_width);
    const Twin k = own.Room(each.samples * each.keys * key_width);
    const Twin output = own.Room(each.samples * each.queries * query_width);
    const Twin kept = own.RoomForStatistics(each.samples * each.heads * each.queries);
    const Twin dq = own.Room(each.samples * each.queries * query_width);
    const Twin dk = own.Room(each.samples * each.keys * key_width);
    const Twin dv = own.Room(each.samples * each.keys * key_width);
    own.RunSubject([&](LayerKernels& kernels, auto at) {
      kernels.Attention(shape, at(q), at(k), at(k), at(output), at(kept));
      kernels.AttentionBackward(shape, at(q), at(k), at(k), at(output), at(kept), at(output),
                                at(dq), at(dk), at(dv));
    });
  }
  EXPECT_OK(subject().kernels().Synchronize());
  for (const std::string& note : subject().Notes()) {
    EXPECT_THAT(note, Not(HasSubstr("own kernels")));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, LargeAttention, testing::ValuesIn(SubjectChoices()),
                         [](const auto& info) { return SubjectName(info.param); });

}  // namespace
}  // namespace parplan
