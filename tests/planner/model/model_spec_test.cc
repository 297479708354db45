#include "planner/model/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "planner/model/planning_problem.h"
#include "tests/planner/model/broken_rule.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

LayerDefinition LlamaDecoder() {
  LayerDefinition layer;
  layer.layer_definition_id = "decoder";
  layer.kind = LayerKind::kDecoder;
  layer.hidden_size = 4096;
  layer.attention_head_count = 32;
  layer.feed_forward_size = 11008;
  layer.feed_forward_kind = FeedForwardKind::kSwiglu;
  layer.sequence_length = 2048;
  return layer;
}

LayerDefinition BertHugeEncoder() {
  LayerDefinition layer;
  layer.layer_definition_id = "encoder";
  layer.kind = LayerKind::kEncoder;
  layer.hidden_size = 1280;
  layer.attention_head_count = 16;
  layer.feed_forward_size = 5120;
  layer.feed_forward_kind = FeedForwardKind::kGelu;
  layer.sequence_length = 512;
  return layer;
}

LayerDefinition LlamaTable(LayerKind kind, const std::string& id) {
  LayerDefinition layer;
  layer.layer_definition_id = id;
  layer.kind = kind;
  layer.hidden_size = 4096;
  layer.sequence_length = 2048;
  layer.vocabulary_size = 32000;
  return layer;
}

absl::StatusOr<LayerDefinition> Create(const LayerDefinition& raw) {
  return LayerDefinition::Create(raw, "model.layer_definitions[3]");
}

int64_t ParameterCount(const LayerDefinition& raw) {
  const absl::StatusOr<LayerDefinition> layer = Create(raw);
  EXPECT_OK(layer);
  return layer.ok() ? layer->parameter_count : -1;
}

// Without the rule the product of hidden size, experts and their width passes 64 bits.
TEST(LayerDefinition, ExpertsOfMoreThanTheLargestModelAreRefused) {
  LayerDefinition layer = LlamaDecoder();
  layer.expert_count = 1 << 24;
  layer.experts_per_token = 1;
  layer.expert_feed_forward_size = 1 << 24;
  EXPECT_THAT(Create(layer).status().ToString(),
              ::testing::HasSubstr("model.layer_definitions[3].expert_count: "));
  // 3 4096 2^36 parameters are below 2^50; twice as many are not.
  layer.expert_feed_forward_size = 1 << 12;
  EXPECT_OK(Create(layer).status());
  layer.expert_feed_forward_size = 1 << 13;
  EXPECT_FALSE(Create(layer).ok());
}

TEST(LayerDefinition, FillsInHeadsFromTheSizes) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(LlamaDecoder()));
  EXPECT_EQ(layer.head_size, 128);
  EXPECT_EQ(layer.key_value_head_count, 32);
}

TEST(LayerDefinition, KeepsWhatWasGiven) {
  LayerDefinition raw = LlamaDecoder();
  raw.attention_head_count = 24;  // does not divide 4096
  raw.key_value_head_count = 8;
  raw.head_size = 100;
  raw.parameter_count = 7;
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(raw));
  EXPECT_EQ(layer, raw);
}

TEST(LayerDefinition, CreatedTwiceIsTheSame) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition once, Create(LlamaDecoder()));
  EXPECT_THAT(Create(once), IsOkAndHolds(once));
}

TEST(ParameterCount, OfLlamaTwoMatchesItsCheckpoint) {
  EXPECT_EQ(ParameterCount(LlamaDecoder()), 202'383'360);
  EXPECT_EQ(ParameterCount(LlamaTable(LayerKind::kEmbedding, "embedding")), 131'072'000);
  EXPECT_EQ(ParameterCount(LlamaTable(LayerKind::kHead, "head")), 131'076'096);
}

TEST(ParameterCount, OfGroupedQueriesHasNarrowKeysAndValues) {
  // Llama-3-8B: 2 * 4096^2 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096.
  LayerDefinition raw = LlamaDecoder();
  raw.key_value_head_count = 8;
  raw.feed_forward_size = 14336;
  EXPECT_EQ(ParameterCount(raw), 218'112'000);
}

TEST(ParameterCount, OfBertHugeHasTwoMatricesInItsFeedForwardPart) {
  // 4 * 1280^2 + 2 * 1280 * 5120 + 2 * 1280, without biases.
  EXPECT_EQ(ParameterCount(BertHugeEncoder()), 19'663'360);
}

TEST(ParameterCount, OfACrossDecoderHasASecondAttentionAndNorm) {
  LayerDefinition raw = BertHugeEncoder();
  raw.kind = LayerKind::kCrossDecoder;
  EXPECT_EQ(ParameterCount(raw), 19'663'360 + 4 * 1280 * 1280 + 1280);
}

