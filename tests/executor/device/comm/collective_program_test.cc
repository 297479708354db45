// Programs of all ranks run against one another on links of one element, without any
// process: what one sends the other expects, none waits for ever, and the results are those
// of the definition.

#include "executor/device/comm/collective_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

using Elements = std::vector<int64_t>;

// Room for so many elements on each way.
constexpr size_t kCapacity = 1;

struct SimulatedRank {
  CollectiveProgram program;
  Elements send;
  Elements receive;
  Elements scratch;
  size_t step = 0;
  int64_t sent = 0;
  int64_t received = 0;

  Elements& Of(ProgramBuffer buffer) {
    if (buffer == ProgramBuffer::kSend) return send;
    return buffer == ProgramBuffer::kReceive ? receive : scratch;
  }
  int64_t& At(const ProgramPlace& place, int64_t index) {
    return Of(place.buffer).at(place.offset + index);
  }
  void Copy(const std::vector<ProgramCopy>& copies) {
    for (const ProgramCopy& copy : copies) {
      for (int64_t i = 0; i < copy.count; ++i) At(copy.to, i) = At(copy.from, i);
    }
  }
};

class Simulation {
 public:
  explicit Simulation(std::vector<SimulatedRank> ranks) : ranks_(std::move(ranks)) {}

  // False where all wait for one another.
  bool Run() {
    for (SimulatedRank& rank : ranks_) rank.Copy(rank.program.copies);
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) has_moved |= Move(static_cast<int>(r));
    }
    for (SimulatedRank& rank : ranks_) {
      if (rank.step < rank.program.steps.size()) return false;
      rank.Copy(rank.program.final_copies);
    }
    // Every message that was sent was received.
    for (const auto& [unused, way] : ways_) {
      if (!way.empty()) return false;
    }
    return true;
  }

  const SimulatedRank& rank(int r) const { return ranks_[r]; }

 private:
  bool Move(int r) {
    SimulatedRank& rank = ranks_[r];
    if (rank.step >= rank.program.steps.size()) return false;
    const ProgramStep& step = rank.program.steps[rank.step];
    bool has_moved = false;
    if (step.send_to >= 0 && rank.sent < step.send_count) {
      std::deque<int64_t>& way = ways_[{r, step.send_to}];
      if (way.size() < kCapacity) {
        way.push_back(rank.At(step.send_from, rank.sent++));
        has_moved = true;
      }
    }
    if (step.receive_from >= 0 && rank.received < step.receive_count) {
      std::deque<int64_t>& way = ways_[{step.receive_from, r}];
      if (!way.empty()) {
        const int64_t base = step.reduces ? rank.At(step.base, rank.received) : 0;
        rank.At(step.receive_at, rank.received++) = base + way.front();
        way.pop_front();
        has_moved = true;
      }
    }
    if (rank.sent == step.send_count && rank.received == step.receive_count) {
      ++rank.step;
      rank.sent = 0;
      rank.received = 0;
      has_moved = true;
    }
    return has_moved;
  }

  std::vector<SimulatedRank> ranks_;
  std::map<std::pair<int, int>, std::deque<int64_t>> ways_;
};

// An element that encodes its origin.
int64_t ElementOf(int rank, int64_t index) { return (rank + 1) * 1'000'003 + index * 17; }

Elements Filled(int rank, int64_t count) {
  Elements elements(count);
  for (int64_t i = 0; i < count; ++i) elements[i] = ElementOf(rank, i);
  return elements;
}

class CollectiveProgramTest : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  // Runs the operation on buffers of so many elements.
  Simulation Run(Operation operation, int64_t count, int64_t send_count, int64_t receive_count,
                 int root = 0) {
    std::vector<SimulatedRank> ranks(size());
    for (int r = 0; r < size(); ++r) {
      CollectiveCall call{
          .operation = operation, .type = ElementType::kFloat64, .count = count, .peer = root};
      ranks[r].program = ProgramOf(call, r, size());
      ranks[r].send = Filled(r, send_count);
      ranks[r].receive.assign(receive_count, -1);
      ranks[r].scratch.assign(ranks[r].program.scratch_count, -1);
    }
    Simulation simulation(std::move(ranks));
    EXPECT_TRUE(simulation.Run()) << OperationName(operation) << " of " << count;
    return simulation;
  }

  int64_t SumOf(int64_t index) const {
    int64_t sum = 0;
    for (int r = 0; r < size(); ++r) sum += ElementOf(r, index);
    return sum;
  }
};

