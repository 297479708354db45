// Every set of files in the folder of measured data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "clients/planctl/import/galvatron_profile.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/planctl/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One set: files below galvatron_profiles, and what comes of it.
struct ProfileSet {
  const char* name;
  std::vector<const char*> times;
  std::vector<const char*> memory;
  const char* model_config;  // null for none
  int timing_count;
  int memory_count;
  // Part of the error; empty when the import succeeds.
  const char* error;
};

// Prefixes of the folders.
#define MAIN "main-cea12ff/galvatron/models/gpt/configs/"
#define V24 "v2.4.0/galvatron/models/"
#define V21 "v2.1/galvatron/models/"
#define OCT "commit-2025-10-10-99a0f185/galvatron/models/llama_hf/configs/"
#define MOE "commit-2025-10-10-99a0f185/galvatron/models/moe/configs/"
#define SHOWN "commit-2025-04-07-2db58cec/galvatron-visualizer/public/configs/memory_profiling_bf16_"
#define HETU "hetu-3757771/tools/Galvatron/"
#define TIMES "computation_profiling_bf16_"
#define MEMORY "memory_profiling_bf16_"
#define WIDE "hidden4096_head32_seqlen2048.json"

const ProfileSet kSets[] = {
    {"main_llama2_7b", {MAIN TIMES "llama2-7b_all.json"}, {MAIN MEMORY "llama2-7b_all.json"},
     V24 "llama_hf/meta_configs/llama-7b.json", 36, 12, ""},
    {"main_raw_times", {MAIN TIMES "llama2-7b_seqlen2048_all.json"}, {},
     V24 "llama_hf/meta_configs/llama-7b.json", 0, 0, "two layer counts"},
    {"main_raw_memory", {}, {MAIN MEMORY "llama2-7b_seqlen2048_all.json"},
     V24 "llama_hf/meta_configs/llama-7b.json", 0, 0, "layertype_0: is missing"},
    {"v24_llama_hf", {V24 "llama_hf/configs/" TIMES WIDE}, {V24 "llama_hf/configs/" MEMORY WIDE},
     V24 "llama_hf/meta_configs/llama-7b.json", 42, 18, ""},
    {"v24_llama_fa_negative", {V24 "llama_fa/configs/" TIMES WIDE},
     {V24 "llama_fa/configs/" MEMORY WIDE}, V24 "llama_hf/meta_configs/llama-7b.json", 33, 18, ""},
    {"v24_gpt_fa_1b", {V24 "gpt_fa/configs/" TIMES "hidden1600_head32_seqlen1024.json"},
     {V24 "gpt_fa/configs/" MEMORY "hidden1600_head32_seqlen1024.json"},
     V24 "gpt_fa/meta_configs/gpt-1.5b.json", 3, 6, ""},
    {"v24_gpt_fa_2b", {V24 "gpt_fa/configs/" TIMES "hidden2560_head32_seqlen2048.json"},
     {V24 "gpt_fa/configs/" MEMORY "hidden2560_head32_seqlen2048.json"},
     V24 "gpt_fa/meta_configs/gpt-2.7b.json", 3, 6, ""},
    {"v24_gpt_fa_6b", {V24 "gpt_fa/configs/" TIMES WIDE}, {V24 "gpt_fa/configs/" MEMORY WIDE},
     V24 "gpt_fa/meta_configs/gpt-6.7b.json", 48, 18, ""},
    {"v24_gpt_hf_6b", {V24 "gpt_hf/configs/" TIMES WIDE}, {V24 "gpt_hf/configs/" MEMORY WIDE},
     V24 "gpt_fa/meta_configs/gpt-6.7b.json", 48, 18, ""},
    {"v24_gpt_hf_long_raw", {V24 "gpt_hf/configs/" TIMES "hidden4096_head32.json"},
     {V24 "gpt_hf/configs/" MEMORY "hidden4096_head32.json"},
     V24 "gpt_fa/meta_configs/gpt-6.7b.json", 48, -1, ""},
    {"v21_gpt_fa", {V21 "gpt_fa/configs/" TIMES WIDE}, {V21 "gpt_fa/configs/" MEMORY WIDE},
     V24 "gpt_fa/meta_configs/gpt-6.7b.json", 3, 6, ""},
    {"v21_llama_fa", {V21 "llama_fa/configs/" TIMES WIDE}, {V21 "llama_fa/configs/" MEMORY WIDE},
     V21 "llama_fa/meta_configs/llama-7b.json", 3, -1, ""},
    {"v21_llama_13b", {V21 "llama_hf/configs/" TIMES "hidden5120_head40_seqlen2048.json"},
     {V21 "llama_hf/configs/" MEMORY "hidden5120_head40_seqlen2048.json"},
     V21 "llama_fa/meta_configs/llama-13b.json", 5, -1, ""},
    {"v23_baichuan", {"v2.3.alpha/galvatron/models/baichuan/configs/" TIMES WIDE},
     {"v2.3.alpha/galvatron/models/baichuan/configs/" MEMORY WIDE},
     "v2.3.alpha/galvatron/models/baichuan/hf_configs/baichuan-7b/config.json", 3, 6, ""},
    {"v22_llama_hf_memory", {}, {"v2.2.alpha/galvatron/models/llama_hf/configs/" MEMORY WIDE},
     V24 "llama_hf/meta_configs/llama-7b.json", 0, 18, ""},
    {"august_2024", {"commit-2024-08-09-284bc213/galvatron/models/gpt_hf/configs/" TIMES WIDE},
     {"commit-2024-08-09-284bc213/galvatron/models/gpt_hf/configs/" MEMORY WIDE},
     V24 "gpt_fa/meta_configs/gpt-6.7b.json", 3, 18, ""},
    {"september_2024", {"commit-2024-09-02-208a61f8/galvatron/models/gpt_hf/configs/" TIMES WIDE},
     {}, V24 "gpt_fa/meta_configs/gpt-6.7b.json", 48, 0, ""},
    {"september_2024_llama",
     {"commit-2024-09-19-071fd694/galvatron/models/llama_hf/configs/" TIMES WIDE}, {},
     V24 "llama_hf/meta_configs/llama-7b.json", 3, 0, ""},
    {"v24_bert_large", {V24 "bert_hf/configs/" TIMES "hidden1024_head16.json"},
     {V24 "bert_hf/configs/" MEMORY "hidden1024_head16.json"},
     V24 "bert_hf/meta_configs/bert-large-uncased.json", 24, 60, ""},
    {"v24_bert_base", {V24 "bert_hf/configs/" TIMES "hidden768_head12.json"},
     {V24 "bert_hf/configs/" MEMORY "hidden768_head12.json"},
     V24 "bert_hf/meta_configs/bert-base-uncased.json", 96, 60, ""},
    {"v24_vit_huge", {V24 "vit_hf/configs/" TIMES "hidden1280_head16.json"},
     {V24 "vit_hf/configs/" MEMORY "hidden1280_head16.json"},
     V24 "vit_hf/meta_configs/vit-huge-patch16-224.json", 3, 9, ""},
    {"v24_vit_xhuge", {V24 "vit_hf/configs/" TIMES "hidden2560_head32.json"},
     {V24 "vit_hf/configs/" MEMORY "hidden2560_head32.json"},
     V24 "vit_hf/meta_configs/vit-xhuge-patch16-224.json", 3, 9, ""},
    {"v24_swin_huge", {V24 "swin/configs/" TIMES "swin-huge.json"},
     {V24 "swin/configs/" MEMORY "swin-huge.json"},
     V24 "swin/meta_configs/swin-huge-patch4-window7-224.json", 6, 24, ""},
    {"v24_t5_3b", {V24 "T5/configs/" TIMES "t5-3B.json"}, {V24 "T5/configs/" MEMORY "t5-3B.json"},
     V24 "T5/meta_configs/t5-3B.json", 32, 16, ""},
    {"march_2025_128k",
     {"commit-2025-03-07-39263e01/galvatron/models/llama_hf/configs/" TIMES "llama-7b.json"},
     {"commit-2025-03-07-39263e01/galvatron/models/llama_hf/configs/" MEMORY "llama-7b.json"},
     "commit-2024-10-29-e29f3a7b/galvatron/models/llama_hf/meta_configs/llama-7b.json", -1, -1,
     ""},
    {"october_2025_all", {OCT TIMES "llama-7b_all.json"}, {OCT MEMORY "llama-7b_all.json"},
     V24 "llama_hf/meta_configs/llama-7b.json", 36, 12, ""},
    {"october_2025_halves", {OCT TIMES "llama-7b_attention.json", OCT TIMES "llama-7b_mlp.json"},
     {OCT MEMORY "llama-7b_attention.json", OCT MEMORY "llama-7b_mlp.json"},
     V24 "llama_hf/meta_configs/llama-7b.json", 36, 12, ""},
    {"october_2025_later",
     {"commit-2025-10-15-81bb0033/galvatron/models/llama_hf/configs/" TIMES "llama-7b_all.json"},
     {}, V24 "llama_hf/meta_configs/llama-7b.json", 36, 0, ""},
    {"shown_llama2_70b", {}, {SHOWN "llama2-70b.json"}, nullptr, 0, 12, ""},
    {"shown_llama3_70b", {}, {SHOWN "llama3-70b.json"}, nullptr, 0, 12, ""},
    {"shown_llama3_8b", {}, {SHOWN "llama3-8b.json"}, nullptr, 0, 12, ""},
    {"shown_qwen_32b", {}, {SHOWN "qwen2.5-32b.json"}, nullptr, 0, 12, ""},
    {"moe_2025_07",
     {"commit-2025-07-07-b7589ee4/galvatron/models/moe/configs/" TIMES "mixtral-8x7b.json"}, {},
     nullptr, 0, 0, "mixture of experts"},
    {"moe_times", {MOE TIMES "mixtral-8x7b_attention.json"}, {}, nullptr, 0, 0,
     "mixture of experts"},
    {"moe_memory", {}, {MOE MEMORY "mixtral-8x7b_attention.json"}, nullptr, 0, 0,
     "mixture of experts"},
    {"hetu_bert", {HETU "bert/configs/forward_profiling_config.json"}, {},
     V24 "bert_hf/meta_configs/bert-huge-uncased-32.json", 3, 0, ""},
    {"hetu_vit", {HETU "vit/configs/forward_profiling_config.json"}, {},
     V24 "vit_hf/meta_configs/vit-huge-patch16-224.json", 3, 0, ""},
    {"hetu_vit_unknown_width", {HETU "vit/configs/forward_profiling_config.json"}, {},
     V24 "vit_hf/meta_configs/vit-base-patch16-224.json", 0, 0, "1024, 1280"},
    {"hetu_t5", {HETU "t5/configs/forward_profiling_config.json"}, {},
     V24 "T5/meta_configs/t5-large.json", 4, 0, ""},
    {"hetu_swin", {HETU "swin/configs/forward_profiling_config.json"}, {},
     V24 "swin/meta_configs/swin-huge-patch4-window7-224.json", 6, 0, ""},
};

