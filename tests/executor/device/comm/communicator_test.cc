// Conformance of every communicator, over all transports and numbers of ranks.

#include "executor/device/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/system/steady_clock.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Transport {
  TransportKind kind;
  int size;
  TlsLinks tls_links = TlsLinks::kBetweenNodes;
  std::string Name() const {
    return absl::StrCat(kind == TransportKind::kTcp ? "Tcp" : "SharedMemory",
                        tls_links == TlsLinks::kAll ? "WithTls" : "", size);
  }
};

std::vector<int> AllRanks(int size) {
  std::vector<int> ranks(size);
  for (int r = 0; r < size; ++r) ranks[r] = r;
  return ranks;
}

class CommunicatorTest : public testing::TestWithParam<Transport> {
 protected:
  int size() const { return GetParam().size; }

  // On every rank, in the group of all.
  void OnRanks(const std::function<void(Communicator&, JobFabric&)>& work,
               absl::Duration operation_timeout = absl::Minutes(5)) {
    RunRanks(size(),
             {.transport = GetParam().kind,
              .tls_links = GetParam().tls_links,
              .operation_timeout = operation_timeout,
              .spin_count = 50},
             [&](JobFabric& fabric) {
               ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> all,
                                    fabric.MakeGroup("all", AllRanks(size())));
               ASSERT_EQ(all->rank(), fabric.rank());
               ASSERT_EQ(all->size(), size());
               // Some of `work` ends the job, after which no rank could make its group.
               Await(made_);
               work(*all, fabric);
             });
  }

  // Returns when all ranks have come here. After the job has failed there is no rendezvous,
  // and one that left would break the connections of those that still wait.
  void AwaitOthers() { Await(arrived_); }

 private:
  // Returns when all ranks have come here with `count`.
  void Await(std::atomic<int>& count) {
    ++count;
    const absl::Duration deadline = SteadyNow() + absl::Minutes(2);
    while (count < size()) {
      ASSERT_LT(SteadyNow(), deadline) << "only " << count << " ranks have come";
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  std::atomic<int> made_ = 0;
  std::atomic<int> arrived_ = 0;
};

template <typename T>
T ValueOf(int rank, int64_t index) {
  return static_cast<T>((rank + 1) * 3 + index % 13);
}

template <typename T>
std::vector<T> Values(int rank, int64_t count) {
  std::vector<T> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = ValueOf<T>(rank, i);
  return values;
}

template <typename T>
T SumAt(int size, int64_t index) {
  T sum = 0;
  for (int r = 0; r < size; ++r) sum += ValueOf<T>(r, index);
  return sum;
}

// Less than a ring holds, and much more.
constexpr int64_t kMessageCounts[] = {0, 1, 7, 1000, 300'001};

TEST_P(CommunicatorTest, AllReducesInPlaceAndElsewhere) {
  OnRanks([&](Communicator& all, JobFabric&) {
    for (const int64_t count : kMessageCounts) {
      std::vector<float> data = Values<float>(all.rank(), count);
      ASSERT_OK(all.AllReduce(ElementType::kFloat32, data.data(), count));
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], SumAt<float>(size(), i));
      const std::vector<double> sent = Values<double>(all.rank(), count);
      std::vector<double> received(count);
      ASSERT_OK(all.Run({.operation = Operation::kAllReduce,
                         .type = ElementType::kFloat64,
                         .count = count,
                         .send = sent.data(),
                         .receive = received.data(),
                         .reduction = Reduction::kMax}));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(received[i], ValueOf<double>(size() - 1, i));
      }
      ASSERT_EQ(sent, Values<double>(all.rank(), count));
    }
  });
}

TEST_P(CommunicatorTest, AddsBfloat16InSinglePrecision) {
  OnRanks([&](Communicator& all, JobFabric&) {
    // 1.0, whose sums up to 256 are exact.
    std::vector<uint16_t> data(999, 0x3f80);
    ASSERT_OK(all.AllReduce(ElementType::kBfloat16, data.data(), 999));
    const auto sum = static_cast<float>(size());
    uint32_t bits;
    memcpy(&bits, &sum, sizeof(bits));
    EXPECT_THAT(data, testing::Each(static_cast<uint16_t>(bits >> 16)));
  });
}

TEST_P(CommunicatorTest, GathersAndScatters) {
  OnRanks([&](Communicator& all, JobFabric&) {
    for (const int64_t count : kMessageCounts) {
      const std::vector<float> own = Values<float>(all.rank(), count);
      std::vector<float> whole(count * size());
      ASSERT_OK(all.AllGather(ElementType::kFloat32, own.data(), whole.data(), count));
      for (int64_t i = 0; i < count * size(); ++i) {
        ASSERT_EQ(whole[i], ValueOf<float>(static_cast<int>(i / count), i % count));
      }
      const std::vector<float> sent = Values<float>(all.rank(), count * size());
      std::vector<float> share(count);
      ASSERT_OK(all.ReduceScatter(ElementType::kFloat32, sent.data(), share.data(), count));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(share[i], SumAt<float>(size(), all.rank() * count + i));
      }
      // In place, as NCCL has it.
      std::vector<float> place = sent;
      float* const part = place.data() + all.rank() * count;
      ASSERT_OK(all.ReduceScatter(ElementType::kFloat32, place.data(), part, count));
      ASSERT_EQ(std::vector<float>(part, part + count), share);
      ASSERT_OK(all.AllGather(ElementType::kFloat32, part, place.data(), count));
      for (int64_t i = 0; i < count * size(); ++i) {
        ASSERT_EQ(place[i], SumAt<float>(size(), i));
      }
    }
  });
}