TEST(ParameterCount, OfHeadsWiderThanTheModelFollowsTheHeads) {
  // T5-11B: 128 heads of 128 over a width of 1024.
  LayerDefinition raw = BertHugeEncoder();
  raw.hidden_size = 1024;
  raw.attention_head_count = 128;
  raw.head_size = 128;
  raw.feed_forward_size = 65536;
  EXPECT_EQ(ParameterCount(raw), int64_t{4} * 1024 * 16384 + int64_t{2} * 1024 * 65536 + 2 * 1024);
}

TEST(ParameterCount, OfATiedHeadIsItsNorm) {
  LayerDefinition raw = LlamaTable(LayerKind::kHead, "head");
  raw.tied_embedding = true;
  EXPECT_EQ(ParameterCount(raw), 4096);
}

TEST(ParameterCount, OfAPatchEmbeddingIsALinearMap) {
  // ViT-Huge: patches of 14 x 14 x 3 values.
  LayerDefinition raw = LlamaTable(LayerKind::kPatchEmbedding, "patches");
  raw.hidden_size = 1280;
  raw.vocabulary_size = 588;
  EXPECT_EQ(ParameterCount(raw), 588 * 1280 + 1280);
}

TEST(ForwardFlopsPerSample, OfACausalLayerCountsHalfThePairs) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(LlamaDecoder()));
  const double matrices = 202'383'360 - 8192;
  EXPECT_DOUBLE_EQ(ForwardFlopsPerSample(layer, 2048),
                   2 * 2048.0 * matrices + 2 * 2048.0 * 2048.0 * 4096);
}

TEST(ForwardFlopsPerSample, OfAnEncoderCountsAllPairs) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(BertHugeEncoder()));
  const double matrices = 19'663'360 - 2560;
  EXPECT_DOUBLE_EQ(ForwardFlopsPerSample(layer, 512),
                   2 * 512.0 * matrices + 4 * 512.0 * 512.0 * 1280);
}

TEST(ForwardFlopsPerSample, OfACrossDecoderAddsAFullAttention) {
  LayerDefinition raw = BertHugeEncoder();
  raw.kind = LayerKind::kCrossDecoder;
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(raw));
  const double matrices = 8 * 1280.0 * 1280.0 + 2 * 1280.0 * 5120.0;
  EXPECT_DOUBLE_EQ(ForwardFlopsPerSample(layer, 512),
                   2 * 512.0 * matrices + 6 * 512.0 * 512.0 * 1280);
}

TEST(ForwardFlopsPerSample, OfATableLookupIsZeroAndOfATiedHeadIsNot) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition embedding,
                       Create(LlamaTable(LayerKind::kEmbedding, "embedding")));
  EXPECT_EQ(ForwardFlopsPerSample(embedding, 2048), 0.0);
  LayerDefinition raw = LlamaTable(LayerKind::kHead, "head");
  raw.tied_embedding = true;
  ASSERT_OK_AND_ASSIGN(const LayerDefinition head, Create(raw));
  EXPECT_DOUBLE_EQ(ForwardFlopsPerSample(head, 2048), 2 * 2048.0 * 4096 * 32000);
}

TEST(SameLayer, IgnoresNameAndSequenceLengthOnly) {
  ASSERT_OK_AND_ASSIGN(const LayerDefinition layer, Create(LlamaDecoder()));
  LayerDefinition renamed = layer;
  renamed.layer_definition_id = "block";
  renamed.sequence_length = 4096;
  EXPECT_TRUE(SameLayer(layer, renamed));
  LayerDefinition wider = layer;
  wider.feed_forward_size += 1;
  EXPECT_FALSE(SameLayer(layer, wider));
  LayerDefinition heavier = layer;
  heavier.parameter_count += 1;
  EXPECT_FALSE(SameLayer(layer, heavier));
}

struct BrokenLayer {
  std::string name;
  std::string field;
  LayerDefinition valid;
  std::function<void(LayerDefinition&)> break_it;
};

void PrintTo(const BrokenLayer& rule, std::ostream* out) { *out << rule.name; }

class LayerDefinitionRules : public testing::TestWithParam<BrokenLayer> {};

TEST_P(LayerDefinitionRules, AreEnforcedAndNamed) {
  ASSERT_OK(Create(GetParam().valid));
  LayerDefinition raw = GetParam().valid;
  GetParam().break_it(raw);
  EXPECT_EQ(Rejection(Create(raw).status()),
            "SPEC_INVALID model.layer_definitions[3]." + GetParam().field);
}

