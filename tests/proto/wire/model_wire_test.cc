#include "proto/wire/model_wire.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/proto/wire/random_values.h"
#include "tests/support/rejection.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

v1::ModelSpec SmallMessage() {
  v1::ModelSpec model;
  model.set_model_id("small");
  v1::LayerDefinition& decoder = *model.add_layer_definitions();
  decoder.set_layer_definition_id("decoder");
  decoder.set_kind(v1::LAYER_KIND_DECODER);
  decoder.set_hidden_size(64);
  decoder.set_attention_head_count(4);
  decoder.set_feed_forward_size(256);
  decoder.set_feed_forward_kind(v1::FEED_FORWARD_KIND_GELU);
  decoder.set_sequence_length(32);
  v1::LayerDefinition& head = *model.add_layer_definitions();
  head.set_layer_definition_id("head");
  head.set_kind(v1::LAYER_KIND_HEAD);
  head.set_hidden_size(64);
  head.set_sequence_length(32);
  head.set_vocabulary_size(1000);
  v1::ModelLayerRun& decoders = *model.add_layer_runs();
  decoders.set_layer_definition_id("decoder");
  decoders.set_layer_count(3);
  v1::ModelLayerRun& heads = *model.add_layer_runs();
  heads.set_layer_definition_id("head");
  heads.set_layer_count(1);
  model.set_precision(v1::PRECISION_BF16);
  model.set_optimizer(v1::OPTIMIZER_ADAM);
  return model;
}

TEST(ModelWire, ThereAndBackIsTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(RandomValues(seed).Model()));
    ASSERT_OK_AND_ASSIGN(const ModelSpec again, ModelFromProto(ModelToProto(model)));
    EXPECT_TRUE(again == model);
  }
}

TEST(ModelWire, KeepsOrderAndMeaningOfRuns) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(SmallMessage()));
  EXPECT_EQ(model.layer_count(), 4);
  EXPECT_EQ(model.layer(2).kind, LayerKind::kDecoder);
  EXPECT_EQ(model.layer(3).kind, LayerKind::kHead);
  EXPECT_EQ(model.layer(0).key_value_head_count, 4);
  EXPECT_EQ(model.layer(0).head_size, 16);
  EXPECT_GT(model.layer(0).parameter_count, 0);
}

TEST(ModelWire, NamesTheFieldThatBreaksARule) {
  struct Case {
    std::string field;
    std::function<void(v1::ModelSpec&)> change;
  };
  const auto decoder = [](v1::ModelSpec& m) { return m.mutable_layer_definitions(0); };
  const auto head = [](v1::ModelSpec& m) { return m.mutable_layer_definitions(1); };
  const std::vector<Case> cases = {
      {"model_id", [](auto& m) { m.clear_model_id(); }},
      {"model_id", [](auto& m) { m.set_model_id("a/b"); }},
      {"layer_definitions",
       [](auto& m) {
         m.clear_layer_definitions();
         m.clear_layer_runs();
       }},
      {"layer_definitions[1].layer_definition_id",
       [&](auto& m) { head(m)->set_layer_definition_id("decoder"); }},
      {"layer_definitions[0].kind", [&](auto& m) { decoder(m)->clear_kind(); }},
      {"layer_definitions[0].kind",
       [&](auto& m) { decoder(m)->set_kind(static_cast<v1::LayerKind>(77)); }},
      {"layer_definitions[0].hidden_size", [&](auto& m) { decoder(m)->set_hidden_size(0); }},
      {"layer_definitions[0].attention_head_count",
       [&](auto& m) { decoder(m)->set_attention_head_count(5); }},
      {"layer_definitions[0].key_value_head_count",
       [&](auto& m) { decoder(m)->set_key_value_head_count(3); }},
      {"layer_definitions[0].feed_forward_size",
       [&](auto& m) { decoder(m)->clear_feed_forward_size(); }},
      {"layer_definitions[0].feed_forward_kind",
       [&](auto& m) { decoder(m)->clear_feed_forward_kind(); }},
      {"layer_definitions[1].feed_forward_kind",
       [&](auto& m) { head(m)->set_feed_forward_kind(v1::FEED_FORWARD_KIND_GELU); }},
      {"layer_definitions[0].sequence_length",
       [&](auto& m) { decoder(m)->set_sequence_length(-4); }},
      {"layer_definitions[1].vocabulary_size", [&](auto& m) { head(m)->clear_vocabulary_size(); }},
      {"layer_definitions[0].parameter_count",
       [&](auto& m) { decoder(m)->set_parameter_count(-1); }},
      {"layer_runs", [](auto& m) { m.clear_layer_runs(); }},
      {"layer_runs[1].layer_definition_id",
       [](auto& m) { m.mutable_layer_runs(1)->set_layer_definition_id("tail"); }},
      {"layer_runs[1].layer_count", [](auto& m) { m.mutable_layer_runs(1)->set_layer_count(0); }},
      {"layer_runs", [](auto& m) { m.mutable_layer_runs(0)->set_layer_count(2'000'000'000); }},
      {"precision", [](auto& m) { m.clear_precision(); }},
      {"optimizer", [](auto& m) { m.set_optimizer(static_cast<v1::Optimizer>(9)); }},
  };
  ASSERT_OK(ModelFromProto(SmallMessage()));
  for (const Case& c : cases) {
    v1::ModelSpec broken = SmallMessage();
    c.change(broken);
    EXPECT_EQ(Rejection(ModelFromProto(broken, "spec.model").status()),
              "SPEC_INVALID spec.model." + c.field);
  }
}

TEST(ModelWire, RefusesSizesWhoseProductsOverflow) {
  v1::ModelSpec model = SmallMessage();
  v1::LayerDefinition& decoder = *model.mutable_layer_definitions(0);
  decoder.set_hidden_size(1 << 24);
  decoder.set_attention_head_count(1 << 24);
  decoder.set_head_size(1 << 24);
  EXPECT_EQ(Rejection(ModelFromProto(model).status()).substr(0, 39),
            "SPEC_INVALID model.layer_definitions[0]");
  decoder.set_head_size(1);
  EXPECT_EQ(Rejection(ModelFromProto(model).status()),
            "SPEC_INVALID model.layer_definitions[0].parameter_count");
  decoder.set_parameter_count(int64_t{1} << 50);
  EXPECT_EQ(Rejection(ModelFromProto(model).status()),
            "SPEC_INVALID model.layer_runs[0].layer_count");
}

TEST(ModelWire, ListsTheValuesOfAnEnum) {
  v1::ModelSpec model = SmallMessage();
  model.clear_precision();
  EXPECT_THAT(ModelFromProto(model),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr(
                           "must be one of PRECISION_FP32, PRECISION_BF16, PRECISION_FP16")));
}

}  // namespace
}  // namespace parplan