TEST_P(CommunicatorTest, ExchangesAndBroadcasts) {
  OnRanks([&](Communicator& all, JobFabric&) {
    for (const int64_t count : kMessageCounts) {
      const std::vector<double> sent = Values<double>(all.rank(), count * size());
      std::vector<double> received(count * size());
      ASSERT_OK(all.Run({.operation = Operation::kAllToAll,
                         .type = ElementType::kFloat64,
                         .count = count,
                         .send = sent.data(),
                         .receive = received.data()}));
      for (int64_t i = 0; i < count * size(); ++i) {
        ASSERT_EQ(received[i],
                  ValueOf<double>(static_cast<int>(i / count), all.rank() * count + i % count));
      }
      const int root = size() / 2;
      std::vector<double> data = Values<double>(all.rank(), count);
      ASSERT_OK(all.Broadcast(ElementType::kFloat64, data.data(), count, root));
      ASSERT_EQ(data, Values<double>(root, count));
      ASSERT_OK(all.Barrier());
    }
  });
}

TEST_P(CommunicatorTest, NeighboursExchangeMuchWithoutBlocking) {
  if (size() == 1) GTEST_SKIP() << "a rank alone has no neighbour";
  OnRanks([&](Communicator& all, JobFabric&) {
    const int next = (all.rank() + 1) % size();
    const int previous = (all.rank() + size() - 1) % size();
    const std::vector<float> sent = Values<float>(all.rank(), 500'000);
    std::vector<float> received(500'000);
    for (int round = 0; round < 3; ++round) {
      const CollectiveCall calls[] = {
          {.operation = Operation::kSend, .count = 500'000, .send = sent.data(), .peer = next},
          {.operation = Operation::kReceive,
           .count = 500'000,
           .receive = received.data(),
           .peer = previous}};
      ASSERT_OK(all.RunTogether(calls));
      ASSERT_EQ(received, Values<float>(previous, 500'000));
    }
  });
}

TEST_P(CommunicatorTest, StartedOperationsRunInOrderWhileTheCallerWaitsForOthers) {
  OnRanks([&](Communicator& all, JobFabric& fabric) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> other,
                         fabric.MakeGroup("other", AllRanks(size())));
    std::vector<std::vector<float>> data(6);
    std::vector<std::unique_ptr<PendingWork>> works;
    for (int k = 0; k < 6; ++k) data[k].assign(100'000, static_cast<float>(all.rank() + k));
    for (int k = 0; k < 6; ++k) {
      // Even ones on one communicator, odd ones on another; some ranks begin with others.
      const int index = all.rank() % 2 == 0 ? k : k ^ 1;
      ASSERT_OK_AND_ASSIGN(works.emplace_back(), (index % 2 == 0 ? all : *other)
                                                     .Start({.operation = Operation::kAllReduce,
                                                             .count = 100'000,
                                                             .send = data[index].data(),
                                                             .receive = data[index].data()}));
    }
    ASSERT_OK(all.Barrier());
    for (const std::unique_ptr<PendingWork>& work : works) {
      ASSERT_OK(work->Wait());
      EXPECT_TRUE(work->IsDone());
    }
    for (int k = 0; k < 6; ++k) {
      const int sum = size() * (size() - 1) / 2 + k * size();
      EXPECT_THAT(data[k], testing::Each(static_cast<float>(sum)));
    }
  });
}

TEST_P(CommunicatorTest, SplitsByColorAndOrdersByKey) {
  OnRanks([&](Communicator& all, JobFabric&) {
    // Rank 0 is left out; the others by parity, backwards.
    const int color = all.rank() == 0 ? -1 : all.rank() % 2;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> part, all.Split(color, -all.rank()));
    if (color < 0) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    std::vector<int> members;
    for (int r = size() - 1; r > 0; --r) {
      if (r % 2 == color) members.push_back(r);
    }
    ASSERT_EQ(part->size(), static_cast<int>(members.size()));
    EXPECT_EQ(members[part->rank()], all.rank());
    float sum = static_cast<float>(all.rank());
    ASSERT_OK(part->AllReduce(ElementType::kFloat32, &sum, 1));
    EXPECT_EQ(sum, std::accumulate(members.begin(), members.end(), 0));
  });
}

TEST_P(CommunicatorTest, RefusesCallsThatBreakARule) {
  OnRanks([&](Communicator& all, JobFabric&) {
    float value = 1.0f;
    const auto refuses = [&](const CollectiveCall& call, const std::string& why) {
      EXPECT_THAT(all.Run(call), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
    };
    refuses({.operation = Operation::kAllReduce, .count = -1}, "count is negative");
    refuses({.operation = Operation::kAllReduce, .count = 1, .receive = &value}, "send is null");
    refuses({.operation = Operation::kAllReduce, .count = 1, .send = &value}, "receive is null");
    refuses({.operation = Operation::kAllReduce,
             .type = ElementType::kByte,
             .count = 1,
             .send = &value,
             .receive = &value},
            "bytes cannot be added up");
    refuses({.operation = Operation::kSend, .count = 1, .send = &value, .peer = all.rank()},
            "peer is this rank");
    refuses({.operation = Operation::kBroadcast, .count = 1, .peer = size()}, "is no rank of");
    // None of them has harmed it.
    ASSERT_OK(all.Barrier());
  });
}

TEST_P(CommunicatorTest, FindsOutThatRanksCallDifferentOperations) {
  if (size() == 1) GTEST_SKIP() << "a rank alone agrees with itself";
  OnRanks([&](Communicator& all, JobFabric&) {
    std::vector<float> data(10 + (all.rank() == 0 ? 1 : 0));
    const absl::Status status = all.Run({.operation = Operation::kAllGather,
                                         .count = static_cast<int64_t>(data.size()),
                                         .send = data.data(),
                                         .receive = std::vector<float>(200).data()});
    // The next rank sees it, and perhaps others before they hear of that.
    if (all.rank() == 1 && status.code() != absl::StatusCode::kAborted) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                   AllOf(HasSubstr("all-gather of all"), HasSubstr("with rank 0"),
                                         HasSubstr("11 float32"), HasSubstr("10 float32"))));
    }
    EXPECT_FALSE(status.ok());
    all.Abort("ranks disagree");
    AwaitOthers();
  });
}

TEST_P(CommunicatorTest, AWaitThatIsTooLongNamesTheRank) {
  if (size() == 1) GTEST_SKIP() << "a rank alone waits for nobody";
  OnRanks(
      [&](Communicator& all, JobFabric& fabric) {
        // Rank 0 never comes to the barrier. It hears of it as the others do.
        const absl::Status status = all.rank() == 0
                                        ? fabric.rendezvous().AwaitFailure(absl::InfiniteDuration())
                                        : all.Barrier();
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                     AllOf(HasSubstr("barrier of all[0"),
                                           HasSubstr("rank 0 is the one that is waited for"))));
        // It is of no more use. Rank 0 would end the wait of those that have not looked yet.
        if (all.rank() != 0) {
          EXPECT_EQ(all.Barrier(), status);
        }
        AwaitOthers();
      },
      absl::Milliseconds(200));
}

