#include "planner/cost/layer_profile.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace parplan {
namespace {

constexpr int kLength = 1024;

LayerDefinition Decoder(int sequence_length = kLength) {
  LayerDefinition raw;
  raw.layer_definition_id = "decoder";
  raw.kind = LayerKind::kDecoder;
  raw.hidden_size = 256;
  raw.attention_head_count = 8;
  raw.feed_forward_size = 1024;
  raw.feed_forward_kind = FeedForwardKind::kGelu;
  raw.sequence_length = sequence_length;
  return *LayerDefinition::Create(raw, "test");
}

double Work(int sequence_length) { return ForwardFlopsPerSample(Decoder(), sequence_length); }

// The truth of these tests: a fixed cost, and work that splits perfectly.
Seconds TrueForward(int degree, int sequence_length, double samples) {
  return Seconds::Of(1.0 + 10.0 * samples * Work(sequence_length) / Work(kLength) / degree);
}

LayerTimingPoint TrueTiming(int degree, int sequence_length, int samples) {
  const Seconds forward = TrueForward(degree, sequence_length, samples);
  return {degree, samples, sequence_length, forward, forward * 2.5, Origin::kMeasured};
}

LayerMemoryPoint Memory(int degree, int sequence_length, double activation,
                        bool sequence_parallel = false) {
  return {degree,        sequence_parallel, sequence_length, 1000 / degree, Bytes::Ceil(activation),
          Bytes::Of(64), Origin::kMeasured};
}

MeasuredLayer MeasuredDecoder(std::vector<LayerTimingPoint> timings,
                              std::vector<LayerMemoryPoint> memories = {Memory(1, kLength, 1000)}) {
  MeasuredLayer layer;
  layer.definition = Decoder();
  layer.timings = std::move(timings);
  layer.memories = std::move(memories);
  return layer;
}

struct Resolved {
  LayerProfile profile;
  ResolutionNotes notes;
};

Resolved Resolve(const MeasuredLayer& measured, const LayerNeeds& needs,
                 int sequence_length = kLength, const LayerEstimator* estimator = nullptr) {
  Resolved resolved;
  resolved.profile = LayerProfile::Resolve(Decoder(sequence_length), Precision::kBf16, &measured,
                                           needs, resolved.notes, estimator);
  return resolved;
}

bool Has(const std::vector<std::string>& notes, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

// Half as fast as the truth, and sure that a wider group gains less.
LayerEstimator HalfAsFast() {
  LayerEstimator estimator;
  estimator.times = [](const EstimateShape& shape, double samples) {
    const Seconds forward = 2.0 * TrueForward(1, shape.sequence_length, samples) *
                            (0.2 + 0.8 / shape.tensor_parallel_degree);
    return LayerTimeEstimate{forward, forward * 3.0};
  };
  estimator.memory = [](const EstimateShape& shape) {
    const double split = shape.sequence_parallel ? 1.0 / shape.tensor_parallel_degree
                                                 : 0.5 + 0.5 / shape.tensor_parallel_degree;
    return LayerMemoryEstimate{2000 / shape.tensor_parallel_degree,
                               Bytes::Ceil(4000.0 * split * shape.sequence_length / kLength),
                               Bytes::Of(128)};
  };
  return estimator;
}

TEST(LayerProfile, IsTheStopwatchWhereItWasRead) {
  const Resolved resolved =
      Resolve(MeasuredDecoder(
                  {TrueTiming(1, kLength, 1), TrueTiming(1, kLength, 4), TrueTiming(2, kLength, 2)},
                  {Memory(1, kLength, 1000), Memory(2, kLength, 700)}),
              {{1, 2}});
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_TRUE(resolved.notes.estimated.empty());
  EXPECT_TRUE(resolved.profile.measured());
  EXPECT_EQ(resolved.profile.Forward(1, 4), TrueForward(1, kLength, 4));
  EXPECT_EQ(resolved.profile.Backward(2, 2), TrueForward(2, kLength, 2) * 2.5);
  EXPECT_EQ(resolved.profile.ActivationPerSample(2), Bytes::Of(700));
  EXPECT_EQ(resolved.profile.SourceOf(1, 4), MeasurementSource::kMeasured);
  EXPECT_EQ(resolved.profile.SourceOf(1, 3), MeasurementSource::kInterpolated);
  EXPECT_EQ(resolved.profile.SourceOf(1, 5), MeasurementSource::kExtrapolated);
  EXPECT_EQ(resolved.profile.SourceOf(1, 0.5), MeasurementSource::kExtrapolated);
}

TEST(LayerProfile, InterpolatesSequenceLengthsWithoutBeingAllowedEstimates) {
  const MeasuredLayer measured = MeasuredDecoder({TrueTiming(1, 512, 1), TrueTiming(1, 512, 4),
                                                  TrueTiming(1, 2048, 1), TrueTiming(1, 2048, 4)},
                                                 {Memory(1, 512, 500), Memory(1, 2048, 2000)});
  const Resolved resolved = Resolve(measured, {{1}});
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_TRUE(Has(resolved.notes.estimated,
                  "times at sequence_length 1024 interpolated between 512 and 2048"));
  EXPECT_TRUE(Has(resolved.notes.estimated,
                  "activations at sequence_length 1024 interpolated between 512 and 2048"));
  EXPECT_GT(resolved.profile.Forward(1, 2), TrueForward(1, 512, 2));
  EXPECT_LT(resolved.profile.Forward(1, 2), TrueForward(1, 2048, 2));
  EXPECT_NEAR(resolved.profile.Forward(1, 4) / TrueForward(1, kLength, 4), 1.0, 0.03);
  EXPECT_EQ(resolved.profile.ActivationPerSample(1), Bytes::Of(1000));
  EXPECT_EQ(resolved.profile.SourceOf(1, 1), MeasurementSource::kInterpolated);
  EXPECT_EQ(resolved.profile.SourceOf(1, 8), MeasurementSource::kExtrapolated);
}

TEST(LayerProfile, ExtendsSequenceLengthsByOperationsOnlyWhereAllowed) {
  const MeasuredLayer measured = MeasuredDecoder({TrueTiming(1, 256, 1), TrueTiming(1, 512, 1)},
                                                 {Memory(1, 256, 300), Memory(1, 512, 700)});
  const Resolved refused = Resolve(measured, {{1}});
  EXPECT_TRUE(Has(refused.notes.missing, "forward time at sequence_length 1024"));
  EXPECT_TRUE(Has(refused.notes.missing, "memory at sequence_length 1024"));
  const Resolved resolved = Resolve(measured, {{1}, true});
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_TRUE(Has(resolved.notes.estimated,
                  "times at sequence_length 1024 extended by operations from 512"));
  // The fixed cost and the cost per operation are those of the truth.
  EXPECT_NEAR(resolved.profile.Forward(1, 1) / TrueForward(1, kLength, 1), 1.0, 1e-12);
  // a s + b s^2 through (256, 300) and (512, 700).
  const double quadratic = (700.0 / 512 - 300.0 / 256) / 256;
  const double linear = 300.0 / 256 - quadratic * 256;
  EXPECT_EQ(resolved.profile.ActivationPerSample(1),
            Bytes::Ceil(linear * 1024 + quadratic * 1024 * 1024));
}

TEST(LayerProfile, InterpolatesDegrees) {
  const Resolved resolved =
      Resolve(MeasuredDecoder({TrueTiming(1, kLength, 1), TrueTiming(1, kLength, 8),
                               TrueTiming(4, kLength, 1), TrueTiming(4, kLength, 8)},
                              {Memory(1, kLength, 1000), Memory(4, kLength, 400)}),
              {{1, 2, 4}});
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_TRUE(Has(resolved.notes.estimated,
                  "time at tensor_parallel_degree 2 interpolated between 1 and 4"));
  EXPECT_NEAR(resolved.profile.Forward(2, 8).value(),
              std::sqrt(TrueForward(1, kLength, 8).value() * TrueForward(4, kLength, 8).value()),
              1e-12);
  // 200 + 800 / degree, 1000 parameters split.
  EXPECT_EQ(resolved.profile.ActivationPerSample(2), Bytes::Of(600));
  EXPECT_EQ(resolved.profile.ParameterCount(2), 500);
}

TEST(LayerProfile, BeyondTheDegreesDoesAsMuchWorkInASmallerMicroBatch) {
  const Resolved resolved =
      Resolve(MeasuredDecoder({TrueTiming(1, kLength, 2), TrueTiming(1, kLength, 4),
                               TrueTiming(2, kLength, 2), TrueTiming(2, kLength, 4)},
                              {Memory(1, kLength, 1000), Memory(2, kLength, 700)}),
              {{1, 2, 8}, true});
  EXPECT_NEAR(resolved.profile.Forward(8, 2) / TrueForward(8, kLength, 2), 1.0, 1e-12);
  EXPECT_TRUE(Has(resolved.notes.estimated, "degrees not measured (8)"));
  EXPECT_EQ(resolved.profile.SourceOf(8, 2), MeasurementSource::kExtrapolated);
  // 400 + 600 / degree.
  EXPECT_EQ(resolved.profile.ActivationPerSample(8), Bytes::Of(475));
}

TEST(LayerProfile, BelowTheDegreesOnlyWhereAllowed) {
  const MeasuredLayer measured = MeasuredDecoder(
      {TrueTiming(2, kLength, 2), TrueTiming(2, kLength, 8)}, {Memory(2, kLength, 700)});
  EXPECT_TRUE(
      Has(Resolve(measured, {{1, 2}}).notes.missing, "forward time at tensor_parallel_degree 1"));
  const Resolved resolved = Resolve(measured, {{1, 2}, true});
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_NEAR(resolved.profile.Forward(1, 4) / TrueForward(1, kLength, 4), 1.0, 1e-12);
  EXPECT_EQ(resolved.profile.ActivationPerSample(1), Bytes::Of(1400));
}

TEST(LayerProfile, CarriesTheTrendOverLengthsFromTheDegreeThatShowsIt) {
  const Resolved resolved = Resolve(
      MeasuredDecoder({TrueTiming(1, 512, 1), TrueTiming(1, kLength, 1), TrueTiming(2, 512, 1)},
                      {Memory(1, 512, 500), Memory(1, kLength, 1100), Memory(2, 512, 400)}),
      {{1, 2}});
  EXPECT_TRUE(resolved.notes.missing.empty());
  const double trend = TrueForward(1, kLength, 1) / TrueForward(1, 512, 1);
  EXPECT_NEAR(resolved.profile.Forward(2, 1) / TrueForward(2, 512, 1), trend, 1e-12);
  EXPECT_EQ(resolved.profile.ActivationPerSample(2), Bytes::Of(880));
}

TEST(LayerProfile, ScalesTheEstimateToWhatWasMeasuredNearest) {
  const LayerEstimator estimator = HalfAsFast();
  const MeasuredLayer measured =
      MeasuredDecoder({TrueTiming(1, kLength, 1), TrueTiming(1, kLength, 4)});
  const Resolved resolved = Resolve(measured, {{1, 4}, true}, kLength, &estimator);
  EXPECT_EQ(resolved.profile.Forward(1, 4), TrueForward(1, kLength, 4));
  // The estimate is twice the measured time at degree 1, so half of it holds at 4.
  EXPECT_NEAR(resolved.profile.Forward(4, 2).value(),
              TrueForward(1, kLength, 2).value() * (0.2 + 0.8 / 4), 1e-12);
  // Backward: 2.5 measured where 3 was estimated.
  EXPECT_NEAR(resolved.profile.Backward(4, 2) / resolved.profile.Forward(4, 2), 2.5, 1e-12);
  EXPECT_EQ(resolved.profile.SourceOf(4, 2), MeasurementSource::kEstimated);
  EXPECT_TRUE(Has(resolved.notes.estimated,
                  "time at tensor_parallel_degree 4 estimated in its ratio to 1"));
  // Memory: 4000 (0.5 + 0.5 / 4) where 1000 of 4000 was measured.
  EXPECT_EQ(resolved.profile.ActivationPerSample(4), Bytes::Of(625));
  EXPECT_EQ(resolved.profile.ParameterCount(4), 250);
}

TEST(LayerProfile, UsesTheEstimateOnlyWhereAllowed) {
  const LayerEstimator estimator = HalfAsFast();
  const MeasuredLayer measured =
      MeasuredDecoder({TrueTiming(1, kLength, 1), TrueTiming(1, kLength, 4)},
                      {Memory(1, kLength, 1000), Memory(4, kLength, 700)});
  const Resolved without = Resolve(measured, {{1, 4}});
  const Resolved with = Resolve(measured, {{1, 4}}, kLength, &estimator);
  EXPECT_EQ(with.profile.Forward(4, 2), without.profile.Forward(4, 2));
  EXPECT_EQ(with.notes.estimated, without.notes.estimated);
}

TEST(LayerProfile, EstimatesOtherLengthsInTheirRatioToTheMeasured) {
  const LayerEstimator estimator = HalfAsFast();
  const Resolved resolved = Resolve(
      MeasuredDecoder({TrueTiming(1, 512, 1), TrueTiming(1, 512, 4)}, {Memory(1, 512, 800)}),
      {{1}, true}, kLength, &estimator);
  EXPECT_NEAR(resolved.profile.Forward(1, 4) / TrueForward(1, kLength, 4), 1.0, 1e-12);
  EXPECT_EQ(resolved.profile.ActivationPerSample(1), Bytes::Of(1600));
}

TEST(LayerProfile, IsAllEstimateWhereNothingWasMeasured) {
  const LayerEstimator estimator = HalfAsFast();
  ResolutionNotes notes;
  const LayerProfile profile = LayerProfile::Resolve(Decoder(), Precision::kBf16, nullptr,
                                                     {{1, 2}, true, true}, notes, &estimator);
  EXPECT_TRUE(notes.missing.empty());
  EXPECT_FALSE(profile.measured());
  EXPECT_TRUE(profile.sequence_parallel());
  EXPECT_EQ(profile.Forward(1, 3), 2.0 * TrueForward(1, kLength, 3));
  EXPECT_EQ(profile.Forward(1, 0), Seconds());
  EXPECT_EQ(profile.ActivationPerSample(2), Bytes::Of(2000));
  EXPECT_EQ(notes.estimated,
            (std::vector<std::string>{"layer `decoder`: memory estimated, none measured",
                                      "layer `decoder`: times estimated, none measured"}));
  ResolutionNotes refused;
  LayerProfile::Resolve(Decoder(), Precision::kBf16, nullptr, {{1, 2}}, refused, &estimator);
  EXPECT_TRUE(Has(refused.missing, "no timing and no memory of an equal layer"));
}

TEST(LayerProfile, EstimatesTheHalfThatWasNotMeasured) {
  const LayerEstimator estimator = HalfAsFast();
  const Resolved resolved =
      Resolve(MeasuredDecoder({TrueTiming(1, kLength, 1)}, {}), {{1}, true}, kLength, &estimator);
  EXPECT_TRUE(resolved.notes.missing.empty());
  EXPECT_EQ(resolved.profile.Forward(1, 1), TrueForward(1, kLength, 1));
  EXPECT_EQ(resolved.profile.ActivationPerSample(1), Bytes::Of(4000));
  EXPECT_TRUE(
      Has(Resolve(MeasuredDecoder({TrueTiming(1, kLength, 1)}, {}), {{1}, true}).notes.missing,
          "memory at any tensor_parallel_degree"));
}

TEST(LayerProfile, TakesBackwardTimesFromTheBestThereIs) {
  const LayerEstimator estimator = HalfAsFast();
  MeasuredLayer measured = MeasuredDecoder({TrueTiming(1, kLength, 1), TrueTiming(1, kLength, 4)});
  measured.timings[1].backward.reset();
  const Resolved mean = Resolve(measured, {{1}, true}, kLength, &estimator);
  EXPECT_NEAR(mean.profile.Backward(1, 4) / mean.profile.Forward(1, 4), 2.5, 1e-12);
  measured.timings[0].backward.reset();
  const Resolved estimated = Resolve(measured, {{1}, true}, kLength, &estimator);
  EXPECT_NEAR(estimated.profile.Backward(1, 4) / estimated.profile.Forward(1, 4), 3.0, 1e-12);
  const Resolved twice = Resolve(measured, {{1}});
  EXPECT_NEAR(twice.profile.Backward(1, 4) / twice.profile.Forward(1, 4), 2.0, 1e-12);
  EXPECT_TRUE(Has(twice.notes.estimated, "backward time taken as twice the forward"));
}

TEST(LayerProfile, SaysNothingOfMeasurementsThatNothingRestsOn) {
  const Resolved resolved =
      Resolve(MeasuredDecoder({TrueTiming(1, kLength, 1), TrueTiming(4, 512, 1)}), {{1}});
  EXPECT_TRUE(resolved.notes.estimated.empty());
}

TEST(LayerProfile, MoreSamplesAreNeverFasterAndMoreDegreesNeverSlowerByAnySource) {
  const LayerEstimator estimator = HalfAsFast();
  const MeasuredLayer measured = MeasuredDecoder(
      {TrueTiming(2, 512, 1), TrueTiming(2, 512, 3), TrueTiming(2, 2048, 1), TrueTiming(8, 512, 2)},
      {Memory(1, kLength, 1000)});
  const std::vector<int> degrees = {1, 2, 4, 8, 16};
  for (const LayerEstimator* source : {static_cast<const LayerEstimator*>(nullptr), &estimator}) {
    for (const int length : {128, 512, 700, 2048, 8192}) {
      const Resolved resolved = Resolve(measured, {degrees, true}, length, source);
      ASSERT_TRUE(resolved.notes.missing.empty());
      for (size_t i = 0; i < degrees.size(); ++i) {
        Seconds last;
        for (double samples = 0.125; samples < 100.0; samples *= 1.31) {
          const Seconds forward = resolved.profile.Forward(degrees[i], samples);
          EXPECT_GT(forward, last) << degrees[i] << " " << length << " " << samples;
          last = forward;
          if (i == 0 || source != nullptr) continue;
          EXPECT_LE(forward.value(),
                    resolved.profile.Forward(degrees[i - 1], samples).value() * (1.0 + 1e-12))
              << degrees[i] << " " << length << " " << samples;
        }
      }
    }
  }
}

}  // namespace
}  // namespace parplan
