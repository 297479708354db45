// Kernels on the processor against definitions written out, their gradients against
// differences, and fp32 against fp64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "executor/device/kernels/cpu_math.h"
#include "executor/device/kernels/layer_kernels.h"
#include "tests/executor/device/kernels/gradient_check.h"

namespace parplan {
namespace {

class Kernels : public testing::Test {
 protected:
  const std::unique_ptr<LayerKernels> exact = MakeCpuKernels(ElementType::kFloat64);
  const std::unique_ptr<LayerKernels> single = MakeCpuKernels(ElementType::kFloat32);
};

std::vector<float> Floats(const Numbers& numbers) {
  return std::vector<float>(numbers.begin(), numbers.end());
}

void ExpectClose(const std::vector<float>& actual, const Numbers& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1.0 + std::abs(expected[i]))) << i;
  }
}

TEST_F(Kernels, ThereAreNoneForOtherTypes) {
  EXPECT_EQ(MakeCpuKernels(ElementType::kBfloat16), nullptr);
  EXPECT_EQ(MakeCpuKernels(ElementType::kByte), nullptr);
  EXPECT_EQ(exact->type(), ElementType::kFloat64);
  EXPECT_EQ(single->type(), ElementType::kFloat32);
}

TEST_F(Kernels, ProductsOfAllTranspositions) {
  constexpr int64_t kM = 5, kN = 7, kK = 3;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool adds : {false, true}) {
        const Numbers a = RandomNumbers(kM * kK, 1);
        const Numbers b = RandomNumbers(kK * kN, 2);
        Numbers c = RandomNumbers(kM * kN, 3);
        Numbers expected = adds ? c : Numbers(kM * kN, 0.0);
        for (int64_t i = 0; i < kM; ++i) {
          for (int64_t j = 0; j < kN; ++j) {
            for (int64_t l = 0; l < kK; ++l) {
              expected[i * kN + j] +=
                  (ta ? a[l * kM + i] : a[i * kK + l]) * (tb ? b[j * kK + l] : b[l * kN + j]);
            }
          }
        }
        std::vector<float> c32 = Floats(c);
        const std::vector<float> a32 = Floats(a), b32 = Floats(b);
        MatrixProduct product{.transposes_a = ta,
                              .transposes_b = tb,
                              .m = kM,
                              .n = kN,
                              .k = kK,
                              .a = a.data(),
                              .b = b.data(),
                              .c = c.data(),
                              .adds = adds};
        exact->Multiply(product);
        product.a = a32.data();
        product.b = b32.data();
        product.c = c32.data();
        single->Multiply(product);
        for (int64_t i = 0; i < kM * kN; ++i) ASSERT_NEAR(c[i], expected[i], 1e-14);
        ExpectClose(c32, expected, 1e-6);
      }
    }
  }
}

TEST_F(Kernels, NormsHaveTheMomentsTheyAreNamedFor) {
  constexpr int64_t kRows = 3, kSize = 37;
  const Numbers x = RandomNumbers(kRows * kSize, 4, 3.0);
  const Numbers gain(kSize, 1.0), bias(kSize, 0.0);
  Numbers y(kRows * kSize), kept(2 * kRows);
  exact->Norm(NormKind::kLayerNorm, x.data(), gain.data(), bias.data(), y.data(), kept.data(),
              kRows, kSize);
  for (int64_t row = 0; row < kRows; ++row) {
    const Numbers part(y.begin() + row * kSize, y.begin() + (row + 1) * kSize);
    EXPECT_NEAR(Dot(part, gain), 0.0, 1e-12);
    EXPECT_NEAR(Dot(part, part) / kSize, 1.0, 1e-5);
  }
  exact->Norm(NormKind::kRmsNorm, x.data(), gain.data(), nullptr, y.data(), kept.data(), kRows,
              kSize);
  for (int64_t row = 0; row < kRows; ++row) {
    const Numbers part(y.begin() + row * kSize, y.begin() + (row + 1) * kSize);
    EXPECT_NEAR(Dot(part, part) / kSize, 1.0, 1e-5);
    // It goes through the origin: no mean is taken off.
    EXPECT_NEAR(part[0] / part[1], x[row * kSize] / x[row * kSize + 1], 1e-9);
  }
}

