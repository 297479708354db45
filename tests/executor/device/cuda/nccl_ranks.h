// Ranks of a job in threads, with groups over the fake NCCL.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_NCCL_RANKS_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_NCCL_RANKS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/device/cuda/cuda_queue.h"
#include "executor/device/cuda/nccl_communicator.h"
#include "executor/device/cuda/nccl_device.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/cuda/fake_cuda.h"
#include "tests/support/status_matchers.h"

namespace parplan::cuda {

using Floats = std::vector<float>;
inline constexpr auto kType = ElementType::kFloat32;

// A job whose patience ends when a test says so.
class TestContext : public RankContext {
 public:
  explicit TestContext(JobFabric& fabric) : fabric_(fabric) {}
  int rank() const override { return fabric_.rank(); }
  int world_size() const override { return fabric_.world_size(); }
  absl::Duration operation_timeout() const override {
    return has_no_patience ? absl::Microseconds(1) : is_hasty ? absl::Seconds(3) : absl::Minutes(5);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(const std::string& name,
                                                          const std::vector<int>& ranks) override {
    return fabric_.MakeGroup(name, ranks);
  }
  absl::Status Publish(const std::string& key, const std::string& value) override {
    return fabric_.Publish(key, value);
  }
  absl::StatusOr<std::string> Await(const std::string& key) override { return fabric_.Await(key); }
  absl::Status Health() override { return fabric_.Health(); }
  void Abort(const std::string& why) override { fabric_.Abort(why); }

  std::atomic<bool> is_hasty = false;
  std::atomic<bool> has_no_patience = false;

 private:
  JobFabric& fabric_;
};

class NcclCommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    ResetFakes();
    call_patience = absl::Seconds(1);
  }
  // Every communicator that was made has ended, once.
  void TearDown() override { EXPECT_EQ(TheFakeNccl().made, TheFakeNccl().ended); }

  // On every rank, with its queue and a group of all.
  static void OnRanks(
      int size, const std::function<void(NcclCommunicator&, CudaQueue&, TestContext&)>& work) {
    RunRanks(size, {.spin_count = 50}, [&](JobFabric& fabric) {
      TestContext job(fabric);
      ASSERT_OK_AND_ASSIGN(const auto queue, CudaQueue::Create(fabric.rank()));
      NcclDevice device(*queue);
      ASSERT_OK_AND_ASSIGN(const auto group, Make(device, job));
      ASSERT_OK(group->Warm());
      work(*group, *queue, job);
    });
  }
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Make(NcclDevice& device,
                                                                RankContext& fabric,
                                                                const std::string& name = "all",
                                                                const std::string& purpose = "") {
    return NcclCommunicator::Create({.purpose = purpose.empty() ? name : purpose,
                                     .name = name,
                                     .label = name + " stride=1",
                                     .id = name + "#0",
                                     .rank = fabric.rank(),
                                     .size = fabric.world_size(),
                                     .job = &fabric,
                                     .device = &device,
                                     .call_patience = call_patience});
  }

  static inline absl::Duration call_patience;
};

}  // namespace parplan::cuda

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_NCCL_RANKS_H_
