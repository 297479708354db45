// Every operation but attention, against fp64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "executor/device/kernels/mix_bits.h"
#include "tests/executor/device/cuda/kernel_twins.h"

namespace parplan {
namespace {

class KernelCases : public KernelTwinsTest {};

TEST_P(KernelCases, Memory) {
  for (const int64_t size : sizes()) {
    const Twin x = twins().Random(4 * size, 1);
    const Twin y = twins().Room(4 * size);
    // Every other element, as rows of one.
    const Twin sparse = twins().Room(4 * size);
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.Zero(at(y), size);
      kernels.CopyRows(at(x), 2 * size, at(y, size), size, 2, size);
      kernels.CopyRows(at(x), 2, at(sparse, 1), 2, size, 1);
    });
    twins().ExpectSame(y, "whole rows");
    twins().ExpectSame(sparse, "elements");
  }
}

// A plan's parameters begin the same on every device, so the numbers are equal, not near.
TEST_P(KernelCases, InitialValuesAreTheSameOnEveryDevice) {
  for (const int64_t size : sizes()) {
    const Twin part = twins().Room(3 * size);
    const Twin masters = twins().RoomForStatistics(3 * size);
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.FillNormal({.stream = 7,
                          .deviation = 0.02,
                          .column_count = size + 10,
                          .first_row = 5,
                          .first_column = 4,
                          .part_row_count = 3,
                          .part_column_count = size},
                         at(part));
      kernels.ToStatistics(at(part), at(masters), 3 * size);
    });
    twins().ExpectEqual(part, twins().type(), "parameters");
    twins().ExpectEqual(masters, twins().type(), "masters");
    const double last = NormalNumber(7, static_cast<uint64_t>(7 * (size + 10) + 4 + size - 1));
    EXPECT_EQ(twins().Exact(part).back(), last * 0.02);
  }
}

TEST_P(KernelCases, ProductsOfAllTranspositions) {
  struct Shape {
    int64_t m, n, k;
  };
  for (const Shape& shape : {Shape{5, 7, 3}, Shape{64, 48, 80}, Shape{1, 129, 65}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const bool adds : {false, true}) {
          const Twin a = twins().Random(shape.m * shape.k, 1, 0.3);
          const Twin b = twins().Random(shape.k * shape.n, 2, 0.3);
          const Twin c = twins().Random(shape.m * shape.n, 3);
          const Twin wide = twins().PutStatistics(RandomNumbers(shape.m * shape.n, 4));
          twins().Run([&](LayerKernels& kernels, auto at) {
            MatrixProduct product = {.transposes_a = ta,
                                     .transposes_b = tb,
                                     .m = shape.m,
                                     .n = shape.n,
                                     .k = shape.k,
                                     .a = at(a),
                                     .b = at(b),
                                     .c = at(c),
                                     .adds = adds};
            kernels.Multiply(product);
            product.c = at(wide);
            product.widens = true;
            kernels.Multiply(product);
          });
          twins().ExpectSame(c, "c");
          // Not rounded to 16 bits.
          twins().ExpectSame(wide, "wide", 1e-4 / twins().tolerance());
        }
      }
    }
  }
}

TEST_P(KernelCases, SumsAndBiases) {
  for (const int64_t size : sizes()) {
    // Rows for several chunks of a column's sum.
    const int64_t rows = size == 64 ? 200 : 3;
    const Twin x = twins().Random(rows * size, 1);
    const Twin y = twins().Random(rows * size, 2);
    const Twin bias = twins().Random(size, 3);
    const Twin gradient = twins().PutStatistics(RandomNumbers(size, 4));
    const Twin sum = twins().PutStatistics(RandomNumbers(size, 5));
    const Twin term = twins().PutStatistics(RandomNumbers(size, 6));
    const int64_t first = size / 4;
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.Add(at(x), at(y), rows * size);
      kernels.Scale(0.75, at(y), rows * size);
      kernels.AddBias(at(bias), at(y), rows, size);
      kernels.AddBiasToColumns(at(bias), at(y), rows, size, first, size / 2);
      kernels.AddRows(at(x), at(gradient), rows, size);
      kernels.AddColumnsOfRows(at(x), rows, size, first, size / 2, at(gradient));
      kernels.AddStatistics(at(term), at(sum), size);
    });
    twins().ExpectSame(y, "y", 2.0);
    twins().ExpectSame(gradient, "gradient", 1e-4 / twins().tolerance());
    twins().ExpectSame(sum, "sum", 1e-6 / twins().tolerance());
  }
}