TEST_P(CommunicatorTest, AbortEndsTheWaitOfAllRanks) {
  OnRanks([&](Communicator& all, JobFabric&) {
    // The last rank may abort while others are still in the first barrier: it ends those too.
    absl::Status status = all.Barrier();
    if (all.rank() == size() - 1) all.Abort("no more");
    while (status.ok()) status = all.Barrier();
    AwaitOthers();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, HasSubstr("no more")));
  });
}

TEST_P(CommunicatorTest, CountsWhatItHasDone) {
  OnRanks([&](Communicator& all, JobFabric&) {
    std::vector<float> data(100 * size());
    ASSERT_OK(all.AllReduce(ElementType::kFloat32, data.data(), 100));
    ASSERT_OK(all.AllReduce(ElementType::kFloat32, data.data(), 100));
    ASSERT_OK(
        all.AllGather(ElementType::kFloat32, data.data() + 100 * all.rank(), data.data(), 100));
    const CommunicatorStats stats = all.Stats();
    const auto& reduced = stats.entries[static_cast<int>(Operation::kAllReduce)];
    EXPECT_EQ(reduced.call_count, 2);
    EXPECT_EQ(reduced.byte_count, 800);
    const auto& gathered = stats.entries[static_cast<int>(Operation::kAllGather)];
    EXPECT_EQ(gathered.call_count, 1);
    EXPECT_EQ(gathered.byte_count, 400 * size());
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CommunicatorTest,
                         testing::Values(Transport{TransportKind::kAutomatic, 1},
                                         Transport{TransportKind::kAutomatic, 2},
                                         Transport{TransportKind::kAutomatic, 3},
                                         Transport{TransportKind::kAutomatic, 8},
                                         Transport{TransportKind::kTcp, 2},
                                         Transport{TransportKind::kTcp, 5},
                                         Transport{TransportKind::kTcp, 2, TlsLinks::kAll},
                                         Transport{TransportKind::kTcp, 5, TlsLinks::kAll}),
                         [](const auto& info) { return info.param.Name(); });

}  // namespace
}  // namespace parplan
