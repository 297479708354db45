#include "profiler-agent/main/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "profiler-agent/main/once.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The program's answer to a command line.
struct Reading {
  std::variant<Settings, int> result;
  // Text on standard output and standard error.
  std::string out;
  std::string error;
};

Reading Read(const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"parplan-agent"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::variant<Settings, int> result =
      ReadSettings(static_cast<int>(arguments.size()), arguments.data());
  std::string error = testing::internal::GetCapturedStderr();
  return {std::move(result), testing::internal::GetCapturedStdout(), std::move(error)};
}

// Reads a command line that is right.
Settings Accepted(const std::vector<std::string>& words) {
  const Reading reading = Read(words);
  const Settings* const settings = std::get_if<Settings>(&reading.result);
  EXPECT_NE(settings, nullptr) << reading.error;
  return settings == nullptr ? Settings() : *settings;
}

// Expects the exit code 2 and an error that says `part`.
void ExpectRefused(const std::vector<std::string>& words, const std::string& part) {
  const Reading reading = Read(words);
  ASSERT_TRUE(std::holds_alternative<int>(reading.result)) << part;
  EXPECT_EQ(std::get<int>(reading.result), 2);
  EXPECT_THAT(reading.error, HasSubstr(part));
}

TEST(ReadSettings, WithoutFlagsIsTheServiceOfAValidNode) {
  const Settings settings = Accepted({});
  EXPECT_FALSE(settings.once);
  EXPECT_FALSE(settings.inventory_only);
  EXPECT_EQ(settings.cluster, "local");
  EXPECT_THAT(settings.node, testing::MatchesRegex("[a-z0-9][a-z0-9-]*"));
  EXPECT_EQ(settings.daemon.parent, "clusters/local/nodes/" + settings.node);
  EXPECT_EQ(settings.daemon.measurement.device_type, DeviceType::kCpu);
  EXPECT_TRUE(settings.daemon.takes_leases);
  EXPECT_EQ(settings.daemon.watch.health_listen, "127.0.0.1:9479");
  EXPECT_EQ(settings.daemon.watch.metrics_listen, "127.0.0.1:9480");
}

TEST(ReadSettings, TakesFlags) {
  const Settings settings =
      Accepted({"--server",  "planner:9477", "--cluster",       "lab",   "--node",  "n1",
                "--backend", "cuda",         "--ranks",         "8",     "--model", "a.json",
                "--model",   "b.json",       "--micro-batches", "1",     "4",       "--busy-pause",
                "90s",       "--no-leases",  "--tls-ca",        "ca.pem"});
  EXPECT_EQ(settings.daemon.server.target, "planner:9477");
  EXPECT_EQ(settings.daemon.server.ca_file, "ca.pem");
  EXPECT_EQ(settings.daemon.parent, "clusters/lab/nodes/n1");
  EXPECT_EQ(settings.daemon.request.backend, "cuda");
  EXPECT_EQ(settings.daemon.measurement.device_type, DeviceType::kCuda);
  EXPECT_EQ(settings.daemon.request.rank_count, 8);
  EXPECT_THAT(settings.model_paths, ElementsAre("a.json", "b.json"));
  EXPECT_THAT(settings.daemon.request.micro_batch_sizes, ElementsAre(1, 4));
  EXPECT_EQ(settings.daemon.busy_pause, absl::Seconds(90));
  EXPECT_FALSE(settings.daemon.takes_leases);
}

TEST(ReadSettings, TakesModelsOfPyTorchInTheOrderOfTheModelFiles) {
  const Settings settings =
      Accepted({"--runtime", "torch", "--model", "a.json", "--torch-model", "hf:a.config.json",
                "--model", "b.json", "--torch-model", "models:b",
                "--torch-argument=--sequence-parallel", "--torch-program", "/opt/bin/pt"});
  ASSERT_TRUE(settings.daemon.request.torch.has_value());
  const agent::v1::TorchProbe& torch = *settings.daemon.request.torch;
  EXPECT_EQ(torch.program(), "/opt/bin/pt");
  EXPECT_EQ(torch.runtime_id(), "torch");
  EXPECT_THAT(torch.models(), ElementsAre("hf:a.config.json", "models:b"));
  EXPECT_THAT(torch.arguments(), ElementsAre("--sequence-parallel"));
  EXPECT_FALSE(Accepted({}).daemon.request.torch.has_value());
}

TEST(ReadSettings, RefusesFlagsOfPyTorchThatDoNotGoTogether) {
  ExpectRefused({"--torch-model", "models:a"}, "--runtime torch");
  ExpectRefused({"--runtime", "torch"}, "--torch-model");
  ExpectRefused(
      {"--runtime", "torch", "--model", "a.json", "--model", "b.json", "--torch-model", "models:a"},
      "one for each --model");
  ExpectRefused({"--runtime", "torch", "--model", "a.json", "--torch-model", "models:a", "--node",
                 "a", "--link-node", "a", "--link-node", "b"},
                "--link-node");
  ExpectRefused({"--runtime", "jax"}, "--runtime");
}