TEST_F(Kernels, GradientsOfNorms) {
  constexpr int64_t kRows = 2, kSize = 19;
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    Numbers x = RandomNumbers(kRows * kSize, 5);
    Numbers gain = RandomNumbers(kSize, 6);
    Numbers bias = RandomNumbers(kSize, 7);
    const Numbers dy = RandomNumbers(kRows * kSize, 8);
    Numbers y(kRows * kSize), kept(2 * kRows);
    const auto loss = [&] {
      exact->Norm(kind, x.data(), gain.data(), bias.data(), y.data(), kept.data(), kRows, kSize);
      return Dot(y, dy);
    };
    loss();
    // Gradients are added to what is there.
    Numbers dx(kRows * kSize, 1.0), dgain(kSize, 2.0), dbias(kSize, 3.0);
    exact->NormBackward(kind, dy.data(), x.data(), gain.data(), kept.data(), dx.data(),
                        dgain.data(), dbias.data(), kRows, kSize);
    for (double& each : dx) each -= 1.0;
    for (double& each : dgain) each -= 2.0;
    for (double& each : dbias) each -= 3.0;
    ExpectGradient(x, dx, loss, "dx");
    ExpectGradient(gain, dgain, loss, "dgain");
    if (kind == NormKind::kLayerNorm) {
      ExpectGradient(bias, dbias, loss, "dbias");
    } else {
      EXPECT_THAT(dbias, testing::Each(0.0));
    }
  }
}

TEST_F(Kernels, GeluIsItsApproximationAndHasItsSlope) {
  Numbers x = RandomNumbers(101, 9, 2.0);
  const Numbers dy = RandomNumbers(101, 10);
  Numbers y(101), dx = dy;
  const auto loss = [&] {
    exact->Gelu(x.data(), y.data(), 101);
    return Dot(y, dy);
  };
  loss();
  for (int i = 0; i < 101; ++i) {
    const double u = std::sqrt(2.0 / M_PI) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    ASSERT_NEAR(y[i], 0.5 * x[i] * (1.0 + std::tanh(u)), 1e-14);
  }
  exact->GeluBackward(x.data(), dx.data(), dx.data(), 101);
  ExpectGradient(x, dx, loss, "dx");
}

TEST_F(Kernels, SwigluIsSiluOfTheGateTimesTheOther) {
  constexpr int64_t kRows = 3, kSize = 11;
  Numbers x = RandomNumbers(2 * kRows * kSize, 11, 2.0);
  const Numbers dy = RandomNumbers(kRows * kSize, 12);
  Numbers y(kRows * kSize), dx(2 * kRows * kSize);
  const auto loss = [&] {
    exact->Swiglu(x.data(), y.data(), kRows, kSize);
    return Dot(y, dy);
  };
  loss();
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kSize; ++i) {
      const double gate = x[2 * row * kSize + i];
      const double up = x[(2 * row + 1) * kSize + i];
      ASSERT_NEAR(y[row * kSize + i], gate / (1.0 + std::exp(-gate)) * up, 1e-14);
    }
  }
  exact->SwigluBackward(x.data(), dy.data(), dx.data(), kRows, kSize);
  ExpectGradient(x, dx, loss, "dx");
}

// The logits of a row split between two ranks give the loss of the whole row.
TEST_F(Kernels, CrossEntropyOverColumnsOfTwoRanks) {
  constexpr int64_t kRows = 4, kColumns = 10, kHalf = 5;
  Numbers logits = RandomNumbers(kRows * kColumns, 13, 3.0);
  const std::vector<int32_t> targets = {0, 4, 5, 9};
  constexpr double kFactor = 0.25;
  Numbers gradients[2];
  const auto run = [&] {
    Numbers parts[2], largest[2], sums[2];
    for (int r = 0; r < 2; ++r) {
      parts[r].resize(kRows * kHalf);
      largest[r].resize(kRows);
      sums[r].resize(2 * kRows);
      exact->CopyRows(logits.data() + r * kHalf, kColumns, parts[r].data(), kHalf, kRows, kHalf);
      exact->LargestLogits(parts[r].data(), kRows, kHalf, largest[r].data());
    }
    for (int64_t row = 0; row < kRows; ++row) {
      largest[0][row] = largest[1][row] = std::max(largest[0][row], largest[1][row]);
    }
    for (int r = 0; r < 2; ++r) {
      exact->SumLogits(parts[r].data(), targets.data(), largest[r].data(), kRows, kHalf, r * kHalf,
                       sums[r].data());
    }
    exact->Add(sums[0].data(), sums[1].data(), 2 * kRows);
    sums[0] = sums[1];
    double loss = 0.0;
    for (int64_t row = 0; row < kRows; ++row) {
      loss += std::log(sums[0][2 * row]) - sums[0][2 * row + 1];
    }
    for (int r = 0; r < 2; ++r) {
      exact->LogitGradients(parts[r].data(), targets.data(), largest[r].data(), sums[r].data(),
                            kFactor, kRows, kHalf, r * kHalf);
      gradients[r] = parts[r];
    }
    return kFactor * loss;
  };
  double expected = 0.0;
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0.0;
    for (int64_t i = 0; i < kColumns; ++i) sum += std::exp(logits[row * kColumns + i]);
    expected += std::log(sum) - logits[row * kColumns + targets[row]];
  }
  EXPECT_NEAR(run(), kFactor * expected, 1e-13);
  Numbers gradient(kRows * kColumns);
  for (int r = 0; r < 2; ++r) {
    exact->CopyRows(gradients[r].data(), kHalf, gradient.data() + r * kHalf, kColumns, kRows,
                    kHalf);
  }
  ExpectGradient(logits, gradient, run, "logits");
}