// In bf16 a sum of equal terms ends at the 256th.
TEST_P(KernelCases, GradientsOfManyMicroBatchesAreAllCounted) {
  constexpr int kMicroBatches = 600;
  constexpr int64_t kSize = 8;
  const Twin ones = twins().Put(Numbers(kSize, 1.0));
  const Twin product = twins().PutStatistics(Numbers(kSize, 0.0));
  const Twin bias = twins().PutStatistics(Numbers(kSize, 0.0));
  const Twin table = twins().PutStatistics(Numbers(kSize, 0.0));
  const Twin shard = twins().PutStatistics(Numbers(kSize, 0.0));
  const Twin scattered = twins().PutStatistics(Numbers(kSize, 1.0));
  const int32_t token = 0;
  twins().Run([&](LayerKernels& kernels, auto at) {
    for (int i = 0; i < kMicroBatches; ++i) {
      kernels.Multiply({.m = kSize,
                        .n = 1,
                        .k = 1,
                        .a = at(ones),
                        .b = at(ones),
                        .c = at(product),
                        .adds = true,
                        .widens = true});
      kernels.AddRows(at(ones), at(bias), 1, kSize);
      kernels.EmbedBackward(&token, 1, at(ones), 0, 1, kSize, at(table));
      kernels.AddStatistics(at(scattered), at(shard), kSize);
    }
  });
  for (const Twin sum : {product, bias, table, shard}) {
    EXPECT_THAT(twins().Read(sum), testing::Each(kMicroBatches));
  }
}

TEST_P(KernelCases, Norms) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const int64_t size : sizes()) {
      // A single number has no deviation.
      if (size == 1) continue;
      const int64_t rows = size == 64 ? 150 : 3;
      const Twin x = twins().Random(rows * size, 1, 2.0);
      const Twin gain = twins().Random(size, 2);
      const Twin bias = twins().Random(size, 3);
      const Twin dy = twins().Random(rows * size, 4, 0.2);
      const Twin y = twins().Room(rows * size);
      const Twin kept = twins().RoomForStatistics(2 * rows);
      const Twin dx = twins().Random(rows * size, 5);
      const Twin gain_gradient = twins().PutStatistics(RandomNumbers(size, 6));
      const Twin bias_gradient = twins().PutStatistics(RandomNumbers(size, 7));
      const bool has_bias = kind == NormKind::kLayerNorm;
      twins().Run([&](LayerKernels& kernels, auto at) {
        kernels.Norm(kind, at(x), at(gain), has_bias ? at(bias) : nullptr, at(y), at(kept), rows,
                     size);
        kernels.NormBackward(kind, at(dy), at(x), at(gain), at(kept), at(dx), at(gain_gradient),
                             has_bias ? at(bias_gradient) : nullptr, rows, size);
      });
      twins().ExpectSame(y, "y");
      twins().ExpectSame(kept, "kept", 0.1);
      twins().ExpectSame(dx, "dx");
      twins().ExpectSame(gain_gradient, "gain_gradient", 2.0);
      twins().ExpectSame(bias_gradient, "bias_gradient", 2.0);
    }
  }
}

