#include "clients/import/bridge_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "clients/import/megatron_run.h"
#include "clients/import/megatron_yaml.h"
#include "proto/wire/model_wire.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the arguments of a configuration without sizes, joined by blanks; the error's text goes
// to the test.
std::string Words(const std::string& text) {
  const absl::StatusOr<MegatronYaml> yaml = ReadMegatronYaml({"a.yaml", text});
  EXPECT_OK(yaml.status()) << text;
  return yaml.ok() ? absl::StrJoin(yaml->arguments, " ") : "";
}

void ExpectRefused(const std::string& text, const std::string& part) {
  EXPECT_THAT(
      ReadMegatronYaml({"a.yaml", text}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("a.yaml"), HasSubstr(part))))
      << text;
}

// Returns the run of a model of 16 layers on 8 devices; `top` are lines of YAML.
absl::StatusOr<MegatronRunImport> RunOf(const std::string& top) {
  return ImportMegatronRun(
      {"bridge.yml",
       absl::StrCat(top, "model:\n  num_layers: 16\n  hidden_size: 64\n  num_attention_heads: 4\n",
                    "  seq_length: 64\n  vocab_size: 100\n",
                    "train:\n  micro_batch_size: 1\n  global_batch_size: 8\n")},
      {.device_count = 8});
}

