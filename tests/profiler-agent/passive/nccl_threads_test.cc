// The plugin under many threads at once, as NCCL's proxy threads and the job's own call it.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/profiler-agent/passive/fake_nccl.h"

namespace parplan {
namespace {

TEST(NcclProfilerThreads, CommunicatorsComeAndGoWhileOthersWork) {
  const SpoolFolder folder;
  const OpenPlugin plugin;
  const nccl::ProfilerV5& profiler = plugin.v5();
  constexpr int kThreads = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 8; ++round) {
        void* context = nullptr;
        EXPECT_EQ(profiler.init(&context, t, &TheMask(), nullptr, 1, 4, t, nullptr),
                  nccl::kSuccess);
        EXPECT_NE(context, nullptr);
        for (int i = 0; i < 300; ++i) {
          RunOperation(profiler, context,
                       Collective<nccl::EventV5>("AllReduce", 1 << (i % 8), "ncclFloat32"), 2, 1000,
                       2000 + i);
        }
        EXPECT_EQ(profiler.finalize(context), nccl::kSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(folder.FileCount(), 1);
}

TEST(NcclProfilerThreads, ChannelsOfOneOperationEndOnDifferentThreads) {
  const SpoolFolder folder;
  const OpenPlugin plugin;
  const nccl::ProfilerV4& profiler = plugin.v4();
  void* context = nullptr;
  ASSERT_EQ(profiler.init(&context, &TheMask(), nullptr, 7, 1, 2, 0, nullptr), nccl::kSuccess);
  for (int i = 0; i < 100; ++i) {
    nccl::EventV4 event = Collective<nccl::EventV4>("AllReduce", 1024, "ncclFloat32", 4);
    void* handle = nullptr;
    profiler.start(context, &handle, &event);
    std::vector<std::thread> channels;
    for (int channel = 0; channel < 4; ++channel) {
      channels.emplace_back([&, channel] {
        nccl::EventV4 kernel;
        std::memset(static_cast<void*>(&kernel), 0, sizeof(kernel));
        kernel.type = nccl::kKernelChannelEvent;
        kernel.parent = handle;
        kernel.kernel_channel.start = 1000 + channel;
        void* channel_handle = nullptr;
        profiler.start(context, &channel_handle, &kernel);
        nccl::StateArguments arguments = {};
        arguments.time = 5000 + channel;
        profiler.record_state(channel_handle, nccl::kKernelChannelStop, &arguments);
        profiler.stop(channel_handle);
      });
    }
    profiler.stop(handle);
    for (std::thread& channel : channels) channel.join();
  }
  EXPECT_EQ(profiler.finalize(context), nccl::kSuccess);
  EXPECT_EQ(folder.FileCount(), 1);
}

}  // namespace
}  // namespace parplan
