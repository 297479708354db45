#include "clients/import/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kWithoutFamily[] =
    "config.json: model_type: is required: it says what the sizes leave open";

TEST(ReadModelConfig, AMissingFamilyIsRefusedWhateverTheSizesLookLike) {
  for (const char* config : {
           kGated,
           kMixture,
           R"({"n_embd": 64, "n_head": 4, "n_layer": 3, "vocab_size": 100})",
           R"({"d_model": 64, "d_ff": 96, "d_kv": 16, "num_heads": 4, "num_layers": 2,
               "vocab_size": 100})",
           R"({"image_size": 32, "patch_size": 16, "hidden_size": 64, "num_attention_heads": 4,
               "num_hidden_layers": 2})",
           "{}",
       }) {
    for (const char* type : {"null", R"("")"}) {
      EXPECT_THAT(
          ImportConfigText(With(config, absl::StrCat(R"({"model_type": )", type, "}").c_str()))
              .status(),
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kWithoutFamily)))
          << config;
    }
  }
  const std::string part = With(kGated, R"({"model_type": null})");
  EXPECT_THAT(ImportConfigText(absl::StrCat(R"({"text_config": )", part, "}")).status().ToString(),
              HasSubstr("config.json: text_config.model_type: is required"));
  // The part's own family is enough.
  EXPECT_EQ(ParametersOf(absl::StrCat(R"({"text_config": )", kGated, "}")), ParametersOf(kGated));
}

TEST(ReadModelConfig, LlamasOwnNamesAreLlamaWithANoteAndNoUnknownField) {
  constexpr char kOwn[] = R"({"dim": 64, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2,
      "multiple_of": 32, "norm_eps": 1e-5, "vocab_size": 100})";
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kOwn));
  EXPECT_EQ(import.model.layer_definitions(1).feed_forward_size(), 192);
  EXPECT_THAT(import.notes,
              Contains(HasSubstr("model_type is missing; dim, n_layers and n_heads")));
  EXPECT_THAT(ImportConfigText(With(kOwn, R"({"moe": {"num_experts": 8}})")).status().ToString(),
              HasSubstr("config.json: moe: is not known"));
}

TEST(ReadModelConfig, GalvatronsConfigsNeedNoFamily) {
  const nlohmann::json config = nlohmann::json::parse(With(kGated, R"({"model_type": null})"));
  std::vector<std::string> notes;
  ASSERT_OK_AND_ASSIGN(
      const ModelFacts facts,
      ReadModelConfig(config, "config.json", ConfigSource::kGalvatron, {}, &notes));
  EXPECT_EQ(facts.runs.front().layer_count, 3);
  EXPECT_THAT(notes, IsEmpty());
}

// A family that is not known has other names of sizes: that it lacks one of ours is no news.
TEST(ReadModelConfig, AnUnknownFamilyIsNamedBeforeSizesThatItLacks) {
  for (const char* change :
       {R"({"num_hidden_layers": null})", R"({"hidden_size": null, "width": 64})",
        R"({"num_attention_heads": null})"}) {
    const std::string config = With(kGated, R"({"model_type": "brand-new"})");
    EXPECT_THAT(ImportConfigText(With(config.c_str(), change)).status().ToString(),
                HasSubstr("config.json: model_type: `brand-new` is not known"))
        << change;
  }
  EXPECT_THAT(
      ImportConfigText(R"({"model_type": "swinv2", "image_size": 256, "patch_size": 4,
                                   "embed_dim": 96, "depths": [2, 2], "num_heads": [3, 6]})")
          .status()
          .ToString(),
      HasSubstr("config.json: model_type: `swinv2` is not known: stages of several widths"));
}

TEST(ReadModelConfig, AllUnknownFieldsAreInOneError) {
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"num_quuxes": 2, "quux": [1], "quux_size": 3})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: num_quuxes: is not known and might change the layers; so are "
                        "quux, quux_size; write"));
}

TEST(ReadModelConfig, FieldsWithoutEffectHaveTheirType) {
  const struct {
    const char* change;
    const char* field;
  } cases[] = {
      {R"({"hidden_act": 7})", "hidden_act: must be a text"},
      {R"({"architectures": "LlamaForCausalLM"})", "architectures: must be a list of texts"},
      {R"({"rope_scaling": "linear"})", "rope_scaling: must be an object"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kGated, test.change)).status().ToString(),
                HasSubstr(absl::StrCat("config.json: ", test.field)));
  }
}

