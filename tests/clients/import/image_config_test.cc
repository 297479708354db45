#include "clients/import/image_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "clients/import/config_fields.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two layers of 16 values in two heads over 4 by 4 patches of 2 by 2 pixels, and 5 classes.
constexpr char kVit[] = R"({"model_type": "vit", "hidden_size": 16, "intermediate_size": 32,
    "num_attention_heads": 2, "num_hidden_layers": 2, "image_size": 8, "patch_size": 2,
    "num_labels": 5})";

// A layer: four matrices and their biases, two matrices and theirs, two norms.
constexpr int64_t kVitLayer = 4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16;
constexpr int64_t kVitPatches = 12 * 16 + 16;
constexpr int64_t kVitHead = 2 * 16 + 16 * 5 + 5;

TEST(ReadVit, CountsTokensPositionsAndScalesOfBlocks) {
  const int64_t plain = ParametersOf(kVit);
  EXPECT_EQ(plain, 2 * kVitLayer + kVitPatches + (16 + 1 + 1) * 16 + kVitHead);
  EXPECT_EQ(ParametersOf(With(kVit, R"({"qkv_bias": false})")) - plain, -2 * 3 * 16);
  EXPECT_EQ(ParametersOf(With(kVit, R"({"num_register_tokens": 4})")) - plain, 4 * 16);
  EXPECT_EQ(ParametersOf(With(kVit, R"({"model_type": "dinov2"})")) - plain, 2 * 2 * 16);
}

// A token beside the class's, with its position, and a classifier that reads its output.
TEST(ReadVit, DistilledOnesHaveAFurtherTokenAndAFurtherHead) {
  const std::string deit = With(kVit, R"({"model_type": "deit"})");
  EXPECT_EQ(ParametersOf(deit) - ParametersOf(kVit), 2 * 16);
  EXPECT_EQ(ParametersOf(With(deit.c_str(), R"({"architectures":
                ["DeiTForImageClassificationWithTeacher"]})")) -
                ParametersOf(deit),
            16 * 5 + 5);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(deit));
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 16 + 1 + 1);
  // DeiT-B distilled as published.
  EXPECT_EQ(ParametersOf(R"({"model_type": "deit", "hidden_size": 768, "intermediate_size": 3072,
                "num_attention_heads": 12, "num_hidden_layers": 12, "image_size": 224,
                "patch_size": 16, "architectures": ["DeiTForImageClassificationWithTeacher"]})"),
            87338192);
}

// The distances of 4 by 4 patches are 7 by 7, and three of the class's token.
TEST(ReadVit, BeitHasDistancesAndNoPositionsAndNoBiasesOfKeys) {
  const int64_t distances = (7 * 7 + 3) * 2;
  const std::string own = With(kVit, R"({"model_type": "beit", "vocab_size": 8192,
      "use_relative_position_bias": true, "use_absolute_position_embeddings": false,
      "use_shared_relative_position_bias": false, "layer_scale_init_value": 0.1})");
  EXPECT_EQ(ParametersOf(own),
            2 * (kVitLayer - 16 + 2 * 16 + distances) + kVitPatches + 16 + kVitHead);
  const std::string common = With(own.c_str(), R"({"use_relative_position_bias": false,
      "use_shared_relative_position_bias": true, "use_absolute_position_embeddings": true})");
  EXPECT_EQ(ParametersOf(common),
            2 * (kVitLayer - 16 + 2 * 16) + kVitPatches + (16 + 1 + 1) * 16 + distances + kVitHead);
  // No parameters scale the blocks if the value that they begin at is 0; by default it is 0.1.
  for (const char* none :
       {R"({"layer_scale_init_value": 0})", R"({"layer_scale_init_value": -1})"}) {
    EXPECT_EQ(ParametersOf(own) - ParametersOf(With(own.c_str(), none)), 2 * 2 * 16) << none;
  }
  EXPECT_EQ(ParametersOf(With(own.c_str(), R"({"layer_scale_init_value": null})")),
            ParametersOf(own));
  EXPECT_THAT(ImportConfigText(With(own.c_str(), R"({"layer_scale_init_value": "a"})")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("config.json: layer_scale_init_value: ")));
}

// Two stages: 8 by 8 patches of 4 by 4 pixels, 8 wide; then 4 by 4, 16 wide.
constexpr char kSwin[] = R"({"model_type": "swin", "embed_dim": 8, "depths": [2, 1],
    "num_heads": [2, 4], "window_size": 4, "mlp_ratio": 4.0, "image_size": 32, "patch_size": 4,
    "num_labels": 5, "path_norm": true, "num_layers": 2, "hidden_size": 16})";