// Printed by GoogleTest in the place of bytes.
void PrintTo(const ProfileSet& set, std::ostream* out) { *out << set.name; }

class GalvatronSweep : public testing::TestWithParam<ProfileSet> {};

void ExpectValid(const GalvatronImport& import) {
  EXPECT_OK(ValidateProfile(import.profile));
  EXPECT_OK(TopologyFromProto(import.topology));
  if (import.model.has_value()) {
    EXPECT_OK(ModelFromProto(*import.model));
  }
}

TEST_P(GalvatronSweep, GivesAValidProfileOrSaysWhatIsMissing) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string folder = *data + "/galvatron_profiles";
  const ProfileSet& set = GetParam();
  GalvatronFiles files = ExampleFiles(*data, 1);
  files.times.clear();
  files.memory.clear();
  files.model_config.reset();
  for (const char* path : set.times) files.times.push_back(ReadNamedText(folder, path));
  for (const char* path : set.memory) files.memory.push_back(ReadNamedText(folder, path));
  if (set.model_config != nullptr) files.model_config = ReadNamedText(folder, set.model_config);
  GalvatronFlags flags = ExampleFlags(1);
  flags.model.model_id.reset();
  const absl::StatusOr<GalvatronImport> import = ImportGalvatron(files, flags);
  if (*set.error != '\0') {
    const std::string file = !set.times.empty() ? set.times.front() : set.memory.front();
    EXPECT_THAT(import.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr(file), HasSubstr(set.error))));
    return;
  }
  ASSERT_OK(import);
  ExpectValid(*import);
  if (set.timing_count >= 0) {
    EXPECT_EQ(import->profile.layer_timings_size(), set.timing_count);
  } else {
    EXPECT_GT(import->profile.layer_timings_size(), 0);
  }
  if (set.memory_count >= 0) {
    EXPECT_EQ(import->profile.layer_memories_size(), set.memory_count);
  } else {
    EXPECT_GT(import->profile.layer_memories_size(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, GalvatronSweep, testing::ValuesIn(kSets),
                         [](const auto& info) { return std::string(info.param.name); });

// Files of any kind in any place are refused with their name, never worse.
TEST(GalvatronSweepOfFiles, EveryFileIsReadOrRefusedByName) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string folder = *data + "/galvatron_profiles";
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".json") continue;
    const std::string path = entry.path().lexically_relative(folder).string();
    const NamedText file = ReadNamedText(folder, path);
    const GalvatronFiles example = ExampleFiles(*data, 1);
    for (int place = 0; place < 6; ++place) {
      GalvatronFiles files;
      if (place < 2) files.model_config = example.model_config;
      if (place == 0) files.times = {file};
      if (place == 1) files.memory = {file};
      if (place == 2) files.model_config = file;
      if (place == 3) files.hardware.all_reduce = file;
      if (place == 4) files.hardware.send_receive = file;
      if (place == 5) files.hardware.tables = file;
      const absl::StatusOr<GalvatronImport> import = ImportGalvatron(files, {});
      if (import.ok()) {
        ExpectValid(*import);
      } else {
        EXPECT_THAT(import.status().ToString(), HasSubstr(path)) << place;
      }
    }
    ++count;
  }
  EXPECT_GT(count, 100);
}