// Vectors: what each function of src/megatron/bridge/training/mixed_precision.py of release 0.3.1
// sets, and the last one of a later version.
TEST(AddBridgePrecision, GivesEachNameTheArgumentsOfItsFields) {
  const std::string fp8 = "--bf16 --fp8-format hybrid --fp8-recipe ";
  const std::string ends =
      " --first-last-layers-bf16 --num-layers-at-start-in-bf16 $ --num-layers-at-end-in-bf16 $";
  const std::string one = absl::StrReplaceAll(ends, {{"$", "1"}});
  const std::string two = absl::StrReplaceAll(ends, {{"$", "2"}});
  const std::vector<std::pair<std::string, std::string>> names = {
      {"bf16_mixed", "--bf16"},
      {"fp16_mixed", "--fp16"},
      {"bf16_with_fp8_delayed_scaling_mixed", fp8 + "delayed --fp8-param-gather"},
      {"bf16_with_fp8_current_scaling_mixed", fp8 + "tensorwise --fp8-param-gather" + one},
      {"bf16_with_fp8_subchannel_scaling_mixed", fp8 + "blockwise"},
      {"bf16_with_mxfp8_mixed", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather"},
      {"bf16_with_nvfp4_mixed", "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4"},
      {"nemotron_h_bf16_with_fp8_current_scaling_mixed",
       fp8 + "tensorwise --fp8-param-gather" + two},
      {"nanov2_bf16_with_fp8_current_scaling_mixed", fp8 + "blockwise --fp8-param-gather" + two},
      {"nemotron_3_super_bf16_with_nvfp4_mixed",
       "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4 --first-last-layers-bf16 "
       "--num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 14"},
      {"fp16_with_mxfp8_mixed", "--fp16 --fp8-format e4m3 --fp8-recipe mxfp8 --fp8-param-gather"},
  };
  for (const auto& [name, arguments] : names) {
    EXPECT_EQ(Words(absl::StrCat("mixed_precision: ", name, "\nmodel:\n  bf16: null\n")), arguments)
        << name;
    // Hyphens count as underscores.
    EXPECT_EQ(Words(absl::StrCat("mixed_precision: ", absl::StrReplaceAll(name, {{"_", "-"}}),
                                 "\nmodel:\n  bf16: null\n")),
              arguments)
        << name;
  }
}

TEST(AddBridgePrecision, WritesOverTheFieldsOfTheModel) {
  // The name alone counts, whatever the model's fields say and where they stand.
  const std::string fields =
      "model:\n  fp16: true\n  fp8: e4m3\n  fp8_recipe: mxfp8\n  fp8_param: true\n"
      "  first_last_layers_bf16: true\n  num_layers_at_start_in_bf16: 3\n"
      "  num_layers_at_end_in_bf16: 3\n  fp4: e2m1\n  fp4_recipe: nvfp4\n";
  EXPECT_EQ(Words("mixed_precision: bf16_mixed\n" + fields), "--bf16");
  EXPECT_EQ(Words(fields + "mixed_precision: bf16_mixed\n"), "--bf16");
  // Without a name the fields of the model count.
  for (const char* const none : {"null", ""}) {
    EXPECT_EQ(Words(absl::StrCat("mixed_precision: ", none,
                                 "\nmodel:\n  bf16: true\n  fp8: hybrid\n  fp8_recipe: tensorwise\n"
                                 "  fp8_param: true\n  first_last_layers_bf16: true\n")),
              "--bf16 --fp8-format hybrid --fp8-recipe tensorwise --fp8-param-gather "
              "--first-last-layers-bf16");
  }
}

// The map that `ConfigContainer.to_yaml` writes of a configuration that was set up.
TEST(AddBridgePrecision, ReadsAMapAsTheNameWithTheSameFields) {
  const std::string map =
      "mixed_precision:\n"
      "  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig\n"
      "  autocast_dtype: null\n  autocast_enabled: false\n  bf16: true\n"
      "  first_last_layers_bf16: true\n  fp16: false\n  fp32: false\n  fp4: null\n"
      "  fp4_recipe: nvfp4\n  fp8: hybrid\n  fp8_amax_compute_algo: most_recent\n"
      "  fp8_amax_history_len: 1\n  fp8_dot_product_attention: false\n  fp8_margin: 0\n"
      "  fp8_multi_head_attention: false\n  fp8_param: true\n  fp8_param_gather: true\n"
      "  fp8_recipe: tensorwise\n  fp8_wgrad: true\n  grad_reduce_in_fp32: true\n"
      "  hysteresis: 2\n  initial_loss_scale: 4294967296\n  loss_scale: null\n"
      "  loss_scale_window: 1000\n  min_loss_scale: 1.0\n  num_layers_at_end_in_bf16: 1\n"
      "  num_layers_at_start_in_bf16: 1\n"
      "  params_dtype:\n    _call_: false\n    _target_: torch.bfloat16\n"
      "  pipeline_dtype:\n    _call_: false\n    _target_: torch.bfloat16\n"
      "  reuse_grad_buf_for_mxfp8_param_ag: false\n";
  const std::string model = "model:\n  bf16: false\n  fp8: null\n";
  EXPECT_EQ(Words(map + model),
            Words("mixed_precision: bf16_with_fp8_current_scaling_mixed\n" + model));
  // Defaults of the class stand for absent fields.
  EXPECT_EQ(Words("mixed_precision:\n  bf16: true\n  fp8: e4m3\n" + model),
            "--bf16 --fp8-format e4m3 --fp8-recipe tensorwise");
  EXPECT_EQ(Words("mixed_precision:\n  bf16: true\n  fp8: e4m3\n  first_last_layers_bf16: true\n"
                  "  num_layers_at_end_in_bf16: 3\n" +
                  model),
            "--bf16 --fp8-format e4m3 --fp8-recipe tensorwise --first-last-layers-bf16 "
            "--num-layers-at-start-in-bf16 0 --num-layers-at-end-in-bf16 3");
}

TEST(AddBridgePrecision, RefusesWithTheKey) {
  const std::string model = "\nmodel:\n  num_layers: 4\n";
  ExpectRefused("mixed_precision: bf16_with_fp6_mixed" + model,
                "mixed_precision: is `bf16_with_fp6_mixed`, and must be one of bf16_mixed, ");
  ExpectRefused("mixed_precision: bf16_with_fp6_mixed" + model,
                "leave the name out and give them as fields of `model`");
  ExpectRefused("mixed_precision:\n  bf16: yes" + model,
                "mixed_precision.bf16: must be true or false");
  ExpectRefused("mixed_precision:\n  bf16: true\n  new_field: 3" + model,
                "mixed_precision.new_field: is no field");
  ExpectRefused("mixed_precision:\n  bf16: true\n  fp8_dot_product_attention: true" + model,
                "mixed_precision.fp8_dot_product_attention: is no field");
  ExpectRefused("mixed_precision:\n  _target_: a.b.bf16_mixed" + model,
                "must be MixedPrecisionConfig");
  ExpectRefused("mixed_precision:\n  fp8: hybrid\n  fp8_param: true" + model,
                "mixed_precision.fp8_param: must be what fp8_param_gather is");
  ExpectRefused("mixed_precision:\n  fp8:\n    a: b" + model,
                "mixed_precision.fp8.a: must be one value");
  // Their reader refuses what no precision has.
  EXPECT_THAT(RunOf("mixed_precision: fp16_with_mxfp8_mixed\n").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs --bf16")));
  EXPECT_THAT(
      RunOf("mixed_precision:\n  bf16: true\n  fp4: e2m1\n  fp4_param_gather: true\n").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fp4-param-gather")));
  EXPECT_THAT(RunOf("mixed_precision:\n  bf16: true\n  fp4: e2m1\n  fp8: hybrid\n").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("contradicts --fp8-format")));
}

TEST(AddBridgePrecision, MakesModelAndRuntimeOfEachName) {
  struct Expected {
    const char* name;
    v1::Precision precision;
    bool narrow_parameters;
    // Layers of 16 that multiply in 16 bits.
    int wide;
  };
  for (const Expected& expected : {
           Expected{"bf16_mixed", v1::PRECISION_BF16, false, 0},
           Expected{"bf16_with_fp8_delayed_scaling_mixed", v1::PRECISION_FP8_DELAYED, true, 0},
           Expected{"bf16_with_fp8_current_scaling_mixed", v1::PRECISION_FP8_CURRENT, true, 2},
           Expected{"bf16_with_fp8_subchannel_scaling_mixed", v1::PRECISION_FP8_BLOCKWISE, false,
                    0},
           Expected{"bf16_with_mxfp8_mixed", v1::PRECISION_MXFP8, true, 0},
           Expected{"bf16_with_nvfp4_mixed", v1::PRECISION_NVFP4, false, 0},
           Expected{"nanov2_bf16_with_fp8_current_scaling_mixed", v1::PRECISION_FP8_BLOCKWISE, true,
                    4},
           Expected{"nemotron_3_super_bf16_with_nvfp4_mixed", v1::PRECISION_NVFP4, false, 14},
       }) {
    const absl::StatusOr<MegatronRunImport> run =
        RunOf(absl::StrCat("mixed_precision: ", expected.name, "\n"));
    ASSERT_OK(run.status()) << expected.name;
    EXPECT_EQ(run->model.precision(), expected.precision) << expected.name;
    EXPECT_EQ(run->runtime_id,
              expected.narrow_parameters ? kMegatronNarrowRuntime : kMegatronRuntime)
        << expected.name;
    ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(run->model));
    int wide = 0;
    for (int i = 0; i < model.layer_count(); ++i) wide += model.layer(i).wide_products ? 1 : 0;
    EXPECT_EQ(wide, expected.wide) << expected.name;
  }
}

}  // namespace
}  // namespace parplan
