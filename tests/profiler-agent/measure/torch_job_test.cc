#include "profiler-agent/measure/torch_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "profiler-agent/measure/measurement.h"
#include "profiler-agent/measure/process_group.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/json_file.h"
#include "proto/wire/profile_wire.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What the stand-in for parplan-torch answers to `profile`.
constexpr char kProfile[] = R"({
  "provenance": {"agent": "parplan-torch",
                 "library_versions": [{"library": "torch", "version": "2.99.0+cpu"}]},
  "device_kind": "CPU test", "devices_per_node": 2, "runtime_id": "torch",
  "overlap_slowdown": 1.5
})";

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

class TorchJobTest : public testing::Test {
 protected:
  void SetUp() override {
    temporary_ = folder_ + "/temporary";
    std::filesystem::create_directory(temporary_);
    ::setenv("TMPDIR", temporary_.c_str(), 1);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(temporary_));
    ::unsetenv("TMPDIR");
  }

  // Returns the path of a program of the shell in the place of parplan-torch.
  std::string Program(const std::string& lines) {
    const std::string path = absl::StrCat(folder_, "/parplan-torch-", ++program_count_);
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  // One that leaves its words, one a line, and its model file beside the test, and answers.
  std::string Answering() {
    return Program(absl::StrCat("printf '%s\\n' run \"$@\" >>", words_path(), "\n",
                                "while [ $# -gt 0 ]; do\n", "  [ \"$1\" = --spec ] && cat \"$2\" >",
                                folder_, "/spec\n", "  shift\ndone\ncat >&3 <<'END'\n", kProfile,
                                "\nEND"));
  }
  std::string words_path() const { return folder_ + "/words"; }
  std::vector<std::string> Words() const {
    return absl::StrSplit(ReadText(words_path()), '\n', absl::SkipEmpty());
  }

  static agent::v1::ProbePlan PlanFor(const std::string& program) {
    agent::v1::ProbePlan plan;
    plan.set_backend("cpu");
    plan.set_rank_count(2);
    *plan.mutable_time_budget() = DurationToProto(absl::Minutes(1));
    *plan.mutable_layer_time_limit() = DurationToProto(absl::Seconds(6));
    plan.mutable_torch()->set_program(program);
    plan.mutable_torch()->set_runtime_id("torch");
    for (const char* const name : {"first", "second"}) {
      plan.add_models()->set_model_id(name);
      plan.mutable_torch()->add_models(absl::StrCat("models:", name));
    }
    for (const int size : {4096, 65536}) {
      plan.add_collectives()->set_message_size_bytes(size);
    }
    const auto add = [&plan](int model, int degree, int samples) {
      agent::v1::LayerKey& key = *plan.add_layers();
      key.set_model_index(model);
      key.set_tensor_parallel_degree(degree);
      key.set_micro_batch_size(samples);
    };
    add(0, 1, 1);
    add(0, 2, 4);
    add(1, 1, 2);
    return plan;
  }

  static absl::StatusOr<v1::Profile> Run(const agent::v1::ProbePlan& plan, int model = 0) {
    TorchJobOptions options;
    options.device_kind = "CPU test";
    options.on_line = [](int, absl::string_view) {};
    PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<TorchJob> job,
                             TorchJob::Start(plan, model, options));
    return job->Wait();
  }

  const std::string folder_ = MakeTestFolder();
  std::string temporary_;
  int program_count_ = 0;
};

TEST_F(TorchJobTest, AsksForTheLayersOfItsModelAndReadsTheProfile) {
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile, Run(PlanFor(Answering())));
  EXPECT_EQ(profile.runtime_id(), "torch");
  EXPECT_EQ(profile.overlap_slowdown(), 1.5);
  const std::vector<std::string> words = Words();
  EXPECT_EQ(words[1], "profile");
  // [flag] the words behind it.
  const auto behind = [&words](const std::string& flag) {
    std::string values;
    auto at = std::find(words.begin(), words.end(), flag);
    if (at == words.end()) return std::string("(not there)");
    for (++at; at != words.end() && at->rfind("--", 0) != 0; ++at) {
      absl::StrAppend(&values, values.empty() ? "" : " ", *at);
    }
    return values;
  };
  EXPECT_EQ(behind("--model"), "models:first");
  EXPECT_EQ(behind("--device"), "cpu");
  EXPECT_EQ(behind("--device-kind"), "CPU test");
  EXPECT_EQ(behind("--ranks"), "2");
  EXPECT_EQ(behind("--micro-batch"), "1 4");
  EXPECT_EQ(behind("--tensor-parallel"), "1 2");
  EXPECT_EQ(behind("--message-size"), "4096 65536");
  EXPECT_EQ(behind("--seconds"), "2");
  EXPECT_EQ(behind("--quiet"), "");
  EXPECT_EQ(behind("--compile"), "(not there)");
  v1::ModelSpec spec;
  EXPECT_OK(ParseJson(ReadText(folder_ + "/spec"), "spec", &spec));
  EXPECT_EQ(spec.model_id(), "first");
}

TEST_F(TorchJobTest, PassesFurtherArgumentsAndCompiles) {
  agent::v1::ProbePlan plan = PlanFor(Answering());
  plan.mutable_torch()->set_runtime_id("torch-compile");
  plan.mutable_torch()->add_arguments("--sequence-parallel");
  EXPECT_OK(Run(plan, 1));
  EXPECT_THAT(Words(), AllOf(Contains("--compile"), Contains("--sequence-parallel"),
                             Contains("models:second")));
}