TEST(GalvatronSweepOfInputs, EveryModelOnEveryClusterIsValid) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  const std::string folder = *data + "/galvatron_oracle/inputs";
  const std::string profiles = *data + "/galvatron_profiles";
  const struct {
    const char* model;
    const char* config;  // null: the one inside the memory file, or flags
  } models[] = {
      {"llama2-7b", V24 "llama_hf/meta_configs/llama-7b.json"},
      {"llama-7b-v128k", V24 "llama_hf/meta_configs/llama-7b.json"},
      {"gpt-6.7b", V24 "gpt_fa/meta_configs/gpt-6.7b.json"},
      {"bert-large", V24 "bert_hf/meta_configs/bert-large-uncased.json"},
      {"vit-huge", V24 "vit_hf/meta_configs/vit-huge-patch16-224.json"},
      {"swin-huge", V24 "swin/meta_configs/swin-huge-patch4-window7-224.json"},
      {"t5-3b", V24 "T5/meta_configs/t5-3B.json"},
      {"t5-3b-asprofiled", V24 "T5/meta_configs/t5-3B.json"},
      {"llama2-70b", V24 "llama_hf/meta_configs/llama2-70b.json"},
      {"llama3-70b", V24 "llama_hf/meta_configs/llama2-70b.json"},
      {"llama3-8b", V24 "llama_hf/meta_configs/llama-7b.json"},
      {"qwen2.5-32b", V24 "llama_hf/meta_configs/qwen2.5-72b.json"},
  };
  const struct {
    const char* name;
    int node_count;
    int devices_per_node;
  } clusters[] = {{"1n4g", 1, 4},   {"1n6g", 1, 6},   {"1n8g", 1, 8},   {"2n8g", 2, 8},
                  {"4n8g", 4, 8},   {"8n8g", 8, 8},   {"16n8g", 16, 8}, {"32n8g", 32, 8},
                  {"64n8g", 64, 8}, {"128n8g", 128, 8}};
  for (const auto& model : models) {
    for (const auto& cluster : clusters) {
      const std::string hardware = std::string("hw/") + cluster.name + "/";
      GalvatronFiles files;
      files.times = {ReadNamedText(folder, std::string(model.model) + "/time.json")};
      files.memory = {ReadNamedText(folder, std::string(model.model) + "/memory.json")};
      files.model_config = ReadNamedText(profiles, model.config);
      files.hardware.all_reduce = ReadNamedText(folder, hardware + "allreduce.json");
      files.hardware.send_receive = ReadNamedText(folder, hardware + "p2p.json");
      files.hardware.overlap = ReadNamedText(folder, hardware + "overlap.json");
      files.hardware.tables = ReadNamedText(folder, hardware + "sp_time.json");
      GalvatronFlags flags;
      flags.nodes = {cluster.node_count, cluster.devices_per_node};
      flags.model.model_id = model.model;
      const absl::StatusOr<GalvatronImport> import = ImportGalvatron(files, flags);
      ASSERT_THAT(import, IsOk()) << model.model << " on " << cluster.name;
      ExpectValid(*import);
      EXPECT_GT(import->profile.layer_timings_size(), 0);
      EXPECT_GT(import->profile.layer_memories_size(), 0);
      EXPECT_GT(import->profile.collective_timings_size(), 0);
    }
  }
}

}  // namespace
}  // namespace parplan
