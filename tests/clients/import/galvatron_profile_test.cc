#include "clients/import/galvatron_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/wire/profile_wire.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A model of one kind of layer, so small that shares can be worked by hand.
ModelFlags SmallModel() {
  ModelFlags flags;
  flags.model_id = "small";
  flags.layer_kind = v1::LAYER_KIND_DECODER;
  flags.layer_counts = {4};
  flags.sequence_lengths = {16};
  flags.hidden_size = 64;
  flags.attention_head_count = 4;
  flags.feed_forward_size = 256;
  flags.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
  flags.vocabulary_size = 100;
  return flags;
}

absl::StatusOr<GalvatronImport> ImportTimes(const std::string& text,
                                            const std::string& name = "times.json") {
  GalvatronFiles files;
  files.times = {{name, text}};
  GalvatronFlags flags;
  flags.model = SmallModel();
  return ImportGalvatron(files, flags);
}

absl::StatusOr<GalvatronImport> ImportMemory(const std::string& text) {
  GalvatronFiles files;
  files.memory = {{"memory.json", text}};
  GalvatronFlags flags;
  flags.model = SmallModel();
  return ImportGalvatron(files, flags);
}

TEST(GalvatronTimes, ArePerSampleAndBecomeTimesOfMicroBatches) {
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import, ImportTimes(R"({"layertype_0_bsz8_seq16": 3.5,
                                       "layertype_other_bsz8_seq16": 2})"));
  const v1::LayerTiming* layer = FindTiming(import.profile, "decoder", 8);
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(Nanoseconds(layer->forward_duration()), 28'000'000);
  EXPECT_FALSE(layer->has_backward_duration());
  EXPECT_EQ(layer->tensor_parallel_degree(), 1);
  EXPECT_EQ(layer->origin(), v1::ORIGIN_MEASURED);
  // A table lookup has no operations: 1 % of 16 ms, the head has the rest.
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "embedding", 8)->forward_duration()), 160'000);
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "head", 8)->forward_duration()), 15'840'000);
  EXPECT_EQ(FindTiming(import.profile, "head", 8)->origin(), v1::ORIGIN_DERIVED);
  EXPECT_THAT(import.notes, Contains(HasSubstr("timed together")));
}

TEST(GalvatronTimes, WithoutBatchSizeBelongToTheBatchTheirPassesGive) {
  ASSERT_OK_AND_ASSIGN(
      const GalvatronImport import,
      ImportTimes(R"({"layernum[6]_bsz2": 10, "layernum[12]_bsz2": 34, "layertype_0": 2,
                      "layernum[2]_bsz8": 30, "layernum[4]_bsz8": 20})"));
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "decoder", 2)->forward_duration()), 4'000'000);
}

TEST(GalvatronTimes, AreDifferencesWhereOnlyWholePassesAreGiven) {
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import, ImportTimes(R"({"layernum[2]_bsz4_seq16": 20,
                                       "layernum[4]_bsz4_seq16": 32})"));
  const v1::LayerTiming* layer = FindTiming(import.profile, "decoder", 4);
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(Nanoseconds(layer->forward_duration()), 6'000'000);
  EXPECT_EQ(layer->origin(), v1::ORIGIN_DERIVED);
  // 20 ms less two layers of 6 ms.
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "head", 4)->forward_duration()), 7'920'000);
}

TEST(GalvatronTimes, ThatAreNotPositiveAreLeftOutWithANote) {
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import,
                       ImportTimes(R"({"layertype_0_bsz1": -2.37, "layertype_0_bsz2": 4,
                                       "layertype_other_0_bsz2": 0})"));
  EXPECT_EQ(import.profile.layer_timings_size(), 3);
  EXPECT_THAT(import.notes, Contains(AllOf(HasSubstr("layertype_0_bsz1"), HasSubstr("-2.37"))));
  EXPECT_EQ(FindTiming(import.profile, "head", 2)->origin(), v1::ORIGIN_ESTIMATED);
  EXPECT_THAT(ImportTimes(R"({"layertype_0_bsz1": -2})").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("times.json: layertype_0")));
}