std::vector<BrokenLayer> BrokenLayers() {
  using Layer = LayerDefinition;
  const Layer decoder = LlamaDecoder();
  const Layer embedding = LlamaTable(LayerKind::kEmbedding, "embedding");
  return {
      {"NoId", "layer_definition_id", decoder, [](Layer& l) { l.layer_definition_id = ""; }},
      {"IdWithSpace", "layer_definition_id", decoder,
       [](Layer& l) { l.layer_definition_id = "a b"; }},
      {"LongId", "layer_definition_id", decoder,
       [](Layer& l) { l.layer_definition_id = std::string(64, 'a'); }},
      {"NoKind", "kind", decoder, [](Layer& l) { l.kind = static_cast<LayerKind>(0); }},
      {"UnknownKind", "kind", decoder, [](Layer& l) { l.kind = static_cast<LayerKind>(99); }},
      {"NoHiddenSize", "hidden_size", decoder, [](Layer& l) { l.hidden_size = 0; }},
      {"EndlessHiddenSize", "hidden_size", decoder, [](Layer& l) { l.hidden_size = 1 << 30; }},
      {"NoSequenceLength", "sequence_length", decoder, [](Layer& l) { l.sequence_length = 0; }},
      {"NoHeads", "attention_head_count", decoder, [](Layer& l) { l.attention_head_count = 0; }},
      {"HeadsDoNotDivide", "attention_head_count", decoder,
       [](Layer& l) { l.attention_head_count = 24; }},
      {"NegativeHeadSize", "head_size", decoder, [](Layer& l) { l.head_size = -1; }},
      {"EndlessHeads", "head_size", decoder, [](Layer& l) { l.head_size = 1 << 24; }},
      {"KeyValueHeadsDoNotDivide", "key_value_head_count", decoder,
       [](Layer& l) { l.key_value_head_count = 5; }},
      {"MoreKeyValueHeadsThanHeads", "key_value_head_count", decoder,
       [](Layer& l) { l.key_value_head_count = 64; }},
      {"NoFeedForwardSize", "feed_forward_size", decoder,
       [](Layer& l) { l.feed_forward_size = 0; }},
      {"NoFeedForwardKind", "feed_forward_kind", decoder,
       [](Layer& l) { l.feed_forward_kind = FeedForwardKind::kNone; }},
      {"DecoderWithVocabulary", "vocabulary_size", decoder,
       [](Layer& l) { l.vocabulary_size = 32000; }},
      {"TiedDecoder", "tied_embedding", decoder, [](Layer& l) { l.tied_embedding = true; }},
      {"NegativeParameters", "parameter_count", decoder, [](Layer& l) { l.parameter_count = -1; }},
      {"EndlessParameters", "parameter_count", decoder,
       [](Layer& l) { l.parameter_count = int64_t{1} << 60; }},
      {"NoVocabulary", "vocabulary_size", embedding, [](Layer& l) { l.vocabulary_size = 0; }},
      {"TiedEmbedding", "tied_embedding", embedding, [](Layer& l) { l.tied_embedding = true; }},
      {"EmbeddingWithHeads", "attention_head_count", embedding,
       [](Layer& l) { l.attention_head_count = 32; }},
      {"EmbeddingWithKeyValueHeads", "key_value_head_count", embedding,
       [](Layer& l) { l.key_value_head_count = 32; }},
      {"EmbeddingWithHeadSize", "head_size", embedding, [](Layer& l) { l.head_size = 128; }},
      {"EmbeddingWithFeedForward", "feed_forward_size", embedding,
       [](Layer& l) { l.feed_forward_size = 11008; }},
      {"EmbeddingWithFeedForwardKind", "feed_forward_kind", embedding,
       [](Layer& l) { l.feed_forward_kind = FeedForwardKind::kGelu; }},
  };
}

INSTANTIATE_TEST_SUITE_P(All, LayerDefinitionRules, testing::ValuesIn(BrokenLayers()),
                         [](const testing::TestParamInfo<BrokenLayer>& info) {
                           return info.param.name;
                         });

// Arguments of ModelSpec::Create.
struct RawModel {
  std::string model_id = "llama-2-7b";
  std::vector<LayerDefinition> definitions;
  std::vector<ModelLayerRun> runs;
};

RawModel LlamaModel() {
  RawModel raw;
  for (const LayerDefinition& layer : {LlamaTable(LayerKind::kEmbedding, "embedding"),
                                       LlamaDecoder(), LlamaTable(LayerKind::kHead, "head")}) {
    raw.definitions.push_back(*Create(layer));
  }
  raw.runs = {{0, 1}, {1, 32}, {2, 1}};
  return raw;
}

absl::StatusOr<ModelSpec> Create(const RawModel& raw) {
  return ModelSpec::Create(raw.model_id, raw.definitions, raw.runs, Precision::kBf16,
                           Optimizer::kAdam);
}