// An error of the last fields that are read, too, is the result.
TEST(ReadVit, ReturnsTheErrorOfAnyField) {
  for (const char* change :
       {R"({"intermediate_size": -1})", R"({"qkv_bias": 3})", R"({"num_register_tokens": "two"})",
        R"({"layer_scale_init_value": []})"}) {
    const nlohmann::json config = nlohmann::json::parse(With(kVit, change));
    ConfigFields fields(config, "config.json", "");
    EXPECT_THAT(ReadVit("vit", true, fields).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("config.json: ")))
        << change;
  }
}

TEST(ReadSwin, CountsWhatMergesPatchesAndTheDistancesInWindows) {
  const int64_t distances = 7 * 7;
  const int64_t first = 4 * (8 * 8 + 8) + 2 * 8 * 32 + 32 + 8 + 4 * 8 + distances * 2;
  const int64_t second = 4 * (16 * 16 + 16) + 2 * 16 * 64 + 64 + 16 + 4 * 16 + distances * 4;
  const int64_t merging = 4 * 8 * 2 * 8 + 2 * 4 * 8;
  const int64_t patches = 48 * 8 + 8 + 2 * 8;
  const int64_t head = 2 * 16 + 16 * 5 + 5;
  EXPECT_EQ(ParametersOf(kSwin), patches + 2 * first + merging + second + head);
  EXPECT_EQ(ParametersOf(With(kSwin, R"({"use_absolute_embeddings": true})")) - ParametersOf(kSwin),
            64 * 8);
}

TEST(ReadSwin, WindowsAreChunksUnlessTheyHoldTheWholeImage) {
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(kSwin));
  EXPECT_EQ(LayersOf(import.model), "cc.");
  EXPECT_EQ(import.model.layer_definitions(1).sequence_length(), 64);
  EXPECT_EQ(import.model.layer_definitions(2).sequence_length(), 16);
}

// Numbers of patches that reach the blocks of transformers' SwinForImageClassification.
TEST(ReadSwin, OddSidesAreRoundedUpSoThatNoStageIsLost) {
  const auto lengths = [](const char* change) {
    const absl::StatusOr<HuggingFaceImport> import = ImportConfigText(With(kSwin, change));
    EXPECT_OK(import.status());
    std::vector<int> found;
    for (const v1::LayerDefinition& layer : import->model.layer_definitions()) {
      if (layer.kind() == v1::LAYER_KIND_ENCODER) found.push_back(layer.sequence_length());
    }
    return found;
  };
  EXPECT_THAT(lengths(R"({"image_size": 36, "depths": [1, 1, 1], "num_heads": [2, 4, 8]})"),
              ElementsAre(81, 25, 9));
  EXPECT_THAT(lengths(R"({"image_size": 4, "depths": [1, 1, 1], "num_heads": [2, 4, 8]})"),
              ElementsAre(1, 1, 1));
}

// transformers makes 6,517 parameters with windows of 4 by 4, 7,925 with 8 by 8, and as many for an
// image with fewer patches than a window has; 20,931 with a third stage.
TEST(ReadSwin, TablesOfScoresAreOfWholeWindows) {
  EXPECT_EQ(ParametersOf(kSwin), 6517);
  EXPECT_EQ(ParametersOf(With(kSwin, R"({"image_size": 12})")), 6517);
  EXPECT_EQ(ParametersOf(With(kSwin, R"({"window_size": 8})")), 7925);
  EXPECT_EQ(ParametersOf(With(kSwin, R"({"depths": [1, 1, 1], "num_heads": [2, 4, 8],
                                         "image_size": 36})")),
            20931);
}

TEST(ReadSwin, RefusesBySize) {
  const struct {
    const char* change;
    const char* field;
  } cases[] = {
      {R"({"num_heads": [2]})", "num_heads: must have as many entries"},
      {R"({"num_heads": [3, 4]})", "num_heads[0]: must divide 8"},
      {R"({"depths": 3})", "depths: must be a list"},
      {R"({"embed_dim": 16777216})", "embed_dim: must be at most"},
      {R"({"window_size": 4096})", "window_size: must be at most"},
      {R"({"patch_size": 64})", "patch_size: must divide the image"},
      {R"({"num_channels": 65})", "num_channels: must be at most 64"},
      {R"({"image_size": 65537})", "image_size: must be at most 65536"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(ImportConfigText(With(kSwin, test.change)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(test.field)))
        << test.change;
  }
}

}  // namespace
}  // namespace parplan
