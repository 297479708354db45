#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/device/kernels/layer_kernels.h"
#include "tests/executor/device/kernels/gradient_check.h"

namespace parplan {
namespace {

struct Case {
  std::string name;
  AttentionShape shape;
};

// Queries token by token with all samples of a token together, keys, values and outputs
// sample by sample; rows have room between them.
Case Make(std::string name, int64_t samples, int64_t queries, int64_t keys, int heads,
          int key_value_heads, int head_size, bool is_causal, int64_t first_query = 0) {
  const int64_t query_row = int64_t{heads} * head_size + 3;
  const int64_t key_value_row = int64_t{key_value_heads} * head_size + 2;
  const int64_t output_row = int64_t{heads} * head_size + 1;
  return {std::move(name),
          {.sample_count = samples,
           .query_count = queries,
           .key_count = keys,
           .head_count = heads,
           .key_value_head_count = key_value_heads,
           .head_size = head_size,
           .is_causal = is_causal,
           .first_query = first_query,
           .query_stride = samples * query_row,
           .key_value_stride = key_value_row,
           .output_stride = output_row,
           .query_sample_stride = query_row,
           .key_value_sample_stride = keys * key_value_row,
           .output_sample_stride = queries * output_row}};
}

class AttentionTest : public testing::TestWithParam<Case> {
 protected:
  AttentionTest()
      : shape(GetParam().shape),
        q(RandomNumbers(shape.query_count * shape.query_stride, 1)),
        k(RandomNumbers(shape.sample_count * shape.key_value_sample_stride, 2)),
        v(RandomNumbers(shape.sample_count * shape.key_value_sample_stride, 3)),
        output(shape.sample_count * shape.output_sample_stride, 0.0),
        kept(shape.sample_count * shape.head_count * shape.query_count) {}

  double QueryAt(int64_t sample, int64_t i, int head, int d) const {
    return q[sample * shape.query_sample_stride + i * shape.query_stride + head * shape.head_size +
             d];
  }
  double KeyValueAt(const Numbers& from, int64_t sample, int64_t j, int head, int d) const {
    const int shared = head / (shape.head_count / shape.key_value_head_count);
    return from[sample * shape.key_value_sample_stride + j * shape.key_value_stride +
                shared * shape.head_size + d];
  }
  bool Sees(int64_t i, int64_t j) const { return !shape.is_causal || j <= i + shape.first_query; }

  const AttentionShape shape;
  Numbers q, k, v, output, kept;
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat64);
};

// Written out.
TEST_P(AttentionTest, IsItsDefinition) {
  kernels->Attention(shape, q.data(), k.data(), v.data(), output.data(), kept.data());
  for (int64_t s = 0; s < shape.sample_count; ++s) {
    for (int head = 0; head < shape.head_count; ++head) {
      for (int64_t i = 0; i < shape.query_count; ++i) {
        std::vector<double> weights(shape.key_count, 0.0);
        double sum = 0.0;
        for (int64_t j = 0; j < shape.key_count; ++j) {
          if (!Sees(i, j)) continue;
          double score = 0.0;
          for (int d = 0; d < shape.head_size; ++d) {
            score += QueryAt(s, i, head, d) * KeyValueAt(k, s, j, head, d);
          }
          weights[j] = std::exp(score / std::sqrt(shape.head_size));
          sum += weights[j];
        }
        for (int d = 0; d < shape.head_size; ++d) {
          double expected = 0.0;
          for (int64_t j = 0; j < shape.key_count; ++j) {
            if (sum > 0.0) expected += weights[j] / sum * KeyValueAt(v, s, j, head, d);
          }
          ASSERT_NEAR(output[(s * shape.query_count + i) * shape.output_stride +
                             head * shape.head_size + d],
                      expected, 1e-12);
        }
      }
    }
  }
}

TEST_P(AttentionTest, GradientsAreSlopes) {
  const Numbers dy = RandomNumbers(static_cast<int64_t>(output.size()), 4);
  const auto loss = [&] {
    kernels->Attention(shape, q.data(), k.data(), v.data(), output.data(), kept.data());
    // Only of what belongs to a head.
    double sum = 0.0;
    for (int64_t row = 0; row < shape.sample_count * shape.query_count; ++row) {
      for (int64_t c = 0; c < int64_t{shape.head_count} * shape.head_size; ++c) {
        sum += output[row * shape.output_stride + c] * dy[row * shape.output_stride + c];
      }
    }
    return sum;
  };
  loss();
  Numbers dq(q.size(), 0.0), dk(k.size(), 0.0), dv(v.size(), 0.0);
  kernels->AttentionBackward(shape, q.data(), k.data(), v.data(), output.data(), kept.data(),
                             dy.data(), dq.data(), dk.data(), dv.data());
  ExpectGradient(q, dq, loss, "dq");
  ExpectGradient(k, dk, loss, "dk");
  ExpectGradient(v, dv, loss, "dv");
}

TEST_P(AttentionTest, SinglePrecisionIsClose) {
  kernels->Attention(shape, q.data(), k.data(), v.data(), output.data(), kept.data());
  const auto single = MakeCpuKernels(ElementType::kFloat32);
  const std::vector<float> q32(q.begin(), q.end()), k32(k.begin(), k.end()),
      v32(v.begin(), v.end());
  std::vector<float> output32(output.size(), 0.0f), kept32(kept.size());
  single->Attention(shape, q32.data(), k32.data(), v32.data(), output32.data(), kept32.data());
  for (size_t i = 0; i < output.size(); ++i) ASSERT_NEAR(output32[i], output[i], 5e-6);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Make("Encoder", 2, 5, 5, 2, 2, 4, false),
                                         Make("Decoder", 2, 6, 6, 2, 2, 3, true),
                                         // More than a block of queries.
                                         Make("Blocks", 1, 70, 70, 1, 1, 2, true),
                                         Make("GroupedQueries", 1, 4, 4, 6, 2, 2, true),
                                         Make("CrossAttention", 2, 3, 7, 2, 1, 3, false),
                                         // Queries of a later rank, and such that see no key.
                                         Make("LaterTokens", 1, 3, 7, 2, 2, 3, true, 4),
                                         Make("BeforeAllKeys", 1, 5, 5, 1, 1, 3, true, -2)),
                         [](const auto& info) { return info.param.name; });