TEST_F(Kernels, EmbeddingsOfPartOfTheVocabulary) {
  const Numbers table = RandomNumbers(3 * 4, 14);
  // Rows 10 to 12 are here.
  const std::vector<int32_t> tokens = {12, 3, 10, 12, 13};
  Numbers y(5 * 4, -1.0);
  exact->Embed(tokens.data(), 5, table.data(), 10, 3, 4, y.data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], table[8 + i]);
    EXPECT_EQ(y[4 + i], 0.0);
    EXPECT_EQ(y[8 + i], table[i]);
    EXPECT_EQ(y[16 + i], 0.0);
  }
  const Numbers dy = RandomNumbers(5 * 4, 15);
  Numbers gradient(3 * 4, 1.0);
  exact->EmbedBackward(tokens.data(), 5, dy.data(), 10, 3, 4, gradient.data());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(gradient[i], 1.0 + dy[8 + i]);
    EXPECT_EQ(gradient[4 + i], 1.0);
    EXPECT_EQ(gradient[8 + i], 1.0 + dy[i] + dy[12 + i]);
  }
}

// By hand: with a gradient of 1 the first step of Adam is the learning rate, whatever the
// gradient's size, but for epsilon.
TEST_F(Kernels, OptimizersMakeTheStepsOfTheirPapers) {
  Numbers p = {1.0, 1.0}, m(2, 0.0), v(2, 0.0);
  const Numbers g = {1.0, -4.0};
  exact->AdamStep({.learning_rate = 0.1, .epsilon = 0.0}, 1, g.data(), m.data(), v.data(), nullptr,
                  p.data(), 2);
  EXPECT_NEAR(p[0], 0.9, 1e-15);
  EXPECT_NEAR(p[1], 1.1, 1e-15);
  exact->AdamStep({.learning_rate = 0.1, .epsilon = 0.0}, 2, g.data(), m.data(), v.data(), nullptr,
                  p.data(), 2);
  EXPECT_NEAR(p[0], 0.8, 1e-14);
  Numbers q = {1.0, 1.0}, moments(2, 0.0);
  const SgdSettings settings{.learning_rate = 0.1, .momentum = 0.5};
  exact->SgdStep(settings, g.data(), moments.data(), nullptr, q.data(), 2);
  exact->SgdStep(settings, g.data(), moments.data(), nullptr, q.data(), 2);
  EXPECT_NEAR(q[0], 1.0 - 0.1 - 0.15, 1e-15);
  EXPECT_NEAR(q[1], 1.0 + 0.4 + 0.6, 1e-15);
}

TEST_F(Kernels, StepsWithoutMomentumNeedNoMoments) {
  Numbers p = {1.0, 2.0};
  const Numbers g = {0.5, -1.0};
  exact->SgdStep({.learning_rate = 0.1, .momentum = 0.0}, g.data(), nullptr, nullptr, p.data(), 2);
  EXPECT_NEAR(p[0], 0.95, 1e-15);
  EXPECT_NEAR(p[1], 2.1, 1e-15);
}

