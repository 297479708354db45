// The back end before this one, planted on the fakes: a thread for each channel gave operations to
// NCCL whenever it came to them, while the caller went on. What a review of it said must show.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/executor/device/cuda/fake_cuda.h"

namespace parplan::cuda {
namespace {

class OldChannel {
 public:
  explicit OldChannel(int device) : thread_([this, device] { Work(device); }) {}
  ~OldChannel() {
    AwaitStarted();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  OldChannel(const OldChannel&) = delete;
  OldChannel& operator=(const OldChannel&) = delete;

  // Returns at once; the thread launches it.
  void Start(std::function<void()> launch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(launch));
    changed_.notify_all();
  }
  // Waits until the thread has launched everything, as a wait for an operation did first.
  void AwaitStarted() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty(); });
  }

 private:
  void Work(int device) {
    static_cast<void>(::cudaSetDevice(device));
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> launch = waiting_.front();
      lock.unlock();
      launch();
      lock.lock();
      waiting_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_; the first is being launched.
  std::deque<std::function<void()>> waiting_;
  bool is_ending_ = false;
  std::thread thread_;
};

// Streams of one rank, in the order in which they take hardware queues. Seven are those of other
// groups.
struct Streams {
  cudaStream_t compute = nullptr;
  std::array<cudaStream_t, 7> others = {};
  cudaStream_t send = nullptr;
  cudaStream_t receive = nullptr;
  std::vector<cudaStream_t*> All() {
    std::vector<cudaStream_t*> all = {&compute};
    for (cudaStream_t& stream : others) all.push_back(&stream);
    all.push_back(&send);
    all.push_back(&receive);
    return all;
  }
};

// Two ranks send each other a message, and both compute with what they receive. Returns what waits
// for what in the end.
std::string ExchangeByOldChannels(int queue_count, uint32_t seed) {
  ResetFakes();
  TheFakeCuda().queue_count = queue_count;
  TheFakeCuda().launch_latency = 200;
  TheFakeCuda().launch_share = 3;
  TheFakeCuda().launch_seed = seed;
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) static_cast<void>(::ncclGetUniqueId(&id));
  std::array<Streams, 2> streams;
  std::array<std::array<ncclComm_t, 2>, 2> communicators = {};
  std::array<cudaEvent_t, 2> received = {};
  std::array<float, 4> numbers = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      static_cast<void>(::cudaSetDevice(rank));
      Streams& own = streams[rank];
      for (cudaStream_t* const stream : own.All()) ::cudaStreamCreateWithFlags(stream, 0);
      ::cudaEventCreateWithFlags(&received[rank], 0);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 1;
      for (const int way : {0, 1}) {
        ::ncclCommInitRankConfig(&communicators[rank][way], 2, ids[way], rank, &config);
      }
      OldChannel sends(rank);
      OldChannel receives(rank);
      sends.Start([&] {
        ::ncclSend(&numbers[rank], 1, ncclFloat32, 1 - rank, communicators[rank][rank], own.send);
      });
      receives.Start([&] {
        ::ncclRecv(&numbers[2 + rank], 1, ncclFloat32, 1 - rank, communicators[rank][1 - rank],
                   own.receive);
        ::cudaEventRecord(received[rank], own.receive);
      });
      receives.AwaitStarted();
      ::cudaStreamWaitEvent(own.compute, received[rank], 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string hang = DescribeHang();
  for (const auto& own : communicators) {
    for (ncclComm_t const communicator : own) ::ncclCommAbort(communicator);
  }
  for (Streams& own : streams) {
    for (cudaStream_t* const stream : own.All()) ::cudaStreamDestroy(*stream);
  }
  for (cudaEvent_t const event : received) ::cudaEventDestroy(event);
  return hang;
}

// With 8 queues, which are the default, the send shares one with the device's own work, and on some
// runs both come too late.
TEST(OldChannels, HangOnSomeRunsWhereEightQueuesAreShared) {
  std::string hang;
  uint32_t seed = 0;
  while (hang.empty() && seed < 3000) hang = ExchangeByOldChannels(8, seed++);
  EXPECT_THAT(hang, testing::AllOf(testing::HasSubstr("is queued behind"),
                                   testing::HasSubstr("in a circle")));
  RecordProperty("runs", static_cast<int>(seed));
}

TEST(OldChannels, DoNotHangWithAQueueForEachStream) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    ASSERT_EQ(ExchangeByOldChannels(32, seed), "") << "seed " << seed;
  }
}

// The order of the back end before this one: a thread for each channel gave it operations whenever
// it came to them. Ranks exchange messages; on both, the wait of the compute stream for what is
// received was queued before the send. With enough hardware queues that is well; where the send
// shares one with the compute stream, each rank's send is behind the wait for the other's.
TEST(OldChannels, TheFakeHangsWhenSharedQueuesCarryWaitsBeforeSends) {
  for (const int queues : {1, 32}) {
    ResetFakes();
    TheFakeCuda().queue_count = queues;
    std::vector<ncclComm_t> sends(2);
    std::vector<ncclComm_t> receives(2);
    std::vector<std::array<cudaStream_t, 3>> streams(2);
    std::vector<cudaEvent_t> received(2);
    ncclUniqueId ids[2];
    for (ncclUniqueId& id : ids) ASSERT_EQ(::ncclGetUniqueId(&id), ncclSuccess);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        static_cast<void>(::cudaSetDevice(rank));
        for (cudaStream_t& stream : streams[rank]) {
          static_cast<void>(::cudaStreamCreateWithFlags(&stream, 0));
        }
        static_cast<void>(::cudaEventCreateWithFlags(&received[rank], 0));
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        for (const int way : {0, 1}) {
          ncclComm_t& comm = way == rank ? sends[rank] : receives[rank];
          static_cast<void>(::ncclCommInitRankConfig(&comm, 2, ids[way], rank, &config));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<float> numbers(4);
    for (int rank = 0; rank < 2; ++rank) {
      const auto& [compute, send, receive] = streams[rank];
      ::ncclRecv(&numbers[rank], 1, ncclFloat32, 1 - rank, receives[rank], receive);
      ::cudaEventRecord(received[rank], receive);
      ::cudaStreamWaitEvent(compute, received[rank], 0);
      ::ncclSend(&numbers[2 + rank], 1, ncclFloat32, 1 - rank, sends[rank], send);
    }
    const std::string hang = DescribeHang();
    if (queues == 32) {
      EXPECT_EQ(hang, "");
    } else {
      EXPECT_THAT(hang, testing::AllOf(testing::HasSubstr("is queued behind"),
                                       testing::HasSubstr("in a circle")));
    }
    for (int rank = 0; rank < 2; ++rank) {
      ::ncclCommAbort(sends[rank]);
      ::ncclCommAbort(receives[rank]);
    }
    for (const auto& own : streams) {
      for (cudaStream_t const stream : own) ::cudaStreamDestroy(stream);
    }
    for (cudaEvent_t const event : received) ::cudaEventDestroy(event);
  }
}

}  // namespace
}  // namespace parplan::cuda