TEST(GalvatronTimes, ThatAreNotReadAreNoted) {
  std::string passes;
  for (int count = 1; count <= 66; ++count) {
    absl::StrAppend(&passes, "\"layernum[", count, "]_bsz2\": ", count, ", ");
  }
  ASSERT_OK_AND_ASSIGN(
      const GalvatronImport import,
      ImportTimes(absl::StrCat("{", passes, R"("layertype_0_bsz2": 4, "layertype_other": 7,
          "layernum[2]": 3, "fwd_time_else": 1})")));
  EXPECT_THAT(import.notes,
              AllOf(Contains("times.json: layertype_other says no batch size and was left out"),
                    Contains("times.json: layernum[2] says no batch size and was left out"),
                    Contains("times.json: 2 whole passes were left out, which are more than 64 of "
                             "one batch size"),
                    Contains(HasSubstr("`fwd_time_else`"))));
  ASSERT_OK_AND_ASSIGN(const GalvatronImport twice,
                       ImportTimes(R"({"fwd_time_embed_dim_64": 3, "fwd_time_hidden_64": 5})"));
  EXPECT_EQ(Nanoseconds(FindTiming(twice.profile, "decoder", 1)->forward_duration()), 3'000'000);
  EXPECT_THAT(twice.notes, Contains("times.json: fwd_time_hidden_64 was left out, since "
                                    "fwd_time_embed_dim_64 is of the same width"));
  EXPECT_THAT(
      ImportTimes(R"({"fwd_time_hidden_32": 3})").status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("times.json: fwd_time_hidden_32: ")));
}

TEST(GalvatronTimes, OfOneModelOnlyNeedTwoLayerCounts) {
  EXPECT_THAT(ImportTimes(R"({"layernum[2]_bsz1_seq16": 24.5})").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("times.json"), HasSubstr("two layer counts"))));
}

TEST(GalvatronTimes, OfMixturesOfExpertsAreRefusedWithWhatIsMissing) {
  EXPECT_THAT(ImportTimes(R"({"layertype_0_bsz1_seq16_mlp": 2})").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixture-of-experts")));
  EXPECT_THAT(ImportTimes(R"({"layertype_0_bsz1": 2})", "a_mixtral-8x7b_mlp.json").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mixture of experts")));
}

TEST(GalvatronTimes, HalvesOfALayerAreAdded) {
  GalvatronFiles files;
  files.times = {{"a_attention.json", R"({"layertype_0_bsz2_seq16": 1.5,
                                          "layertype_other_bsz2_seq16": 2})"},
                 {"a_mlp.json", R"({"layertype_0_bsz2_seq16": 2.5, "layertype_0_bsz3_seq16": 9,
                                    "layertype_other_bsz2_seq16": 8})"}};
  files.memory = {{"m_attention.json",
                   R"({"layertype_0_sp": {"16": {"parameter_size": 1,
                       "tp_activation_per_bsz_dict": {"1": 4, "2": 3, "checkpoint": 2}}}})"},
                  {"m_mlp.json",
                   R"({"layertype_0_sp": {"16": {"parameter_size": 3,
                       "tp_activation_per_bsz_dict": {"1": 6, "checkpoint": 2}}}})"}};
  GalvatronFlags flags;
  flags.model = SmallModel();
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import, ImportGalvatron(files, flags));
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "decoder", 2)->forward_duration()), 8'000'000);
  EXPECT_EQ(Nanoseconds(FindTiming(import.profile, "head", 2)->forward_duration()), 3'960'000);
  EXPECT_EQ(import.profile.layer_timings_size(), 3);
  const v1::LayerMemory* memory = FindMemory(import.profile, "decoder", 1, true);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->parameter_count(), 1 << 20);
  EXPECT_EQ(memory->activation_bytes_per_sample(), 10 << 20);
  EXPECT_EQ(memory->checkpoint_bytes_per_sample(), 2 << 20);
  EXPECT_EQ(import.profile.layer_memories_size(), 1);
}

