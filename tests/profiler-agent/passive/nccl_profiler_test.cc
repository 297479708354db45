// The plugin, driven by its table of functions, and what the agent reads of it. No real NCCL.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "profiler-agent/drift/window_spool.h"
#include "tests/profiler-agent/passive/fake_nccl.h"

namespace parplan {
namespace {

using nccl::EventV4;
using nccl::EventV5;
using testing::IsEmpty;
using testing::SizeIs;

// Calls of version 5 for one communicator.
class Communicator {
 public:
  Communicator(const OpenPlugin& plugin, int node_count, int rank_count, int rank,
               const char* name = nullptr)
      : profiler_(plugin.v5()) {
    EXPECT_EQ(profiler_.init(&context_, 1, &TheMask(), name, node_count, rank_count, rank, nullptr),
              nccl::kSuccess);
  }
  ~Communicator() { EXPECT_EQ(profiler_.finalize(context_), nccl::kSuccess); }

  void Run(const EventV5& event, uint64_t nanoseconds, int channels = 2) {
    RunOperation(profiler_, context_, event, channels, 1000, 1000 + nanoseconds);
  }
  const void* context() const { return context_; }

 private:
  const nccl::ProfilerV5& profiler_;
  void* context_ = nullptr;
};

TEST(NcclProfiler, WhatAJobDoesIsReadByTheAgent) {
  const SpoolFolder folder;
  {
    const OpenPlugin plugin;
    Communicator all(plugin, 1, 4, 0);
    EXPECT_EQ(TheMask(), 2 | 4 | 64);
    for (uint64_t i = 1; i <= 100; ++i) {
      all.Run(Collective<EventV5>("AllReduce", 256, "ncclFloat32"), i * 1000);
    }
    all.Run(Collective<EventV5>("AllGather", 1024, "ncclInt8"), 7000);
    all.Run(Collective<EventV5>("ReduceScatter", 128, "ncclBfloat16"), 8000);
    all.Run(PointToPoint<EventV5>("Send", 2, 10), 9000, 1);
    all.Run(PointToPoint<EventV5>("Recv", 2, 10), 9000, 1);
  }
  WindowSpool spool(folder.path());
  std::map<int, v1::CollectiveTiming> timings;
  for (const v1::CollectiveTiming& timing : spool.Take()) timings[timing.collective()] = timing;
  EXPECT_EQ(spool.refused_count(), 0);
  ASSERT_THAT(timings, SizeIs(4));
  const v1::CollectiveTiming& reduce = timings[v1::COLLECTIVE_ALL_REDUCE];
  EXPECT_EQ(reduce.participant_count(), 4);
  EXPECT_EQ(reduce.rank_stride(), 1);
  EXPECT_EQ(reduce.message_size_bytes(), 1024);
  EXPECT_EQ(reduce.median_duration().nanos(), 50000);
  EXPECT_EQ(reduce.p90_duration().nanos(), 90000);
  EXPECT_EQ(reduce.sample_count(), 100);
  EXPECT_EQ(reduce.origin(), v1::ORIGIN_MEASURED);
  // Sizes are of the whole buffer, as nccl-tests counts.
  EXPECT_EQ(timings[v1::COLLECTIVE_ALL_GATHER].message_size_bytes(), 4096);
  EXPECT_EQ(timings[v1::COLLECTIVE_REDUCE_SCATTER].message_size_bytes(), 1024);
  const v1::CollectiveTiming& send = timings[v1::COLLECTIVE_SEND_RECEIVE];
  EXPECT_EQ(send.participant_count(), 2);
  EXPECT_EQ(send.rank_stride(), 2);
  EXPECT_EQ(send.message_size_bytes(), 40);
  EXPECT_EQ(send.sample_count(), 1);
}

TEST(NcclProfiler, VersionFourSaysTheSame) {
  const SpoolFolder folder;
  {
    const OpenPlugin plugin;
    const nccl::ProfilerV4& profiler = plugin.v4();
    void* context = nullptr;
    ASSERT_EQ(profiler.init(&context, &TheMask(), "name", 7, 1, 2, 0, nullptr), nccl::kSuccess);
    EventV4 event = Collective<EventV4>("AllReduce", 8, "ncclFloat64");
    // The seven bytes after the type are padding.
    std::memset(reinterpret_cast<char*>(&event) + 1, 0xEE, 7);
    RunOperation(profiler, context, event, 2, 1000, 4000);
    EXPECT_EQ(profiler.finalize(context), nccl::kSuccess);
  }
  const std::vector<v1::CollectiveTiming> timings = WindowSpool(folder.path()).Take();
  ASSERT_THAT(timings, SizeIs(1));
  EXPECT_EQ(timings[0].message_size_bytes(), 64);
  EXPECT_EQ(timings[0].median_duration().nanos(), 3000);
}

int StrideSeen(int node_count, int rank_count, const char* name) {
  const SpoolFolder folder;
  {
    const OpenPlugin plugin;
    Communicator communicator(plugin, node_count, rank_count, 0, name);
    communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32"), 1000);
  }
  const std::vector<v1::CollectiveTiming> timings = WindowSpool(folder.path()).Take();
  return timings.empty() ? 0 : timings[0].rank_stride();
}

TEST(NcclProfiler, TheDistanceOfRanksIsKnownOrNothingIsSaid) {
  unsetenv("LOCAL_WORLD_SIZE");
  unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  EXPECT_EQ(StrideSeen(1, 8, nullptr), 1);
  EXPECT_EQ(StrideSeen(2, 16, nullptr), 1);
  EXPECT_EQ(StrideSeen(4, 4, "data stride=16"), 16);
  EXPECT_EQ(StrideSeen(4, 4, nullptr), 0);
  setenv("LOCAL_WORLD_SIZE", "8", 1);
  EXPECT_EQ(StrideSeen(4, 4, nullptr), 8);
  unsetenv("LOCAL_WORLD_SIZE");
}

// NCCL 2.28 has no event of an all-to-all but sends and receives, which begin on the device when
// all of the group have been queued.
TEST(NcclProfiler, SendsOfAnAllToAllAreNoMessages) {
  const SpoolFolder folder;
  {
    const OpenPlugin plugin;
    const nccl::ProfilerV5& profiler = plugin.v5();
    void* context = nullptr;
    ASSERT_EQ(profiler.init(&context, 1, &TheMask(), nullptr, 1, 4, 0, nullptr), nccl::kSuccess);
    for (int round = 0; round < 2; ++round) {
      std::vector<void*> handles;
      for (int peer = 1; peer < 4; ++peer) {
        for (const char* function : {"Send", "Recv"}) {
          EventV5 event = PointToPoint<EventV5>(function, peer, 10);
          void* handle = nullptr;
          ASSERT_EQ(profiler.start(context, &handle, &event), nccl::kSuccess);
          if (handle != nullptr) handles.push_back(handle);
        }
      }
      for (void* const handle : handles) RunChannels<EventV5>(profiler, context, handle, 1, 1, 9);
    }
    EXPECT_EQ(profiler.finalize(context), nccl::kSuccess);
  }
  EXPECT_THAT(WindowSpool(folder.path()).Take(), IsEmpty());
}

// NCCL passes the address of one mask for all communicators.
TEST(NcclProfiler, ACommunicatorThatIsNotRecordedBlindsNoOther) {
  const SpoolFolder folder;
  const OpenPlugin plugin;
  const nccl::ProfilerV5& profiler = plugin.v5();
  void* first = nullptr;
  ASSERT_EQ(profiler.init(&first, 1, &TheMask(), nullptr, 1, 4, 0, nullptr), nccl::kSuccess);
  const int recorded = TheMask();
  unsetenv("PARPLAN_PASSIVE_SPOOL");
  void* second = nullptr;
  ASSERT_EQ(profiler.init(&second, 2, &TheMask(), nullptr, 1, 4, 0, nullptr), nccl::kSuccess);
  EXPECT_EQ(second, nullptr);
  EXPECT_NE(recorded, 0);
  EXPECT_EQ(TheMask(), recorded);
  EXPECT_EQ(profiler.finalize(first), nccl::kSuccess);
  // Nobody is left who wants events.
  EXPECT_EQ(TheMask(), 0);
}

// A communicator that is made while recording is off does not switch it on.
TEST(NcclProfiler, RecordingIsSwitchedForAllCommunicatorsAtOnce) {
  const SpoolFolder folder;
  const OpenPlugin plugin;
  Communicator first(plugin, 1, 4, 0);
  TheMask() = 0;
  Communicator second(plugin, 1, 4, 0);
  EXPECT_EQ(TheMask(), 0);
}

TEST(NcclProfiler, WithoutAFolderNothingIsAskedFor) {
  unsetenv("PARPLAN_PASSIVE_SPOOL");
  const OpenPlugin plugin;
  Communicator communicator(plugin, 1, 4, 0);
  EXPECT_EQ(TheMask(), 0);
  EXPECT_EQ(communicator.context(), nullptr);
  communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32"), 1000);
}

TEST(NcclProfiler, WhatCannotBeComparedIsLeftOut) {
  const SpoolFolder folder;
  {
    const OpenPlugin plugin;
    Communicator communicator(plugin, 1, 4, 0);
    communicator.Run(Collective<EventV5>("Reduce", 8, "ncclFloat32"), 1000);
    communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat3"), 1000);
    communicator.Run(Collective<EventV5>(nullptr, 8, nullptr), 1000);
    communicator.Run(Collective<EventV5>("AllReduce", 0, "ncclFloat32"), 1000);
    // Copy engines do it without channels.
    communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32", 0), 1000, 0);
    // Only one of two channels was seen.
    communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32", 2), 1000, 1);
    // Alone.
    Communicator single(plugin, 1, 1, 0);
    single.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32"), 1000);
  }
  EXPECT_THAT(WindowSpool(folder.path()).Take(), IsEmpty());
}

TEST(NcclProfiler, AFolderThatIsGoneHarmsNobody) {
  setenv("PARPLAN_PASSIVE_SPOOL", "/nonexistent/spool", 1);
  const OpenPlugin plugin;
  {
    Communicator communicator(plugin, 1, 4, 0);
    communicator.Run(Collective<EventV5>("AllReduce", 8, "ncclFloat32"), 1000);
  }
  unsetenv("PARPLAN_PASSIVE_SPOOL");
}

TEST(NcclProfiler, ShowsItsTwoNamesAndNoOther) {
  const OpenPlugin plugin;
  EXPECT_NE(plugin.Symbol("ncclProfiler_v4"), nullptr);
  EXPECT_NE(plugin.Symbol("ncclProfiler_v5"), nullptr);
  EXPECT_STREQ(plugin.v5().name, "parplan");
  EXPECT_EQ(plugin.Symbol("_ZN7parplan16OperationTrackerC1Ev"), nullptr);
}

}  // namespace
}  // namespace parplan