TEST_F(TorchJobTest, SaysWhatToInstallWithoutTheProgram) {
  for (const std::string& program : {folder_ + "/none", std::string("parplan-torch-of-nobody")}) {
    EXPECT_THAT(Run(PlanFor(program)),
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr(program), HasSubstr("pip install 'parplan[torch]'"))));
    EXPECT_THAT(TorchVersion(program), StatusIs(absl::StatusCode::kNotFound, HasSubstr("pip")));
  }
  const std::string file = folder_ + "/no-program";
  std::ofstream(file) << "text";
  EXPECT_THAT(TorchVersion(file), StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(file)));
}

TEST_F(TorchJobTest, GivesTheLastWordsOfAProgramThatFails) {
  const std::string program =
      Program("echo 'parplan-torch: PyTorch is not installed for /x' >&2; exit 1");
  EXPECT_THAT(Run(PlanFor(program)),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("PyTorch is not installed for /x")));
  EXPECT_THAT(TorchVersion(program),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("PyTorch is not installed for /x")));
}

TEST_F(TorchJobTest, RefusesWhatIsNoProfile) {
  EXPECT_THAT(Run(PlanFor(Program("exit 0"))),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("wrote no profile")));
  EXPECT_THAT(Run(PlanFor(Program("echo '{\"layer_timigns\": []}' >&3"))),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("layer_timigns")));
  EXPECT_THAT(Run(PlanFor(Program("echo '{}' >&3"))), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(TorchJobTest, ReadsTheRelease) {
  const std::string program =
      Program("printf 'parplan 0.1.0\\ntorch 2.99.0+cpu\\ntransformers 9\\n' >\"$3\"");
  EXPECT_THAT(TorchVersion(program), IsOkAndHolds("2.99.0+cpu"));
  EXPECT_THAT(TorchVersion(Program("echo 'parplan 0.1.0' >&3")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("names no release")));
}

TEST_F(TorchJobTest, EndsWithAllItsProcesses) {
  TorchJobOptions options;
  options.on_line = [](int, absl::string_view) {};
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<TorchJob> job,
      TorchJob::Start(PlanFor(Program("sleep 600 & echo started >&2; wait")), 0, options));
  std::vector<pid_t> pids;
  while (pids.size() < 2) {
    ::usleep(1000);
    pids = job->pids();
  }
  EXPECT_THAT(pids, SizeIs(2));
  job->Stop("enough");
  EXPECT_THAT(job->Wait(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  // A process that was killed and that nobody waited for yet is a zombie. This ends at the latest
  // with the test's time limit.
  for (const pid_t pid : pids) {
    const auto is_running = [pid] {
      const std::string stat = ReadText(absl::StrCat("/proc/", pid, "/stat"));
      return !stat.empty() && stat.find(") Z ") == std::string::npos;
    };
    while (is_running()) ::usleep(1000);
  }
}

TEST_F(TorchJobTest, IsWhatMeasuresAPlanOfPyTorch) {
  MeasurementOptions options;
  options.even_if_busy = true;
  options.on_line = [](int, absl::string_view) {};
  ASSERT_OK_AND_ASSIGN(const NodeInventory inventory, ReadInventory(options.inventory));
  agent::v1::ProbePlan plan = PlanFor(Answering());
  ASSERT_OK_AND_ASSIGN(const v1::Profile profile, MeasureNode(inventory, plan, options));
  EXPECT_OK(ValidateProfile(profile));
  EXPECT_THAT(profile.provenance().agent(), HasSubstr("parplan-agent "));
  EXPECT_THAT(profile.provenance().notes(), Contains("Measured by parplan-torch."));
  EXPECT_EQ(profile.provenance().library_versions(0).library(), "torch");
  // One run for each model, and collectives in the first alone.
  const std::vector<std::string> words = Words();
  EXPECT_EQ(std::count(words.begin(), words.end(), "run"), 2);
  EXPECT_EQ(std::count(words.begin(), words.end(), "4096"), 1);
  // A program that measures another runtime than was asked for.
  plan.mutable_torch()->set_runtime_id("torch-compile");
  EXPECT_THAT(
      MeasureNode(inventory, plan, options),
      StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("`torch`"), HasSubstr("--runtime"))));
}

TEST(ProcessesOfGroup, ReadsNamesWithAnyCharacters) {
  const std::string proc = MakeTestFolder();
  const auto add = [&proc](const std::string& name, const std::string& stat) {
    std::filesystem::create_directory(proc + "/" + name);
    std::ofstream(proc + "/" + name + "/stat") << stat;
  };
  add("12", "12 (python) S 1 12 12 0 -1");
  add("13", "13 (a) R 9 (b) S 12 12 12 0 -1");
  add("14", "14 (other) S 1 14 14 0 -1");
  add("15", "cut off");
  add("self", "12 (python) S 1 12 12 0 -1");
  EXPECT_THAT(ProcessesOfGroup(12, proc), testing::UnorderedElementsAre(12, 13));
  EXPECT_THAT(ProcessesOfGroup(12, proc + "/none"), IsEmpty());
  EXPECT_THAT(ProcessesOfGroup(::getpgrp()), Contains(::getpid()));
}

}  // namespace
}  // namespace parplan