TEST(GalvatronMemory, IsInMegabytesAndFp32) {
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import,
                       ImportMemory(R"({"layertype_0_sp": {"16": {"parameter_size": 8,
                         "tp_activation_per_bsz_dict": {"1": 10, "2": 6, "checkpoint": 2}}},
                       "layertype_0": {"16": {"parameter_size": 8,
                         "tp_activation_per_bsz_dict": {"2": 7, "checkpoint": 2}}},
                       "other_memory_pp_on_first_sp": {"16": {
                         "model_states": {"1": 32}, "activation": {"1": 3}}},
                       "other_memory_pp_on_last_sp": {"16": {
                         "model_states": {"1": 48}, "activation": {"1": 5}}}})"));
  // 8 MB of fp32 are 2 Mi parameters, half of them at degree 2.
  const v1::LayerMemory* split = FindMemory(import.profile, "decoder", 2, true);
  EXPECT_EQ(FindMemory(import.profile, "decoder", 1, true)->parameter_count(), 2 << 20);
  EXPECT_EQ(split->parameter_count(), 1 << 20);
  EXPECT_EQ(split->activation_bytes_per_sample(), 6 << 20);
  // The saved input is split along the sequence, without that it is whole.
  EXPECT_EQ(split->checkpoint_bytes_per_sample(), 1 << 20);
  EXPECT_EQ(FindMemory(import.profile, "decoder", 2, false)->checkpoint_bytes_per_sample(),
            2 << 20);
  // States are four times fp32: 16 bytes a parameter.
  EXPECT_EQ(FindMemory(import.profile, "embedding", 1, true)->parameter_count(), 2 << 20);
  EXPECT_EQ(FindMemory(import.profile, "head", 1, true)->parameter_count(), 3 << 20);
  EXPECT_EQ(FindMemory(import.profile, "head", 1, true)->activation_bytes_per_sample(), 5 << 20);
}

TEST(GalvatronMemory, OfBothEndsIsSplitWhereOneOfThemLacksADegree) {
  ASSERT_OK_AND_ASSIGN(
      const GalvatronImport import,
      ImportMemory(R"({"layertype_0": {"parameter_size": 8, "tp_activation_per_bsz_dict":
                         {"1": 10}},
                       "other_memory_pp_off": {
                         "model_states": {"1": 64, "4": 16}, "activation": {"1": 16, "4": 8}},
                       "other_memory_pp_on_first": {"model_states": 40, "activation": 1}})"));
  const v1::LayerMemory* first = FindMemory(import.profile, "embedding", 1, false);
  EXPECT_EQ(first->parameter_count(), int64_t{40} * (1 << 20) / 16);
  EXPECT_EQ(first->origin(), v1::ORIGIN_MEASURED);
  const v1::LayerMemory* embedding = FindMemory(import.profile, "embedding", 4, false);
  const v1::LayerMemory* head = FindMemory(import.profile, "head", 4, false);
  EXPECT_EQ(embedding->origin(), v1::ORIGIN_DERIVED);
  EXPECT_NEAR(embedding->parameter_count() + head->parameter_count(), 1 << 20, 1);
  // Outputs of 64 and of 100 values a token.
  EXPECT_NEAR(embedding->activation_bytes_per_sample(), 8.0 * (1 << 20) * 64 / 164, 1);
}

TEST(GalvatronMemory, IsHadFromRawBlocksWhereNothingElseIsGiven) {
  // One layer has 4 MB of states on each of 8 ranks, so 32 MB or 8 MB of fp32,
  // and 6 MB of activations for its 2 samples.
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import,
                       ImportMemory(R"({"1_1_8_sp": {"layernum[1]_bsz16_seq16_rank0_ms": 6,
                                    "layernum[1]_bsz16_seq16_rank0_act": 10,
                                    "layernum[1]_bsz16_seq16_rank0_act_peak": 12,
                                    "layernum[2]_bsz16_seq16_rank0_ms": 10,
                                    "layernum[2]_bsz16_seq16_rank0_act": 16,
                                    "layernum[2]_bsz16_seq16_rank0_act_peak": 18},
                       "1_1_8_c_sp": {"layernum[1]_bsz16_seq16_rank0_ms": 6,
                                      "layernum[1]_bsz16_seq16_rank0_act": 5,
                                      "layernum[2]_bsz16_seq16_rank0_ms": 10,
                                      "layernum[2]_bsz16_seq16_rank0_act": 7}})"));
  const v1::LayerMemory* layer = FindMemory(import.profile, "decoder", 1, true);
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->parameter_count(), 2 << 20);
  EXPECT_EQ(layer->activation_bytes_per_sample(), 3 << 20);
  EXPECT_EQ(layer->checkpoint_bytes_per_sample(), 1 << 20);
  EXPECT_EQ(layer->origin(), v1::ORIGIN_DERIVED);
  // Both ends: 16 MB of states, 1 Mi parameters.
  EXPECT_NEAR(FindMemory(import.profile, "embedding", 1, true)->parameter_count() +
                  FindMemory(import.profile, "head", 1, true)->parameter_count(),
              1 << 20, 1);
}

