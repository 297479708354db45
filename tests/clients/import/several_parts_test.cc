#include "clients/import/several_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FindLanguagePart, FollowsPartsOfParts) {
  const std::string config =
      absl::StrCat(R"({"model_type": "omni", "talker_config": {"hidden_size": 8},
      "thinker_config": {"model_type": "omni_thinker", "audio_config": {"d_model": 8},
                         "text_config": )",
                   kGated, "}}");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("other parts than the language model: "
                                               "talker_config")));
  EXPECT_THAT(import.notes, Contains(HasSubstr("audio_config (d_model 8)")));
  const std::string broken =
      absl::StrCat(R"({"model_type": "omni", "thinker_config": {"text_config": )",
                   With(kGated, R"({"hidden_size": -1})"), "}}");
  EXPECT_THAT(ImportConfigText(broken).status().ToString(),
              HasSubstr("config.json: thinker_config.text_config.hidden_size: "));
}

TEST(FindLanguagePart, FieldsOfOtherPartsAreNotedAndNotRefused) {
  const std::string config =
      absl::StrCat(R"({"model_type": "vision", "downsample_ratio": 0.5, "num_tiles": 12,
      "speech_config": {"hidden_size": 8}, "use_lora": 0, "text_config": )",
                   kGated, "}");
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("other parts than the language model: "
                                               "downsample_ratio, num_tiles, speech_config")));
  // Those inside the language model are not.
  EXPECT_THAT(ImportConfigText(absl::StrCat(R"({"model_type": "vision", "text_config": )",
                                            With(kGated, R"({"num_tiles": 12})"), "}"))
                  .status()
                  .ToString(),
              HasSubstr("config.json: text_config.num_tiles: "));
}

// A type that is null is none, as other fields that the whole file has.
TEST(FindLanguagePart, APartWithoutATypeHasThatOfTheWholeFile) {
  const std::string config = absl::StrCat(R"({"model_type": "llama", "text_config": )",
                                          With(kGated, R"({"model_type": null})"), "}");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
}

TEST(FindLanguagePart, AnEmptyPartIsNone) {
  EXPECT_EQ(ParametersOf(With(kGated, R"({"text_config": {}})")), ParametersOf(kGated));
}

// LLaVA's first files have the fields of the language model beside those of the tower.
TEST(FindLanguagePart, ATowerBesideTheFieldsOfTheLanguageModelIsNoted) {
  const std::string config = With(kGated, R"({"mm_vision_tower": "clip", "mm_hidden_size": 8,
      "use_mm_proj": true, "vit_patch": 1, "anyres_pooling_size": 2})");
  EXPECT_EQ(ParametersOf(config), ParametersOf(kGated));
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes, Contains(HasSubstr("mm_vision_tower \"clip\": this tower is left")));
}

// LLaVA-1.5's file says only what differs from Llama's defaults, those of Llama-2-7B.
TEST(FindLanguagePart, WhatTheLanguageModelLeavesOutIsItsFamilysDefault) {
  const char config[] = R"({"model_type": "llava", "text_config": {"model_type": "llama",
      "vocab_size": 32064, "max_position_embeddings": 4096}})";
  EXPECT_EQ(ParametersOf(config), int64_t{6738415616} + 2 * 64 * 4096);
  ASSERT_OK_AND_ASSIGN(const HuggingFaceImport import, ImportConfigText(config));
  EXPECT_THAT(import.notes,
              Contains(HasSubstr("text_config leaves these to the defaults of llama: "
                                 "num_hidden_layers 32, hidden_size 4096, intermediate_size "
                                 "11008, num_attention_heads 32")));
  // The whole file of a language model says its sizes.
  EXPECT_THAT(
      ImportConfigText(R"({"model_type": "llama", "vocab_size": 32064})").status().ToString(),
      HasSubstr("config.json: num_hidden_layers: is required"));
}

// CLIP and SigLIP: the text is one of two towers, and no language model.
TEST(FindLanguagePart, PairsOfTowersAreRefusedAsSuch) {
  for (const char* const tower : {"clip_text_model", "siglip_text_model"}) {
    const std::string config =
        absl::StrCat(R"({"model_type": "pair", "vision_config": {"hidden_size": 8}, "text_config":
            {"model_type": ")",
                     tower, R"("}})");
    EXPECT_THAT(ImportConfigText(config).status().ToString(),
                HasSubstr(absl::StrCat("config.json: text_config.model_type: `", tower,
                                       "` is one of two towers that are trained side by side")));
  }
}

TEST(SeveralParts, ADifferentTyingOfTheWholeIsNoted) {
  const auto notes_of = [](const char* whole) {
    const std::string text = With(kGated, R"({"tie_word_embeddings": false})");
    const auto import = ImportConfigText(
        absl::StrCat(R"({"model_type": "mistral3", "text_config": )", text, whole, "}"));
    return import.ok() ? absl::StrJoin(import->notes, "\n") : import.status().ToString();
  };
  EXPECT_THAT(notes_of(R"(, "tie_word_embeddings": true)"),
              HasSubstr("tie_word_embeddings of the whole model is not that of "
                        "text_config.tie_word_embeddings, which is taken"));
  EXPECT_THAT(notes_of(R"(, "tie_word_embeddings": false)"), Not(HasSubstr("of the whole model")));
}

// Classes of transformers tie by what the language model says, and from release 5 on by what the
// whole model says.
TEST(SeveralParts, TheReleaseThatWroteTheFileDecidesWhichTyingHolds) {
  const auto parameters = [](const char* in_part, const char* whole) {
    return ParametersOf(absl::StrCat(R"({"model_type": "mistral3", "text_config": )",
                                     With(kGated, in_part), whole, "}"));
  };
  const char untied[] = R"({"tie_word_embeddings": false})";
  const char tied[] = R"({"tie_word_embeddings": true})";
  const int64_t without_head = ParametersOf(With(kGated, tied));
  const int64_t with_head = ParametersOf(With(kGated, untied));
  ASSERT_LT(without_head, with_head);
  EXPECT_EQ(parameters(untied, R"(, "tie_word_embeddings": true,
                                   "transformers_version": "4.57.1")"),
            with_head);
  EXPECT_EQ(parameters(untied, R"(, "tie_word_embeddings": true,
                                   "transformers_version": "5.0.0rc1")"),
            without_head);
  EXPECT_EQ(parameters(tied, R"(, "tie_word_embeddings": false,
                                 "transformers_version": "10.1")"),
            with_head);
  EXPECT_EQ(parameters(tied, R"(, "tie_word_embeddings": false, "transformers_version": 5)"),
            without_head);
}

}  // namespace
}  // namespace parplan