TEST(ModelSpec, LaysItsRunsOutAsLayers) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, Create(LlamaModel()));
  EXPECT_EQ(model.layer_count(), 34);
  EXPECT_EQ(model.layer(0).kind, LayerKind::kEmbedding);
  EXPECT_EQ(model.layer(1).kind, LayerKind::kDecoder);
  EXPECT_EQ(model.layer(32).kind, LayerKind::kDecoder);
  EXPECT_EQ(model.layer(33).kind, LayerKind::kHead);
}

TEST(ModelSpec, CountsTheParametersOfLlamaTwo) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, Create(LlamaModel()));
  EXPECT_EQ(model.parameter_count(), 6'738'415'616);
}

// Vision and language, an encoder with a decoder, two towers with a head each as in CLIP, the
// second also without its head, parts of models, and a model of nothing but a table.
TEST(ModelSpec, TakesEmbeddingsBetweenLayersAndModelsWithoutThem) {
  for (const std::vector<ModelLayerRun>& runs :
       std::vector<std::vector<ModelLayerRun>>{{{0, 1}, {1, 2}, {0, 1}, {1, 2}, {2, 1}},
                                               {{0, 1}, {1, 2}, {2, 1}, {0, 1}, {1, 2}, {2, 1}},
                                               {{1, 2}, {2, 1}, {0, 1}, {1, 2}},
                                               {{1, 2}},
                                               {{0, 1}, {1, 2}},
                                               {{0, 1}},
                                               {{1, 2}, {2, 1}},
                                               {{0, 2}}}) {
    RawModel raw = LlamaModel();
    raw.runs = runs;
    EXPECT_OK(Create(raw).status());
  }
}

using BrokenModel = BrokenRule<RawModel>;

class ModelSpecRules : public testing::TestWithParam<BrokenModel> {};

TEST_P(ModelSpecRules, AreEnforcedAndNamed) {
  RawModel raw = LlamaModel();
  GetParam().break_it(raw);
  EXPECT_EQ(Rejection(Create(raw).status()), "SPEC_INVALID " + GetParam().field);
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelSpecRules,
    testing::ValuesIn(std::vector<BrokenModel>{
        {"NoId", "model.model_id", [](RawModel& m) { m.model_id = ""; }},
        {"IdWithSlash", "model.model_id", [](RawModel& m) { m.model_id = "meta/llama"; }},
        {"NoDefinitions", "model.layer_definitions", [](RawModel& m) { m.definitions.clear(); }},
        {"IdTwice", "model.layer_definitions[2].layer_definition_id",
         [](RawModel& m) { m.definitions[2].layer_definition_id = "embedding"; }},
        {"NoRuns", "model.layer_runs", [](RawModel& m) { m.runs.clear(); }},
        {"RunOfNothing", "model.layer_runs[1].layer_definition_id",
         [](RawModel& m) { m.runs[1].definition_index = 3; }},
        {"NegativeDefinition", "model.layer_runs[1].layer_definition_id",
         [](RawModel& m) { m.runs[1].definition_index = -1; }},
        {"EmptyRun", "model.layer_runs[1].layer_count",
         [](RawModel& m) { m.runs[1].layer_count = 0; }},
        {"TooManyLayers", "model.layer_runs[1].layer_count",
         [](RawModel& m) { m.runs[1].layer_count = kMaxLayerCount; }},
        {"HeadFirst", "model.layer_runs[1].layer_definition_id",
         [](RawModel& m) { std::reverse(m.runs.begin(), m.runs.end()); }},
        {"LayersAfterTheHead", "model.layer_runs[3].layer_definition_id",
         [](RawModel& m) {
           m.runs.push_back({1, 1});
         }},
        {"HeadAndEmbeddingFirst", "model.layer_runs[1].layer_definition_id",
         [](RawModel& m) {
           m.runs = {{2, 1}, {0, 1}, {1, 32}};
         }},
        {"LayersAfterTheHeadOfATower", "model.layer_runs[6].layer_definition_id",
         [](RawModel& m) {
           m.runs = {{0, 1}, {1, 2}, {2, 1}, {0, 1}, {1, 2}, {2, 1}, {1, 2}};
         }},
        {"TowerOfAnEmbedding", "model.layer_runs[3].layer_definition_id",
         [](RawModel& m) {
           m.runs = {{0, 1}, {1, 32}, {2, 1}, {0, 1}};
         }},
        {"EmbeddingLast", "model.layer_runs[1].layer_definition_id",
         [](RawModel& m) {
           m.runs = {{1, 32}, {0, 1}};
         }},
        {"TooManyParameters", "model.layer_runs[1].layer_count",
         [](RawModel& m) { m.definitions[1].parameter_count = int64_t{1} << 50; }},
    }),
    [](const testing::TestParamInfo<BrokenModel>& info) { return info.param.name; });

}  // namespace
}  // namespace parplan