TEST(GalvatronMemory, ErrorsNameFileAndField) {
  EXPECT_THAT(ImportMemory("{}").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("memory.json: layertype_0"), HasSubstr("is missing"))));
  EXPECT_THAT(ImportMemory(R"({"layertype_0": {"16": {"parameter_size": 8}}})").status().ToString(),
              HasSubstr("memory.json: layertype_0.16.tp_activation_per_bsz_dict: is missing"));
  EXPECT_THAT(ImportMemory(R"({"layertype_0": {"16": {"parameter_size": "8",
                  "tp_activation_per_bsz_dict": {}}}})")
                  .status()
                  .ToString(),
              HasSubstr("layertype_0.16.parameter_size: must be a number"));
  EXPECT_THAT(ImportMemory(R"({"layertype_0": {"x": {}}})").status().ToString(),
              HasSubstr("layertype_0.x: must be keyed by a sequence length"));
}

TEST(ImportGalvatron, NamesEveryMissingFactAtOnce) {
  GalvatronFiles files;
  files.times = {{"times.json", R"({"layertype_0_bsz1": 2})"}};
  EXPECT_THAT(ImportGalvatron(files, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("--hidden-size"), HasSubstr("--feed-forward-kind"),
                             HasSubstr("--vocabulary-size"), HasSubstr("--layers"))));
  EXPECT_THAT(ImportGalvatron({}, {}).status(), Not(IsOk()));
}

TEST(ImportGalvatron, HardwareAloneMakesAProfileWithoutLayers) {
  GalvatronFiles files;
  files.hardware.overlap = {"overlap_coefficient.json", R"({"overlap_coe": 1.3})"};
  GalvatronFlags flags;
  flags.nodes = {4, 8};
  flags.device_kind = "NVIDIA H100 80GB HBM3";
  flags.device_memory_bytes = int64_t{80} << 30;
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import, ImportGalvatron(files, flags));
  EXPECT_FALSE(import.model.has_value());
  EXPECT_EQ(import.topology.node_groups(0).node_count(), 4);
  EXPECT_EQ(import.topology.link_tiers_size(), 2);
  EXPECT_EQ(import.topology.link_tiers(1).reach_device_count(), 32);
  EXPECT_DOUBLE_EQ(import.profile.overlap_slowdown(), 1.3);
  EXPECT_EQ(import.profile.device_kind(), "NVIDIA H100 80GB HBM3");
}

TEST(ImportGalvatron, CarriesOverLlama27BAsPublished) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  ASSERT_OK_AND_ASSIGN(const GalvatronImport import,
                       ImportGalvatron(ExampleFiles(*data, 1), ExampleFlags(1)));
  const v1::Profile& profile = import.profile;
  EXPECT_OK(ValidateProfile(profile));
  EXPECT_EQ(profile.layer_timings_size(), 36);   // 12 batch sizes of three layers
  EXPECT_EQ(profile.layer_memories_size(), 12);  // degrees 1, 2, 4, 8 of three layers
  // 3.9369729995727534 ms a sample, 8 samples.
  EXPECT_EQ(Nanoseconds(FindTiming(profile, "decoder", 8)->forward_duration()), 31'495'784);
  // 2.958646392822267 ms for both ends: 1 % and 99 % of 8 samples.
  EXPECT_EQ(Nanoseconds(FindTiming(profile, "embedding", 8)->forward_duration()), 236'692);
  EXPECT_EQ(Nanoseconds(FindTiming(profile, "head", 8)->forward_duration()), 23'432'479);
  // 778.2236328125 MB of fp32.
  const v1::LayerMemory* layer = FindMemory(profile, "decoder", 1, true);
  EXPECT_EQ(layer->parameter_count(), 204'006'656);
  EXPECT_EQ(layer->activation_bytes_per_sample(), 539'558'912);
  EXPECT_EQ(layer->checkpoint_bytes_per_sample(), 32 << 20);
  EXPECT_EQ(FindMemory(profile, "decoder", 8, true)->checkpoint_bytes_per_sample(), 4 << 20);
  // Tables of 11 sizes for three groups and two collectives, bandwidths of two
  // strided groups, three distances to send over.
  EXPECT_EQ(profile.collective_timings_size(), 66 + 2 + 3);
  EXPECT_EQ(profile.context_memory_bytes(), int64_t{1} << 30);
  ASSERT_TRUE(import.model.has_value());
  EXPECT_EQ(import.model->layer_runs(1).layer_count(), 32);
  EXPECT_EQ(import.model->layer_definitions(1).feed_forward_size(), 11008);
}

}  // namespace
}  // namespace parplan