TEST(CompleteSettings, SaysWhatToInstallWithoutParplanTorch) {
  const std::string folder = MakeTestFolder();
  std::ofstream(folder + "/model.json")
      << R"({"model_id": "m", "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM",
             "layer_definitions": [{"layer_definition_id": "e", "kind": "LAYER_KIND_EMBEDDING",
                                    "hidden_size": 8, "sequence_length": 4,
                                    "vocabulary_size": 16}],
             "layer_runs": [{"layer_definition_id": "e", "layer_count": 1}]})";
  Settings settings =
      Accepted({"--ranks", "1", "--runtime", "torch", "--model", folder + "/model.json",
                "--torch-model", "models:a", "--torch-program", folder + "/none"});
  const absl::Status status = CompleteSettings(settings);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("pip install 'parplan[torch]'"));
}

TEST(ReadSettings, FlagsTakePrecedenceOverTheFile) {
  const std::string path = MakeTestFolder() + "/agent.toml";
  std::ofstream(path) << "cluster = \"lab\"\nnode = \"n1\"\nranks = 4\n";
  const Settings settings = Accepted({"--config", path, "--node", "n2"});
  EXPECT_EQ(settings.daemon.parent, "clusters/lab/nodes/n2");
  EXPECT_EQ(settings.daemon.request.rank_count, 4);
}

TEST(ReadSettings, RefusesUnknownNamesInTheFile) {
  const std::string path = MakeTestFolder() + "/agent.toml";
  std::ofstream(path) << "clutser = \"lab\"\n";
  ExpectRefused({"--config", path}, "clutser");
}

// The agent does not start with a file of which it would read a part, or for which it would wait.
TEST(ReadSettings, RefusesAFileThatIsNoConfiguration) {
  const std::string folder = MakeTestFolder();
  const std::string path = folder + "/agent.toml";
  const auto expect_refused = [&path](const std::string& text, const std::string& part) {
    std::ofstream(path, std::ios::trunc) << text;
    ExpectRefused({"--config", path}, part);
  };
  expect_refused(std::string("cluster = \"a\"\n\0ranks = 4\n", 25), "no text in UTF-8");
  expect_refused("cluster = \"\xff\"\n", "no text in UTF-8");
  expect_refused("cluster = \"a\"\ncluster = \"b\"\n", "`cluster` more than one value");
  expect_refused("cluster = \"a\"\nnode = \"n\"\ncluster = \"a\"\n", "`cluster` more than");
  expect_refused("cluster = [\"a\", \"b\"]\n", "`cluster` more than one value");
  expect_refused("cluster = \"\"\n", "must not be empty");
  expect_refused(std::string(11 << 20, '#'), "more than");
  std::ofstream(path, std::ios::trunc) << "model = [\"a\", \"b\"]\n";
  EXPECT_THAT(Accepted({"--config", path}).model_paths, ElementsAre("a", "b"));
  ExpectRefused({"--config", folder}, folder);
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  ExpectRefused({"--config", pipe}, "pipe");
  const std::string loop = folder + "/loop";
  ASSERT_EQ(::symlink(loop.c_str(), loop.c_str()), 0);
  ExpectRefused({"--config", loop}, "loop");
}

TEST(ReadSettings, RefusesEmptyTexts) {
  for (const char* const flag : {"--server", "--cluster", "--spool-dir", "--node", "--host"}) {
    ExpectRefused({flag, ""}, "must not be empty");
  }
}

TEST(ReadSettings, RefusesFlagsThatDoNotGoTogether) {
  ExpectRefused({"--once"}, "--out");
  ExpectRefused({"--out", "p.json"}, "need --once");
  ExpectRefused({"--topology-out", "c.json"}, "need --once");
  ExpectRefused({"--node", "a", "--link-node", "a"}, "at least one other node");
  ExpectRefused({"--node", "a", "--link-node", "b", "--link-node", "a"}, "this node first");
}

TEST(ReadSettings, RefusesValuesOutOfRange) {
  ExpectRefused({"--ranks", "0"}, "--ranks");
  ExpectRefused({"--backend", "abacus"}, "--backend");
  ExpectRefused({"--budget", "soon"}, "soon");
  ExpectRefused({"--max-message-bytes", "1"}, "--max-message-bytes");
  ExpectRefused({"--unknown"}, "--unknown");
}

TEST(ReadSettings, PrintsHelpAndVersion) {
  for (const char* const flag : {"--help", "--version"}) {
    const Reading reading = Read({flag});
    ASSERT_TRUE(std::holds_alternative<int>(reading.result)) << flag;
    EXPECT_EQ(std::get<int>(reading.result), 0);
    EXPECT_THAT(reading.out, HasSubstr("parplan-agent"));
    EXPECT_THAT(reading.error, IsEmpty());
  }
}

TEST(CompleteSettings, NamesTheFlagOrTheFileThatIsWrong) {
  Settings bad_name = Accepted({"--cluster", "No Name"});
  EXPECT_THAT(CompleteSettings(bad_name),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--cluster")));
  Settings no_model = Accepted({"--model", "/none/model.json"});
  EXPECT_THAT(CompleteSettings(no_model),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("/none/model.json")));
}

}  // namespace
}  // namespace parplan
