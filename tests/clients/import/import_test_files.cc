#include "tests/clients/import/import_test_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace parplan {

std::string ReadTestFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.good()) << path;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

NamedText ReadNamedText(const std::string& folder, const std::string& path) {
  return {path, ReadTestFile(folder + "/" + path)};
}

GalvatronFiles ExampleFiles(const std::string& data, int node_count) {
  const std::string profiles = data + "/galvatron_profiles";
  const std::string models = "main-cea12ff/galvatron/models/gpt/configs/";
  const std::string hardware = "main-cea12ff/galvatron/profile_hardware/hardware_configs/";
  const std::string nodes =
      node_count == 1 ? "1nodes_8gpus_per_node.json" : "2nodes_8gpus_per_node.json";
  GalvatronFiles files;
  files.times = {ReadNamedText(profiles, models + "computation_profiling_bf16_llama2-7b_all.json")};
  files.memory = {ReadNamedText(profiles, models + "memory_profiling_bf16_llama2-7b_all.json")};
  files.model_config =
      ReadNamedText(profiles, "v2.4.0/galvatron/models/llama_hf/meta_configs/llama-7b.json");
  files.hardware.all_reduce = ReadNamedText(profiles, hardware + "allreduce_bandwidth_" + nodes);
  files.hardware.send_receive = ReadNamedText(profiles, hardware + "p2p_bandwidth_" + nodes);
  files.hardware.overlap = ReadNamedText(profiles, hardware + "overlap_coefficient.json");
  files.hardware.tables = ReadNamedText(profiles, hardware + "sp_time_1nodes_8gpus_per_node.json");
  return files;
}

GalvatronFlags ExampleFlags(int node_count) {
  GalvatronFlags flags;
  flags.model.model_id = "llama2-7b";
  flags.device_kind = "NVIDIA A100-SXM4-40GB";
  flags.device_memory_bytes = int64_t{40} << 30;
  flags.cluster = node_count == 1 ? "a100-40g-8" : "a100-40g-16";
  flags.source =
      "Galvatron main cea12ff (2026-06-16), https://github.com/PKU-DAIR/Hetu-Galvatron, "
      "Apache-2.0; the source does not state its hardware, a maintainer calls it an A100 cluster";
  return flags;
}

const v1::LayerTiming* FindTiming(const v1::Profile& profile, const std::string& layer,
                                  int micro_batch_size, int sequence_length) {
  for (const v1::LayerTiming& timing : profile.layer_timings()) {
    if (timing.layer_definition_id() == layer && timing.micro_batch_size() == micro_batch_size &&
        timing.sequence_length() == sequence_length) {
      return &timing;
    }
  }
  ADD_FAILURE() << "no timing of " << layer << " at " << micro_batch_size;
  return nullptr;
}

const v1::LayerMemory* FindMemory(const v1::Profile& profile, const std::string& layer, int degree,
                                  bool sequence_parallel, int sequence_length) {
  for (const v1::LayerMemory& memory : profile.layer_memories()) {
    if (memory.layer_definition_id() == layer && memory.tensor_parallel_degree() == degree &&
        memory.sequence_parallel() == sequence_parallel &&
        memory.sequence_length() == sequence_length) {
      return &memory;
    }
  }
  ADD_FAILURE() << "no memory of " << layer << " at " << degree;
  return nullptr;
}

int64_t Nanoseconds(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1'000'000'000 + duration.nanos();
}

}  // namespace parplan