// Of all sizes, with a bias and without.
TEST_P(KernelCases, SeveralOperationsInOne) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    for (const int64_t size : sizes()) {
      // A single number has no deviation.
      if (size == 1) continue;
      const int64_t rows = size == 64 ? 150 : 3;
      const Twin bias = twins().Random(size, 1);
      const Twin gain = twins().Random(size, 2);
      const Twin norm_bias = twins().Random(size, 3);
      const Twin residual = twins().Random(rows * size, 4);
      const Twin inner = twins().Random(rows * size, 5);
      const Twin activated = twins().Room(rows * size);
      const Twin sum = twins().Random(rows * size, 6);
      const Twin plain_sum = twins().Random(rows * size, 7);
      const Twin middle = twins().Random(rows * size, 8);
      const Twin normal = twins().Room(rows * size);
      const Twin kept = twins().RoomForStatistics(2 * rows);
      const bool has_bias = kind == NormKind::kLayerNorm;
      twins().Run([&](LayerKernels& kernels, auto at) {
        kernels.AddBiasAndGelu(at(bias), at(inner), at(activated), rows, size);
        kernels.AddResidual(at(bias), at(residual), at(sum), rows, size);
        kernels.AddResidual(nullptr, at(residual), at(plain_sum), rows, size);
        kernels.AddResidualAndNorm({.kind = kind,
                                    .bias = has_bias ? at(bias) : nullptr,
                                    .residual = at(residual),
                                    .sum = at(middle),
                                    .gain = at(gain),
                                    .norm_bias = has_bias ? at(norm_bias) : nullptr,
                                    .normal = at(normal),
                                    .kept = at(kept),
                                    .row_count = rows,
                                    .row_size = size});
      });
      twins().ExpectSame(inner, "inner");
      twins().ExpectSame(activated, "activated", 2.0);
      twins().ExpectSame(sum, "sum", 2.0);
      twins().ExpectSame(plain_sum, "sum without bias");
      twins().ExpectSame(middle, "middle", 2.0);
      // Of the rounded sum.
      twins().ExpectSame(normal, "normal", 2.0);
      twins().ExpectSame(kept, "kept");
    }
  }
}

TEST_P(KernelCases, Activations) {
  for (const int64_t size : sizes()) {
    const Twin x = twins().Random(6 * size, 1, 2.0);
    const Twin dy = twins().Random(6 * size, 2);
    const Twin y = twins().Room(6 * size);
    const Twin dx = twins().Room(6 * size);
    const Twin gated = twins().Room(3 * size);
    const Twin gated_gradient = twins().Room(6 * size);
    const Twin in_place = twins().Random(6 * size, 3);
    const Twin gelu_in_place = twins().Random(6 * size, 4);
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.Gelu(at(x), at(y), 6 * size);
      kernels.GeluBackward(at(x), at(dy), at(dx), 6 * size);
      kernels.GeluBackward(at(x), at(gelu_in_place), at(gelu_in_place), 6 * size);
      kernels.Swiglu(at(x), at(gated), 3, size);
      kernels.SwigluBackward(at(x), at(dy), at(gated_gradient), 3, size);
      kernels.SwigluBackward(at(in_place), at(dy), at(in_place), 3, size);
    });
    twins().ExpectSame(y, "y");
    twins().ExpectSame(dx, "dx");
    twins().ExpectSame(gelu_in_place, "gelu in place");
    twins().ExpectSame(gated, "gated");
    twins().ExpectSame(gated_gradient, "gated gradient");
    twins().ExpectSame(in_place, "gradient in place");
  }
}

TEST_P(KernelCases, CrossEntropyOverAPartOfTheColumns) {
  for (const int64_t size : sizes()) {
    constexpr int64_t kRows = 4;
    const int64_t first = 100;
    // Before, in, at the end of, and after the columns that are here.
    const std::vector<int32_t> targets = {3, 100, static_cast<int32_t>(99 + size),
                                          static_cast<int32_t>(100 + size)};
    const Twin logits = twins().Random(kRows * size, 1, 3.0);
    const Twin largest = twins().RoomForStatistics(kRows);
    const Twin sums = twins().RoomForStatistics(2 * kRows);
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.LargestLogits(at(logits), kRows, size, at(largest));
      kernels.SumLogits(at(logits), targets.data(), at(largest), kRows, size, first, at(sums));
      kernels.LogitGradients(at(logits), targets.data(), at(largest), at(sums), 0.25, kRows, size,
                             first);
    });
    twins().ExpectSame(largest, "largest", 0.01);
    twins().ExpectSame(sums, "sums", 0.1);
    twins().ExpectSame(logits, "gradients", 0.2);
    // The losses of two micro-batches, in fp64 on every device.
    double expected = 0.0;
    for (int row = 0; row < kRows; ++row) {
      expected += std::log(twins().Exact(sums)[2 * row]) - twins().Exact(sums)[2 * row + 1];
    }
    const Twin loss = twins().RoomForLoss();
    twins().Run([&](LayerKernels& kernels, auto at) {
      for (const double factor : {0.25, 0.5}) {
        kernels.AddLosses(at(sums), factor, kRows, static_cast<double*>(at(loss)));
      }
    });
    EXPECT_NEAR(twins().Read(loss)[0], 7.0 + 0.75 * expected, 1e-4 * (1.0 + expected));
  }
}

