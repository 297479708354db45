// The C interface as others meet it: from a program in C, from Python, and as a file of symbols.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/executor/exec/exec_world.h"
#include "tests/executor/program/program_cases.h"

namespace parplan {
namespace {

// What a command wrote to both outputs, and its exit status.
struct Ran {
  std::string output;
  int status = -1;
};

Ran RunCommand(const std::string& command) {
  Ran ran;
  FILE* const pipe = ::popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> bytes;
  for (size_t count; (count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
    ran.output.append(bytes.data(), count);
  }
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class CInterface : public ::testing::Test {
 protected:
  // Two stages of two ranks; tensor-parallel, sharded, sequence-parallel and data-parallel
  // layers.
  CInterface() {
    const Plan plan =
        PlanOf(world_.model(), 4, {2, 2},
               {{.tensor_parallel_degree = 2},
                {.data_parallel_degree = 2, .sharding_level = ShardingLevel::kParameters},
                {.tensor_parallel_degree = 2, .sequence_parallel = true},
                {.data_parallel_degree = 2}},
               8, 4);
    Plan recomputed = plan;
    recomputed.stages[0].layer_runs.back().strategy.sharding_level = ShardingLevel::kOptimizer;
    recomputed.stages[0].layer_runs.back().strategy.recompute_level = RecomputeLevel::kFull;
    world_.Write("recomputed.json", ReadText(world_.WritePlan("recomputed", recomputed)));
    std::string envelope = ReadText(world_.WritePlan("capi", plan));
    world_.Write("envelope.json", envelope);
    // A letter of the payload, which is the longest word.
    const size_t place = envelope.find("\"payload\"") + 40;
    envelope[place] = envelope[place] == 'A' ? 'B' : 'A';
    world_.Write("changed.json", envelope);
  }
  ExecWorld world_{4};
};

TEST_F(CInterface, ServesAProgramInC) {
  const Ran ran = RunCommand(absl::StrCat(PARPLAN_CAPI_IN_C, " ", world_.PathOf("")));
  EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST_F(CInterface, ServesPython) {
  const Ran ran = RunCommand(absl::StrCat(PARPLAN_PYTHON, " -B ", PARPLAN_TORCH_TEST, " ",
                                          PARPLAN_CAPI, " ", world_.PathOf("")));
  EXPECT_EQ(ran.status, 0) << ran.output;
}

TEST(CInterfaceLibrary, ExportsNothingElse) {
  const Ran ran = RunCommand(absl::StrCat("nm -D --defined-only ", PARPLAN_CAPI));
  ASSERT_EQ(ran.status, 0) << ran.output;
  std::istringstream lines(ran.output);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_THAT(line, ::testing::MatchesRegex("[0-9a-f]+ T parplan_[a-z_]+"));
  }
  EXPECT_EQ(count, 19);
}

}  // namespace
}  // namespace parplan
