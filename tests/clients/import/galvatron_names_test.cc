#include "clients/import/galvatron_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = GalvatronTimeKey::Kind;

TEST(GalvatronTimeKey, ReadsEveryGeneration) {
  std::optional<GalvatronTimeKey> key = ParseGalvatronTimeKey("layertype_0");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->kind, Kind::kLayer);
  EXPECT_EQ(key->batch_size, 0);

  key = ParseGalvatronTimeKey("layertype_3_bsz12_seq49");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->layer_type, 3);
  EXPECT_EQ(key->batch_size, 12);
  EXPECT_THAT(key->sequence_lengths, ElementsAre(49));

  key = ParseGalvatronTimeKey("layertype_other_0_bsz2");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->kind, Kind::kOther);
  EXPECT_EQ(key->batch_size, 2);

  key = ParseGalvatronTimeKey("layernum[2,4]_bsz8_seq[512,512]");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->kind, Kind::kWholeModel);
  EXPECT_THAT(key->layer_counts, ElementsAre(2, 4));
  EXPECT_THAT(key->sequence_lengths, ElementsAre(512, 512));

  key = ParseGalvatronTimeKey("layertype_0_bsz4_seq4096_mlp");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->part, "mlp");
}

TEST(GalvatronTimeKey, TakesBothWritingsOfAList) {
  EXPECT_THAT(ParseGalvatronTimeKey("layertype_other_bsz1_seq512_256")->sequence_lengths,
              ElementsAre(512, 256));
  EXPECT_THAT(ParseGalvatronTimeKey("layertype_other_bsz1_seq[512,256]")->sequence_lengths,
              ElementsAre(512, 256));
}

TEST(GalvatronTimeKey, RefusesWhatItDoesNotKnow) {
  for (const char* key : {"", "layertype_", "layertype_x", "layertype_0_bsz0", "layernum2_bsz8",
                          "layernum[2_bsz8", "layertype_0_bsz8_seq2048_rest",
                          "layertype_99999999999999999999", "layertype_0_bsz8_seq0"}) {
    EXPECT_FALSE(ParseGalvatronTimeKey(key).has_value()) << key;
  }
}

TEST(GalvatronMemoryNames, AreTakenApart) {
  const std::optional<GalvatronMemoryBlock> block = ParseGalvatronMemoryBlock("1_4_2_vtp_sp");
  ASSERT_TRUE(block.has_value());
  EXPECT_EQ(block->tensor, 4);
  EXPECT_EQ(block->data, 2);
  EXPECT_TRUE(block->vocabulary_tensor);
  EXPECT_TRUE(block->sequence_parallel);
  EXPECT_FALSE(block->checkpoint);
  EXPECT_TRUE(ParseGalvatronMemoryBlock("1_1_8_c_sp")->checkpoint);
  EXPECT_FALSE(ParseGalvatronMemoryBlock("1_1_0").has_value());
  EXPECT_FALSE(ParseGalvatronMemoryBlock("layertype_0").has_value());

  const std::optional<GalvatronMemoryKey> key =
      ParseGalvatronMemoryKey("layernum[2]_bsz8_seq2048_rank7_act_peak");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->kind, GalvatronMemoryKey::Kind::kActivationPeak);
  EXPECT_EQ(key->rank, 7);
  EXPECT_EQ(ParseGalvatronMemoryKey("layernum[1]_bsz8_rank0_ms")->kind,
            GalvatronMemoryKey::Kind::kModelStates);
}

TEST(GalvatronSequenceList, TakesThreeWritings) {
  EXPECT_THAT(ParseGalvatronSequenceList("512"), ElementsAre(512));
  EXPECT_THAT(ParseGalvatronSequenceList("512_128"), ElementsAre(512, 128));
  EXPECT_THAT(ParseGalvatronSequenceList("[3136,784,196,49]"), ElementsAre(3136, 784, 196, 49));
  EXPECT_THAT(ParseGalvatronSequenceList("512_x"), IsEmpty());
  EXPECT_THAT(ParseGalvatronSequenceList("0"), IsEmpty());
}

TEST(GalvatronFileNames, SayWhatOldFilesDoNot) {
  GalvatronFileName name = ParseGalvatronFileName(
      "gpt_hf/configs/computation_profiling_bf16_hidden4096_head32_seqlen2048.json");
  EXPECT_EQ(name.hidden_size, 4096);
  EXPECT_EQ(name.attention_head_count, 32);
  EXPECT_EQ(name.sequence_length, 2048);
  EXPECT_EQ(name.precision, "bf16");
  EXPECT_EQ(ParseGalvatronFileName("memory_profiling_fp16_llama2-7b_all.json").model, "llama2-7b");
  name = ParseGalvatronFileName("allreduce_bandwidth_2nodes_8gpus_per_node.json");
  EXPECT_EQ(name.node_count, 2);
  EXPECT_EQ(name.devices_per_node, 8);
  EXPECT_EQ(name.device_count, 16);
  // This is the largest number of devices that a question may have.
  name = ParseGalvatronFileName("allreduce_bandwidth_131072nodes_2gpus_per_node.json");
  EXPECT_EQ(name.device_count, 262'144);
  EXPECT_EQ(ParseGalvatronFileName("allreduce_bandwidth_dist_16_gpus.json").device_count, 16);
  EXPECT_EQ(ParseGalvatronFileName("galvatron_config_8gpus_1280hidden.json").device_count, 8);
}

}  // namespace
}  // namespace parplan