TEST_P(KernelCases, EmbeddingsOfPartOfTheVocabulary) {
  for (const int64_t size : sizes()) {
    // More tokens than are looked at together, of a small vocabulary that is partly here.
    const int64_t count = size == 37 ? 1100 : 50;
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i % 23));
    const Twin table = twins().Random(10 * size, 1);
    const Twin y = twins().Room(count * size);
    const Twin dy = twins().Random(count * size, 2, 0.1);
    const Twin gradient = twins().PutStatistics(RandomNumbers(10 * size, 3));
    twins().Run([&](LayerKernels& kernels, auto at) {
      kernels.Embed(tokens.data(), count, at(table), 5, 10, size, at(y));
      kernels.EmbedBackward(tokens.data(), count, at(dy), 5, 10, size, at(gradient));
    });
    twins().ExpectSame(y, "y");
    twins().ExpectSame(gradient, "gradient", 2.0);
  }
}

TEST_P(KernelCases, OptimizersStepMastersAndRoundParameters) {
  constexpr int64_t kCount = 301;
  const bool has_masters = twins().type() == ElementType::kBfloat16;
  const Numbers values = RandomNumbers(kCount, 1);
  const Twin adam = twins().Put(values);
  const Twin adam_masters = twins().PutStatistics(twins().Exact(adam));
  const Twin sgd = twins().Put(values);
  const Twin sgd_masters = twins().PutStatistics(twins().Exact(sgd));
  const Twin plain = twins().Put(values);
  const Twin first = twins().PutStatistics(Numbers(kCount, 0.0));
  const Twin second = twins().PutStatistics(Numbers(kCount, 0.0));
  const Twin moments = twins().PutStatistics(Numbers(kCount, 0.0));
  for (int step = 1; step <= 3; ++step) {
    const Twin gradients = twins().PutStatistics(RandomNumbers(kCount, 10 + step));
    twins().Run([&](LayerKernels& kernels, auto at) {
      const bool uses_masters = has_masters && kernels.type() == ElementType::kBfloat16;
      kernels.AdamStep({.learning_rate = 0.1}, step, at(gradients), at(first), at(second),
                       uses_masters ? at(adam_masters) : nullptr, at(adam), kCount);
      kernels.SgdStep({.learning_rate = 0.1}, at(gradients), at(moments),
                      uses_masters ? at(sgd_masters) : nullptr, at(sgd), kCount);
      kernels.SgdStep({.learning_rate = 0.1, .momentum = 0.0}, at(gradients), nullptr, nullptr,
                      at(plain), kCount);
    });
  }
  twins().ExpectSame(adam, "adam");
  twins().ExpectSame(sgd, "sgd");
  twins().ExpectSame(plain, "plain", 2.0);
  twins().ExpectSame(first, "first moments", 0.01);
  twins().ExpectSame(second, "second moments", 0.01);
  if (!has_masters) return;
  // Masters are as exact as fp32, and parameters what they round to.
  const Numbers masters = twins().Read(adam_masters);
  const Numbers rounded = twins().Read(adam);
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(masters[i], twins().Exact(adam)[i], 1e-4);
    ASSERT_EQ(rounded[i], FromBfloat16(RoundToBfloat16(static_cast<float>(masters[i]))));
  }
}

TEST_P(KernelCases, RotationsThereAndBack) {
  const RotaryShape shape{.token_count = 5,
                          .sample_count = 2,
                          .head_count = 3,
                          .head_size = 8,
                          .first_position = 1000,
                          .row_stride = 29};
  const Twin x = twins().Random(10 * 29, 1);
  const Twin before = twins().Put(twins().Exact(x));
  twins().Run([&](LayerKernels& kernels, auto at) { kernels.Rotate(shape, false, at(x)); });
  twins().ExpectSame(x, "turned");
  twins().Run([&](LayerKernels& kernels, auto at) { kernels.Rotate(shape, true, at(x)); });
  twins().ExpectSame(x, "turned back");
  const Numbers again = twins().Read(x);
  for (size_t i = 0; i < again.size(); ++i) {
    ASSERT_NEAR(again[i], twins().Exact(before)[i], 2 * twins().tolerance() * 4.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, KernelCases, testing::ValuesIn(SubjectChoices()),
                         [](const auto& info) { return SubjectName(info.param); });

}  // namespace
}  // namespace parplan
