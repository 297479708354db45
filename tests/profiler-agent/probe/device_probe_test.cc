#include "profiler-agent/probe/device_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/system/steady_clock.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/executor/device/kernels/wrapped_kernels.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(OverlapTimes, SlowdownIsThatOfTheCostModel) {
  OverlapTimes times;
  times.compute = absl::Milliseconds(10);
  times.communication = absl::Milliseconds(8);
  // Nothing holds anything up.
  times.together = absl::Milliseconds(10);
  EXPECT_DOUBLE_EQ(times.slowdown(), 1.0);
  // One after the other.
  times.together = absl::Milliseconds(18);
  EXPECT_DOUBLE_EQ(times.slowdown(), 2.0);
  // 10 + (k - 1) 8.
  times.together = absl::Milliseconds(12);
  EXPECT_DOUBLE_EQ(times.slowdown(), 1.25);
  // Less than either takes is a matter of chance.
  times.together = absl::Milliseconds(9);
  EXPECT_DOUBLE_EQ(times.slowdown(), 1.0);
  times.compute_beside = absl::Milliseconds(15);
  times.communication_beside = absl::Milliseconds(12);
  EXPECT_DOUBLE_EQ(times.compute_slowdown(), 1.5);
  EXPECT_DOUBLE_EQ(times.communication_slowdown(), 1.5);
}

// Counts the work that a probe gives to a device, and does none of it.
class CountedKernels : public WrappedKernels {
 public:
  explicit CountedKernels(std::unique_ptr<LayerKernels> inner) : WrappedKernels(std::move(inner)) {}
  void FillNormal(const NormalMatrix& matrix, void*) override {
    filled_count += matrix.part_row_count * matrix.part_column_count;
  }
  void Multiply(const MatrixProduct& product) override {
    smallest_side = std::min({smallest_side, product.m, product.n, product.k});
  }
  int64_t filled_count = 0;
  int64_t smallest_side = std::numeric_limits<int64_t>::max();
};

// An H100 has 132 multiprocessors; a product is spread over them in tiles of 128 x 256.
TEST(DeviceProbe, OverlapOnAGpuFillsItWithProductsAndMessages) {
  const OverlapSizes sizes = OverlapSizesOf(/*is_cpu=*/false);
  EXPECT_GE(sizes.side / 128 * (sizes.side / 256), 2 * 132);
  EXPECT_GE(sizes.reduced, Bytes::Of(int64_t{256} << 20));
  RunRanks(1, {.spin_count = 50}, [&](JobFabric& fabric) {
    const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, backend->Open(0));
    CountedKernels kernels(MakeCpuKernels(ElementType::kFloat32));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> control,
                         fabric.MakeGroup("control", {0}));
    const OverlapSizes small = {.side = 64, .reduced = Bytes::Of(4096)};
    ASSERT_OK(MeasureOverlap(*device, kernels, *control, *control, small, 1).status());
    // Nothing of what is multiplied or sent is left unset.
    EXPECT_EQ(kernels.filled_count, 3 * 64 * 64 + 1024);
    EXPECT_EQ(kernels.smallest_side, 64);
  });
}

TEST(DeviceProbe, LoadLastsAsLongAsItIsAskedToAndIsOfData) {
  const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, backend->Open(0));
  CountedKernels kernels(MakeCpuKernels(ElementType::kFloat32));
  const absl::Duration begun = SteadyNow();
  ASSERT_OK(LoadDevice(*device, kernels, 64, absl::Milliseconds(20)));
  EXPECT_GE(SteadyNow() - begun, absl::Milliseconds(20));
  EXPECT_EQ(kernels.smallest_side, 64);
  EXPECT_EQ(kernels.filled_count, 3 * 64 * 64);
}

TEST(DeviceProbe, MeasuresOverlapAndCopies) {
  constexpr int kRankCount = 2;
  std::vector<double> slowdowns(kRankCount);
  RunRanks(kRankCount, {.spin_count = 50}, [&](JobFabric& fabric) {
    std::vector<int> all(kRankCount);
    std::iota(all.begin(), all.end(), 0);
    const std::unique_ptr<DeviceBackend> backend = MakeCpuBackend();
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Device> device, backend->Open(0));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<LayerKernels> kernels,
                         device->MakeKernels(ElementType::kFloat32));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> control,
                         fabric.MakeGroup("control", all));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> group,
                         device->MakeGroup(fabric, "all", all));
    ASSERT_OK_AND_ASSIGN(
        const OverlapTimes times,
        MeasureOverlap(*device, *kernels, *group, *control, OverlapSizesOf(/*is_cpu=*/true), 3));
    EXPECT_GT(times.compute, absl::ZeroDuration());
    EXPECT_GT(times.communication, absl::ZeroDuration());
    EXPECT_GT(times.compute_slowdown(), 0.0);
    EXPECT_GT(times.communication_slowdown(), 0.0);
    slowdowns[fabric.rank()] = times.slowdown();
    ASSERT_OK_AND_ASSIGN(const CopySpeeds speeds, MeasureCopies(*device, *kernels, 2));
    EXPECT_GT(speeds.within_device, 0.0);
    EXPECT_GT(speeds.to_device, 0.0);
    EXPECT_GT(speeds.from_device, 0.0);
  });
  EXPECT_GE(slowdowns[0], 1.0);
  EXPECT_EQ(slowdowns[0], slowdowns[1]);
}

}  // namespace
}  // namespace parplan
