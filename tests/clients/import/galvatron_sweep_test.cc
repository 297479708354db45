// Every set of files in the folder of measured data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clients/import/galvatron_profile.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/clients/import/galvatron_profile_sets.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

INSTANTIATE_TEST_SUITE_P(Sets, GalvatronSweep, testing::ValuesIn(GalvatronProfileSets()),
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
    // That of a cousin where its own is not among the files.
    const char* config;
  } models[] = {
      {"llama2-7b", "v2.4.0/galvatron/models/llama_hf/meta_configs/llama-7b.json"},
      {"llama-7b-v128k", "v2.4.0/galvatron/models/llama_hf/meta_configs/llama-7b.json"},
      {"gpt-6.7b", "v2.4.0/galvatron/models/gpt_fa/meta_configs/gpt-6.7b.json"},
      {"bert-large", "v2.4.0/galvatron/models/bert_hf/meta_configs/bert-large-uncased.json"},
      {"vit-huge", "v2.4.0/galvatron/models/vit_hf/meta_configs/vit-huge-patch16-224.json"},
      {"swin-huge", "v2.4.0/galvatron/models/swin/meta_configs/swin-huge-patch4-window7-224.json"},
      {"t5-3b", "v2.4.0/galvatron/models/T5/meta_configs/t5-3B.json"},
      {"t5-3b-asprofiled", "v2.4.0/galvatron/models/T5/meta_configs/t5-3B.json"},
      {"llama2-70b", "v2.4.0/galvatron/models/llama_hf/meta_configs/llama2-70b.json"},
      {"llama3-70b", "v2.4.0/galvatron/models/llama_hf/meta_configs/llama2-70b.json"},
      {"llama3-8b", "v2.4.0/galvatron/models/llama_hf/meta_configs/llama-7b.json"},
      {"qwen2.5-32b", "v2.4.0/galvatron/models/llama_hf/meta_configs/qwen2.5-72b.json"},
  };
  const struct {
    const char* name;
    int node_count;
    int devices_per_node;
  } clusters[] = {{"1n4g", 1, 4},   {"1n6g", 1, 6},    {"1n8g", 1, 8},   {"2n8g", 2, 8},
                  {"4n8g", 4, 8},   {"8n8g", 8, 8},    {"16n8g", 16, 8}, {"32n8g", 32, 8},
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