// Nothing, less than the ranks, no multiple of them, and more than a small all-reduce has.
constexpr int64_t kProgramCounts[] = {0, 1, 2, 5, 64, 1000, 1030};

TEST_P(CollectiveProgramTest, AllReduceGivesTheSumToEveryRank) {
  for (const int64_t count : kProgramCounts) {
    const Simulation done = Run(Operation::kAllReduce, count, count, count);
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(done.rank(r).receive[i], SumOf(i));
    }
  }
}

TEST_P(CollectiveProgramTest, ReduceScatterGivesEachRankItsShareAndKeepsWhatWasSent) {
  for (const int64_t count : kProgramCounts) {
    const Simulation done = Run(Operation::kReduceScatter, count, count * size(), count);
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(done.rank(r).receive[i], SumOf(r * count + i));
      }
      ASSERT_EQ(done.rank(r).send, Filled(r, count * size()));
    }
  }
}

TEST_P(CollectiveProgramTest, AllGatherGivesEveryShareToEveryRank) {
  for (const int64_t count : kProgramCounts) {
    const Simulation done = Run(Operation::kAllGather, count, count, count * size());
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < count * size(); ++i) {
        ASSERT_EQ(done.rank(r).receive[i], ElementOf(static_cast<int>(i / count), i % count));
      }
    }
  }
}

TEST_P(CollectiveProgramTest, AllToAllTransposes) {
  for (const int64_t count : kProgramCounts) {
    const Simulation done = Run(Operation::kAllToAll, count, count * size(), count * size());
    for (int r = 0; r < size(); ++r) {
      for (int64_t i = 0; i < count * size(); ++i) {
        ASSERT_EQ(done.rank(r).receive[i],
                  ElementOf(static_cast<int>(i / count), r * count + i % count));
      }
    }
  }
}

TEST_P(CollectiveProgramTest, BroadcastGivesTheRootsElementsToEveryRank) {
  // More than one piece too.
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{8192}, int64_t{20000}}) {
    for (const int root : {0, size() - 1}) {
      const Simulation done = Run(Operation::kBroadcast, count, count, count, root);
      for (int r = 0; r < size(); ++r) ASSERT_EQ(done.rank(r).receive, Filled(root, count));
    }
  }
}

// After the barrier each rank has heard, directly or by others, of every other.
TEST_P(CollectiveProgramTest, BarrierHearsOfEveryRank) {
  std::vector<std::vector<char>> knows(size(), std::vector<char>(size(), 0));
  std::vector<CollectiveProgram> programs;
  for (int r = 0; r < size(); ++r) {
    knows[r][r] = 1;
    programs.push_back(ProgramOf({.operation = Operation::kBarrier}, r, size()));
  }
  for (size_t step = 0; step < programs[0].steps.size(); ++step) {
    const auto before = knows;
    for (int r = 0; r < size(); ++r) {
      const int from = programs[r].steps[step].receive_from;
      ASSERT_EQ(programs[from].steps[step].send_to, r);
      for (int other = 0; other < size(); ++other) knows[r][other] |= before[from][other];
    }
  }
  for (int r = 0; r < size(); ++r) EXPECT_THAT(knows[r], testing::Each(1));
  Run(Operation::kBarrier, 0, 0, 0);
}

// 2 (n - 1) / n of the buffer is what nccl-tests counts for a bus: no program moves less.
TEST_P(CollectiveProgramTest, LargeAllReducesMoveTheLeastBytes) {
  const int64_t count = int64_t{size()} * 5000;
  for (int r = 0; r < size(); ++r) {
    int64_t sent = 0;
    const CollectiveProgram program =
        ProgramOf({.operation = Operation::kAllReduce, .count = count}, r, size());
    for (const ProgramStep& step : program.steps) sent += step.send_count;
    EXPECT_EQ(sent, 2 * (size() - 1) * (count / size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CollectiveProgramTest, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 16),
                         [](const auto& info) { return absl::StrCat(info.param, "Ranks"); });

}  // namespace
}  // namespace parplan
