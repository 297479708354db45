#include "profiler-agent/probe/core_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "executor/device/ranks/core_order.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// [rank] the note of ranks bound to these processors; -1: not bound.
std::vector<std::string> NotesOf(const std::vector<int>& processors) {
  const int rank_count = static_cast<int>(processors.size());
  std::vector<std::string> notes(processors.size());
  RunRanks(rank_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    std::vector<int> all(rank_count);
    std::iota(all.begin(), all.end(), 0);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> control,
                         fabric.MakeGroup("control", all));
    const int processor = processors[fabric.rank()];
    if (processor >= 0) {
      cpu_set_t only;
      CPU_ZERO(&only);
      CPU_SET(processor, &only);
      ASSERT_EQ(::sched_setaffinity(0, sizeof(only), &only), 0);
    }
    ASSERT_OK_AND_ASSIGN(notes[fabric.rank()], CoreSharingNote(*control));
  });
  return notes;
}

TEST(CoreSharingNote, NamesRanksThatShareACore) {
  const int core = CoresInOrder().front();
  EXPECT_THAT(NotesOf({core, core, core}),
              Each(AllOf(HasSubstr("3 ranks shared 1 cores"), HasSubstr("up to 3 on one"))));
}

TEST(CoreSharingNote, NamesRanksThatAreNotBound) {
  const std::vector<int> cores = CoresInOrder();
  if (cores.size() < 2) GTEST_SKIP() << "on one processor every rank is bound to it";
  EXPECT_THAT(NotesOf({cores[0], -1}), Each(StartsWith("1 of 2 ranks were not bound")));
}

TEST(CoreSharingNote, SaysNothingOfRanksWithACoreEach) {
  const std::vector<int> cores = CoresInOrder();
  if (cores.size() < 2) GTEST_SKIP() << "there is one processor";
  EXPECT_THAT(NotesOf({cores[0], cores[1]}), Each(IsEmpty()));
}

}  // namespace
}  // namespace parplan