// Rotary positions: scores depend on how far apart two tokens are, and on nothing else.
TEST_F(Kernels, RotationsEncodeDistances) {
  constexpr int kHeads = 2, kSize = 6, kTokens = 5, kSamples = 2, kStride = 15;
  const auto rotated = [&](int64_t first_position, int64_t tokens, bool inverse, Numbers x) {
    exact->Rotate({.token_count = tokens,
                   .sample_count = kSamples,
                   .head_count = kHeads,
                   .head_size = kSize,
                   .first_position = first_position,
                   .row_stride = kStride},
                  inverse, x.data());
    return x;
  };
  // The same vectors at every token.
  const Numbers one = RandomNumbers(kStride, 1);
  Numbers x;
  for (int row = 0; row < kTokens * kSamples; ++row) x.insert(x.end(), one.begin(), one.end());
  const Numbers turned = rotated(3, kTokens, false, x);
  const auto score = [&](int a, int b, int head) {
    double sum = 0.0;
    for (int d = 0; d < kSize; ++d) {
      sum += turned[a * kStride + head * kSize + d] * turned[b * kStride + head * kSize + d];
    }
    return sum;
  };
  for (int head = 0; head < kHeads; ++head) {
    EXPECT_NEAR(score(0, 2 * kSamples, head), score(2 * kSamples, 4 * kSamples, head), 1e-12);
    EXPECT_GT(std::abs(score(0, kSamples, head) - score(0, 2 * kSamples, head)), 1e-3);
    // Samples of a token are turned alike.
    EXPECT_NEAR(score(0, 2, head), score(1, 2, head), 1e-12);
  }
  // The first pair by the position itself.
  EXPECT_NEAR(turned[0], one[0] * std::cos(3.0) - one[3] * std::sin(3.0), 1e-12);
  EXPECT_NEAR(turned[3], one[0] * std::sin(3.0) + one[3] * std::cos(3.0), 1e-12);
  // The last by so much less.
  const double slow = 4.0 * std::pow(10000.0, -4.0 / 6.0);
  const int next = kSamples * kStride;
  EXPECT_NEAR(turned[next + 2], one[2] * std::cos(slow) - one[5] * std::sin(slow), 1e-12);
  // Memory between rows is not changed.
  EXPECT_EQ(turned[12], one[12]);
  const Numbers back = rotated(3, kTokens, true, turned);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], 1e-13);
  // In pieces it is the same.
  Numbers late(x.begin() + 2 * next, x.end());
  late = rotated(5, kTokens - 2, false, late);
  for (size_t i = 0; i < late.size(); ++i) ASSERT_EQ(late[i], turned[2 * next + i]);
}

TEST_F(Kernels, SwigluBackwardMayWriteWhereItReads) {
  Numbers x = RandomNumbers(2 * 3 * 5, 1);
  const Numbers dy = RandomNumbers(3 * 5, 2);
  Numbers dx(x.size());
  exact->SwigluBackward(x.data(), dy.data(), dx.data(), 3, 5);
  exact->SwigluBackward(x.data(), dy.data(), x.data(), 3, 5);
  EXPECT_EQ(x, dx);
}

TEST_F(Kernels, ExponentialsInSinglePrecision) {
  for (double x = -90.0; x <= 87.9; x += 0.0137) {
    const auto in = static_cast<float>(x);
    const double expected = in < -87.0f ? 0.0 : std::exp(static_cast<double>(in));
    ASSERT_NEAR(cpu_math::Exp(in), expected, 2.5e-7 * expected) << x;
  }
  EXPECT_EQ(cpu_math::Exp(0.0f), 1.0f);
  EXPECT_EQ(cpu_math::Exp(-1e30f), 0.0f);
}

TEST_F(Kernels, SumsInLanesOfAnyLength) {
  for (int64_t count = 0; count < 70; ++count) {
    const double sum =
        cpu_math::SumOf<double>(count, [](int64_t i) { return static_cast<double>(i); });
    EXPECT_EQ(sum, static_cast<double>(count * (count - 1) / 2));
    Numbers values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((i * 37) % 61) - 70.0;
    if (count > 0) {
      EXPECT_EQ(cpu_math::LargestOf(values.data(), count),
                *std::max_element(values.begin(), values.end()));
    }
  }
}

TEST_F(Kernels, SinglePrecisionIsCloseToDouble) {
  constexpr int64_t kRows = 4, kSize = 50;
  const Numbers x = RandomNumbers(kRows * kSize, 16);
  const Numbers gain = RandomNumbers(kSize, 17), bias = RandomNumbers(kSize, 18);
  const std::vector<float> x32 = Floats(x), gain32 = Floats(gain), bias32 = Floats(bias);
  Numbers y(kRows * kSize), kept(2 * kRows);
  std::vector<float> y32(kRows * kSize), kept32(2 * kRows);
  exact->Norm(NormKind::kLayerNorm, x.data(), gain.data(), bias.data(), y.data(), kept.data(),
              kRows, kSize);
  single->Norm(NormKind::kLayerNorm, x32.data(), gain32.data(), bias32.data(), y32.data(),
               kept32.data(), kRows, kSize);
  ExpectClose(y32, y, 2e-6);
  exact->Gelu(x.data(), y.data(), kRows * kSize);
  single->Gelu(x32.data(), y32.data(), kRows * kSize);
  ExpectClose(y32, y, 1e-6);
}

}  // namespace
}  // namespace parplan
