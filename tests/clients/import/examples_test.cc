// The files under deploy/examples: read strictly, valid, and what the importer
// makes of the published figures.
//
// To write them anew after a change of the importer:
//   PARPLAN_WRITE_EXAMPLES=1 build/dev/tests/import_test --gtest_filter='*Examples*'

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "clients/import/galvatron_profile.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/clients/import/import_test_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

std::string ExamplePath(const std::string& name) {
  return SourceDir() + "/deploy/examples/" + name;
}

template <typename Message>
Message ReadExample(const std::string& name) {
  Message message;
  EXPECT_OK(ParseJson(ReadTestFile(ExamplePath(name)), name, &message));
  return message;
}

// Compares with the file, or writes it where asked to.
void ExpectExample(const std::string& name, const google::protobuf::Message& message) {
  const std::string text = ToReadableJson(message);
  if (std::getenv("PARPLAN_WRITE_EXAMPLES") != nullptr) {
    std::ofstream(ExamplePath(name), std::ios::binary) << text;
  }
  EXPECT_EQ(ReadTestFile(ExamplePath(name)), text) << name;
}

TEST(Examples, AreWhatTheImporterMakesOfThePublishedFigures) {
  const std::optional<std::string> data = SharedDataDir();
  if (!data) GTEST_SKIP() << kNoSharedData;
  for (int node_count : {1, 2}) {
    ASSERT_OK_AND_ASSIGN(
        const GalvatronImport import,
        ImportGalvatron(ExampleFiles(*data, node_count), ExampleFlags(node_count)));
    if (node_count == 1) {
      ExpectExample("llama2-7b.model.json", *import.model);
      ExpectExample("a100-40g-8.cluster.json", import.topology);
      ExpectExample("llama2-7b-a100.profile.json", import.profile);
    } else {
      ExpectExample("a100-40g-16.cluster.json", import.topology);
      ExpectExample("llama2-7b-a100-2-nodes.profile.json", import.profile);
    }
  }
}

TEST(Examples, AreReadStrictlyAndAreValid) {
  EXPECT_OK(ModelFromProto(ReadExample<v1::ModelSpec>("llama2-7b.model.json")));
  ASSERT_OK_AND_ASSIGN(
      const Topology one,
      TopologyFromProto(ReadExample<v1::ClusterTopology>("a100-40g-8.cluster.json")));
  EXPECT_EQ(one.device_count(), 8);
  ASSERT_OK_AND_ASSIGN(
      const Topology two,
      TopologyFromProto(ReadExample<v1::ClusterTopology>("a100-40g-16.cluster.json")));
  EXPECT_EQ(two.device_count(), 16);
  ASSERT_OK_AND_ASSIGN(const ModelSpec gpt,
                       ModelFromProto(ReadExample<v1::ModelSpec>("gpt-7.5b.model.json")));
  EXPECT_EQ(gpt.layer_count(), 38);
  // Its name: 36 layers of 12 h^2 and a shared table of 51200 h, h = 4096.
  EXPECT_NEAR(static_cast<double>(gpt.parameter_count()) / 7.5e9, 1.0, 0.02);
  ASSERT_OK_AND_ASSIGN(
      const Topology large,
      TopologyFromProto(ReadExample<v1::ClusterTopology>("a100-80g-8.cluster.json")));
  EXPECT_EQ(large.device_count(), 8);
  EXPECT_OK(ValidateProfile(ReadExample<v1::Profile>("llama2-7b-a100.profile.json")));
  EXPECT_OK(ValidateProfile(ReadExample<v1::Profile>("llama2-7b-a100-2-nodes.profile.json")));
}

TEST(Examples, FitTogether) {
  const auto model_message = ReadExample<v1::ModelSpec>("llama2-7b.model.json");
  const auto profile = ReadExample<v1::Profile>("llama2-7b-a100.profile.json");
  ASSERT_OK_AND_ASSIGN(const ModelSpec model, ModelFromProto(model_message));
  ASSERT_OK_AND_ASSIGN(
      const Topology topology,
      TopologyFromProto(ReadExample<v1::ClusterTopology>("a100-40g-8.cluster.json")));
  const v1::Profile* const profiles[] = {&profile};
  ASSERT_OK_AND_ASSIGN(const ProfileSnapshot snapshot,
                       SnapshotOfNodes(profiles, topology.node_groups()[0].device_kind, 8, "fsdp"));
  for (const LayerDefinition& definition : model.layer_definitions()) {
    EXPECT_NE(snapshot.FindLayer(definition, model.precision()), nullptr)
        << definition.layer_definition_id;
  }
}

}  // namespace
}  // namespace parplan
