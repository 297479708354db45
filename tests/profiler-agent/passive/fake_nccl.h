// Stands in for NCCL: opens the plugin as NCCL does and makes the calls that NCCL makes.

#ifndef PARPLAN_TESTS_PROFILER_AGENT_PASSIVE_FAKE_NCCL_H_
#define PARPLAN_TESTS_PROFILER_AGENT_PASSIVE_FAKE_NCCL_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "profiler-agent/passive/nccl_profiler_api.h"

namespace parplan {

// The mask of events, of which NCCL has one in a process.
inline int& TheMask() {
  static int mask = 0;
  return mask;
}

// The plugin, open as long as this lives.
class OpenPlugin {
 public:
  OpenPlugin() : library_(dlopen(PARPLAN_NCCL_PROFILER, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library_, nullptr) << dlerror();
  }
  ~OpenPlugin() { dlclose(library_); }
  OpenPlugin(const OpenPlugin&) = delete;
  OpenPlugin& operator=(const OpenPlugin&) = delete;

  const nccl::ProfilerV4& v4() const {
    return *static_cast<const nccl::ProfilerV4*>(dlsym(library_, "ncclProfiler_v4"));
  }
  const nccl::ProfilerV5& v5() const {
    return *static_cast<const nccl::ProfilerV5*>(dlsym(library_, "ncclProfiler_v5"));
  }
  void* Symbol(const char* name) const { return dlsym(library_, name); }

 private:
  void* const library_;
};

// A folder that the plugin gets through its environment.
class SpoolFolder {
 public:
  SpoolFolder() {
    std::string pattern = testing::TempDir() + "/spool-XXXXXX";
    path_ = mkdtemp(pattern.data());
    setenv("PARPLAN_PASSIVE_SPOOL", path_.c_str(), 1);
    // Longer than any test: windows are left at the end.
    setenv("PARPLAN_PASSIVE_WINDOW_SECONDS", "86400", 1);
    // Recording is never switched off.
    setenv("PARPLAN_PASSIVE_PERCENT", "100", 1);
  }
  ~SpoolFolder() {
    unsetenv("PARPLAN_PASSIVE_SPOOL");
    std::filesystem::remove_all(path_);
  }
  const std::string& path() const { return path_; }
  int FileCount() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

 private:
  std::string path_;
};

// The channels of an operation as the device runs them. Nanoseconds.
template <typename Event, typename Profiler>
void RunChannels(const Profiler& profiler, void* context, void* handle, int channels,
                 uint64_t begin, uint64_t end) {
  for (int channel = 0; channel < channels; ++channel) {
    Event kernel;
    std::memset(static_cast<void*>(&kernel), 0, sizeof(kernel));
    kernel.type = nccl::kKernelChannelEvent;
    kernel.parent = handle;
    kernel.kernel_channel.channel = static_cast<uint8_t>(channel);
    // Channels begin one after the other and the first one ends last.
    kernel.kernel_channel.start = begin + channel;
    void* channel_handle = nullptr;
    ASSERT_EQ(profiler.start(context, &channel_handle, &kernel), nccl::kSuccess);
    nccl::StateArguments arguments = {};
    arguments.time = end - channel;
    if (channel_handle == nullptr) continue;
    profiler.record_state(channel_handle, nccl::kKernelChannelStop, &arguments);
    profiler.stop(channel_handle);
  }
}

// The calls of one operation, on two threads in a real NCCL: the host's event begins and ends,
// then the device's channels are seen. Nanoseconds.
template <typename Profiler, typename Event>
void RunOperation(const Profiler& profiler, void* context, Event event, int channels,
                  uint64_t begin, uint64_t end) {
  void* handle = nullptr;
  ASSERT_EQ(profiler.start(context, &handle, &event), nccl::kSuccess);
  if (handle != nullptr) profiler.stop(handle);
  RunChannels<Event>(profiler, context, handle, channels, begin, end);
}

template <typename Event>
Event Collective(const char* function, size_t count, const char* datatype, int channels = 2) {
  Event event;
  std::memset(static_cast<void*>(&event), 0, sizeof(event));
  event.type = nccl::kCollectiveEvent;
  event.collective.function = function;
  event.collective.count = count;
  event.collective.datatype = datatype;
  event.collective.channel_count = static_cast<uint8_t>(channels);
  return event;
}

template <typename Event>
Event PointToPoint(const char* function, int peer, size_t count) {
  Event event;
  std::memset(static_cast<void*>(&event), 0, sizeof(event));
  event.type = nccl::kPointToPointEvent;
  event.point_to_point.function = function;
  event.point_to_point.peer = peer;
  event.point_to_point.count = count;
  event.point_to_point.datatype = "ncclFloat32";
  event.point_to_point.channel_count = 1;
  return event;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROFILER_AGENT_PASSIVE_FAKE_NCCL_H_
