// The C interface as others meet it: from a program in C, from Python, and as a file of symbols.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/executor/exec/exec_world.h"
#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

// The text that a command wrote to both outputs, and its exit status.
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

// Lines of a text.
std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Programs that were compiled with an earlier header go on with this library. Members come at the
// end of structs that begin with `size`, and functions and values are added; where something else
// has to change, PARPLAN_EXECUTOR_ABI grows, and a file of another number begins.
TEST(CInterfaceLibrary, IsAsCallersWereCompiledWith) {
  if (sizeof(void*) != 8) GTEST_SKIP() << "the file is of machines with addresses of 64 bits";
  const Ran ran = RunCommand(PARPLAN_ABI_IN_C);
  ASSERT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(LinesOf(ran.output), ::testing::ElementsAreArray(LinesOf(ReadText(PARPLAN_ABI))))
      << "where that is right, tests/abi_in_c >tests/executor/capi/abi_1.txt";
}

TEST(CInterfaceLibrary, ExportsItsFunctionsAlone) {
  const Ran ran = RunCommand(absl::StrCat("nm -D --defined-only ", PARPLAN_CAPI));
  ASSERT_EQ(ran.status, 0) << ran.output;
  std::vector<std::string> exported;
  for (const std::string& line : LinesOf(ran.output)) {
    EXPECT_THAT(line, ::testing::MatchesRegex("[0-9a-f]+ T parplan_[a-z_]+"));
    exported.push_back(line.substr(line.rfind(' ') + 1));
  }
  std::vector<std::string> promised;
  for (const std::string& line : LinesOf(ReadText(PARPLAN_ABI))) {
    const size_t end = line.find('(');
    if (end == std::string::npos) continue;
    promised.push_back(line.substr(0, end).substr(line.rfind(' ', end) + 1));
  }
  EXPECT_THAT(promised, ::testing::SizeIs(::testing::Ge(19)));
  EXPECT_THAT(exported, ::testing::UnorderedElementsAreArray(promised));
}

}  // namespace
}  // namespace parplan