// Keys one set after the other, as they come round in a ring.
TEST(MergeAttention, KeysInTwoSetsAreAttendedToAsOne) {
  constexpr int64_t kSamples = 2, kQueries = 4, kFirst = 6, kKeys = 10;
  const auto kernels = MakeCpuKernels(ElementType::kFloat64);
  // Queries are the last tokens, token by token.
  const int64_t row = 4 * 3, key_row = 2 * 3;
  const AttentionShape whole{.sample_count = kSamples,
                             .query_count = kQueries,
                             .key_count = kKeys,
                             .head_count = 4,
                             .key_value_head_count = 2,
                             .head_size = 3,
                             .is_causal = true,
                             .first_query = kFirst,
                             .query_stride = kSamples * row,
                             .key_value_stride = kSamples * key_row,
                             .output_stride = kSamples * row,
                             .query_sample_stride = row,
                             .key_value_sample_stride = key_row,
                             .output_sample_stride = row};
  AttentionShape early = whole;
  early.key_count = kFirst;
  early.is_causal = false;
  AttentionShape late = whole;
  late.key_count = kKeys - kFirst;
  late.first_query = 0;
  const int64_t late_keys = kFirst * kSamples * key_row;
  const Numbers q = RandomNumbers(kQueries * kSamples * row, 1);
  const Numbers k = RandomNumbers(kKeys * kSamples * key_row, 2);
  const Numbers v = RandomNumbers(kKeys * kSamples * key_row, 3);
  const Numbers dy = RandomNumbers(kQueries * kSamples * row, 4);
  Numbers output(q.size()), kept(kSamples * 4 * kQueries), part(q.size()), part_kept(kept.size()),
      merged(q.size()), merged_kept(kept.size());
  kernels->Attention(whole, q.data(), k.data(), v.data(), output.data(), kept.data());
  kernels->Attention(late, q.data(), &k[late_keys], &v[late_keys], merged.data(),
                     merged_kept.data());
  kernels->Attention(early, q.data(), k.data(), v.data(), part.data(), part_kept.data());
  kernels->MergeAttention(early, part.data(), part_kept.data(), merged.data(), merged_kept.data());
  for (size_t i = 0; i < output.size(); ++i) ASSERT_NEAR(merged[i], output[i], 1e-13);
  for (size_t i = 0; i < kept.size(); ++i) ASSERT_NEAR(merged_kept[i], kept[i], 1e-13);

  // Gradients of all keys at once, and added up set by set on what was there.
  Numbers dq(q.size()), dk(k.size()), dv(v.size());
  kernels->AttentionBackward(whole, q.data(), k.data(), v.data(), output.data(), kept.data(),
                             dy.data(), dq.data(), dk.data(), dv.data());
  Numbers dq2(q.size(), 0.5), dk2(k.size(), 0.5), dv2(v.size(), 0.5);
  late.adds_gradients = early.adds_gradients = true;
  kernels->AttentionBackward(late, q.data(), &k[late_keys], &v[late_keys], output.data(),
                             kept.data(), dy.data(), dq2.data(), &dk2[late_keys], &dv2[late_keys]);
  kernels->AttentionBackward(early, q.data(), k.data(), v.data(), output.data(), kept.data(),
                             dy.data(), dq2.data(), dk2.data(), dv2.data());
  for (size_t i = 0; i < dq.size(); ++i) ASSERT_NEAR(dq2[i] - 0.5, dq[i], 1e-13);
  for (size_t i = 0; i < dk.size(); ++i) ASSERT_NEAR(dk2[i] - 0.5, dk[i], 1e-13);
  for (size_t i = 0; i < dv.size(); ++i) ASSERT_NEAR(dv2[i] - 0.5, dv[i], 1e-13);
}

}  // namespace
}  // namespace parplan