TEST(ReadModelConfig, FlagsOfOneMeaningMustAgree) {
  EXPECT_THAT(ImportConfigText(
                  With(kGated, R"({"tie_word_embeddings": true, "use_embedding_sharing": false})"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: use_embedding_sharing: contradicts tie_word_embeddings, "
                        "which says true"));
  EXPECT_OK(ImportConfigText(With(kGated, R"({"use_bias": false, "bias": false})")).status());
}

TEST(ReadModelConfig, ControlCharactersAreEscapedInNotesAndErrors) {
  const std::string config = With(kGated, R"({"model_type": "x\u001b[31m\ny", "hidden_act": "silu",
      "rms_norm_eps": 1e-5, "architectures": ["BrandNewForCausalLM"]})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, ElementsAre(HasSubstr(R"(model_type `x\x1b[31m\x0ay` is not known)")));
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"num_\u001b[31m": 3})")).status().ToString(),
              HasSubstr(R"(config.json: num_\x1b[31m: is not known)"));
}

TEST(ReadModelConfig, TheClassOfAKnownFamilyStandsForItsType) {
  const struct {
    const char* class_name;
    const char* model_type;
  } cases[] = {{"LlamaForCausalLM", "llama"},
               {"Qwen3ForCausalLM", "qwen3"},
               {"GPTNeoXForCausalLM", "gpt_neox"},
               {"Gemma2ForCausalLM", "gemma2"},
               {"BertForMaskedLM", "bert"}};
  for (const auto& test : cases) {
    const std::string named =
        With(kGated,
             absl::StrCat(R"({"model_type": null, "architectures": [")", test.class_name, R"("]})")
                 .c_str());
    const std::string typed =
        With(kGated, absl::StrCat(R"({"model_type": ")", test.model_type, R"("})").c_str());
    EXPECT_EQ(ParametersOf(named), ParametersOf(typed)) << test.class_name;
    ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(named));
    EXPECT_THAT(import.notes, Contains(HasSubstr("model_type is missing; the class")));
    // The same for the language model of several parts.
    EXPECT_EQ(ParametersOf(absl::StrCat(R"({"text_config": )", named, "}")), ParametersOf(typed));
  }
  for (const char* unknown : {"BrandNewForCausalLM", "LlamaForSequenceClassification", "Llama"}) {
    const std::string change =
        absl::StrCat(R"({"model_type": null, "architectures": [")", unknown, R"("]})");
    EXPECT_THAT(ImportConfigText(With(kGated, change.c_str())).status().ToString(),
                HasSubstr("model_type: is required"))
        << unknown;
  }
}

TEST(ReadModelConfig, SaysHowWeightsAreStoredAndThatAHeadIsAnother) {
  const auto notes = [](const char* change) {
    const absl::StatusOr<HuggingFaceImport> import = ImportConfigText(With(kGated, change));
    EXPECT_OK(import.status()) << change;
    return import.ok() ? import->notes : std::vector<std::string>();
  };
  EXPECT_THAT(notes(R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})"),
              ElementsAre(HasSubstr("quantization_config (gptq): is how the file's weights are")));
  EXPECT_THAT(notes(R"({"quantization": {"bits": 4, "group_size": 64}})"),
              ElementsAre(HasSubstr("quantization: is how the file's weights are")));
  EXPECT_THAT(notes(R"({"compression_config": {"quant_method": "compressed-tensors"}})"),
              ElementsAre(HasSubstr("compression_config (compressed-tensors)")));
  EXPECT_THAT(
      notes(R"({"quantization_config": "fp8"})"),
      ElementsAre(HasSubstr("quantization_config \"fp8\": is about how the file's weights")));
  EXPECT_THAT(notes(R"({"quantization_config": false, "quantization": {}})"), IsEmpty());
  // The language model of a multimodal one may have the setting.
  const std::string quantized = With(kGated, R"({"quantization_config": {"quant_method": "fp8"}})");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport part,
                       ImportConfigText(absl::StrCat(R"({"text_config": )", quantized, "}")));
  EXPECT_THAT(part.notes, Contains(HasSubstr("text_config.quantization_config (fp8): is how")));
  EXPECT_THAT(notes(R"({"architectures": ["LlamaForSequenceClassification"]})"),
              ElementsAre(HasSubstr("the model here has a head of the vocabulary")));
}

}  // namespace
}  // namespace parplan
