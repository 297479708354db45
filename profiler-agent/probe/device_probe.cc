#include "profiler-agent/probe/device_probe.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/system/steady_clock.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/layer_probe/time_spread.h"

namespace parplan {
namespace {

// Bytes of one copy: more than the caches of a GPU hold, so that the speed is that of memory
// and bus.
constexpr int64_t kCopiedBytes = int64_t{64} << 20;
// Products that fill the time of one all-reduce, at most, however slow the network is.
constexpr int kMaxProductCount = 4096;

// One rank's computation and communication, alone and together.
class OverlapRun {
 public:
  OverlapRun(Device& device, LayerKernels& kernels, Communicator& group, Communicator& control,
             const OverlapSizes& sizes)
      : element_size_(ElementSize(kernels.type())),
        side_(sizes.side),
        reduced_count_(sizes.reduced.count() / element_size_),
        device_(device),
        kernels_(kernels),
        group_(group),
        control_(control),
        stopwatch_(device.MakeStopwatch()),
        pool_(device.memory()) {}

  absl::Status Prepare() {
    PARPLAN_ASSIGN_OR_RETURN(
        matrices_, pool_.Take(ArrayUse::kTransient, Bytes::Of(3 * side_ * side_ * element_size_)));
    PARPLAN_ASSIGN_OR_RETURN(
        reduced_, pool_.Take(ArrayUse::kTransient, Bytes::Of(reduced_count_ * element_size_)));
    // Zeros would need less power than data, so a GPU would not slow its clock.
    Fill(matrices_, 3 * side_, side_);
    Fill(reduced_, 1, reduced_count_);
    return kernels_.Synchronize();
  }

  void Compute(int product_count) {
    MatrixProduct product;
    product.m = product.n = product.k = side_;
    product.a = matrices_.At(0, element_size_);
    product.b = matrices_.At(side_ * side_, element_size_);
    product.c = matrices_.At(2 * side_ * side_, element_size_);
    for (int i = 0; i < product_count; ++i) kernels_.Multiply(product);
  }

  absl::StatusOr<std::unique_ptr<PendingWork>> Communicate() {
    CollectiveCall call;
    call.operation = Operation::kAllReduce;
    call.type = kernels_.type();
    call.count = reduced_count_;
    call.send = reduced_.data();
    call.receive = reduced_.data();
    return group_.Start(call);
  }

  // Returns the median time of `work` at the slowest rank. Ranks begin together.
  template <typename Work>
  absl::StatusOr<absl::Duration> MedianOf(int repetition_count, const Work& work) {
    std::vector<absl::Duration> samples;
    for (int i = 0; i <= repetition_count; ++i) {
      PARPLAN_RETURN_IF_ERROR(device_.Synchronize());
      PARPLAN_RETURN_IF_ERROR(control_.Barrier());
      PARPLAN_ASSIGN_OR_RETURN(const absl::Duration own, work());
      double seconds = absl::ToDoubleSeconds(own);
      PARPLAN_RETURN_IF_ERROR(
          control_.AllReduce(ElementType::kFloat64, &seconds, 1, Reduction::kMax));
      // The first run only warms up.
      if (i > 0) samples.push_back(absl::Seconds(std::max(seconds, 1e-9)));
    }
    return SpreadOf(samples).median;
  }

  absl::StatusOr<absl::Duration> TimeCompute(int product_count) {
    stopwatch_->Start();
    Compute(product_count);
    stopwatch_->Stop();
    return stopwatch_->Elapsed();
  }

  // Runs all-reduces one after another and matrix products at the same time. Returns the time until
  // everything has ended if `whole`, else until the products have.
  absl::StatusOr<absl::Duration> TimeBoth(int reduce_count, int product_count, bool whole) {
    stopwatch_->Start();
    std::vector<std::unique_ptr<PendingWork>> pending;
    for (int i = 0; i < reduce_count; ++i) {
      PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PendingWork> work, Communicate());
      pending.push_back(std::move(work));
    }
    Compute(product_count);
    absl::StatusOr<absl::Duration> beside = absl::ZeroDuration();
    if (!whole) {
      stopwatch_->Stop();
      beside = stopwatch_->Elapsed();
    }
    for (const auto& work : pending) PARPLAN_RETURN_IF_ERROR(work->Wait());
    if (!whole) return beside;
    stopwatch_->Stop();
    return stopwatch_->Elapsed();
  }

  // Returns the time of one all-reduce from start to end while products run.
  absl::StatusOr<absl::Duration> TimeReduceBeside(int product_count) {
    const auto busy = [this] {
      return group_.Stats().entries[static_cast<int>(Operation::kAllReduce)].busy;
    };
    const absl::Duration before = busy();
    group_.MeasureBusy(true);
    const absl::Status status = TimeBoth(1, product_count, /*whole=*/true).status();
    group_.MeasureBusy(false);
    PARPLAN_RETURN_IF_ERROR(status);
    return busy() - before;
  }

 private:
  void Fill(const Array& array, int64_t row_count, int64_t column_count) {
    kernels_.FillNormal({.stream = 1,
                         .deviation = 1.0,
                         .column_count = column_count,
                         .part_row_count = row_count,
                         .part_column_count = column_count},
                        array.data());
  }

  const int64_t element_size_;
  const int64_t side_;
  const int64_t reduced_count_;
  Device& device_;
  LayerKernels& kernels_;
  Communicator& group_;
  Communicator& control_;
  const std::unique_ptr<Stopwatch> stopwatch_;
  ArrayPool pool_;
  Array matrices_;
  Array reduced_;
};

}  // namespace

double OverlapTimes::slowdown() const {
  const absl::Duration longer = std::max(compute, communication);
  const absl::Duration shorter = std::min(compute, communication);
  return std::max(1.0, 1.0 + absl::FDivDuration(together - longer, shorter));
}

OverlapSizes OverlapSizesOf(bool is_cpu) {
  if (is_cpu) return {.side = 384, .reduced = Bytes::Of(int64_t{8} << 20)};
  return {.side = 4096, .reduced = Bytes::Of(int64_t{256} << 20)};
}

absl::StatusOr<OverlapTimes> MeasureOverlap(Device& device, LayerKernels& kernels,
                                            Communicator& group, Communicator& control,
                                            const OverlapSizes& sizes, int repetition_count) {
  OverlapRun run(device, kernels, group, control, sizes);
  PARPLAN_RETURN_IF_ERROR(run.Prepare());
  OverlapTimes times;
  PARPLAN_ASSIGN_OR_RETURN(times.communication, run.MedianOf(repetition_count, [&] {
    return run.TimeBoth(1, 0, /*whole=*/true);
  }));
  PARPLAN_ASSIGN_OR_RETURN(const absl::Duration one_product,
                           run.MedianOf(repetition_count, [&] { return run.TimeCompute(1); }));
  // Times of the slowest rank, so that all ranks compute the same number.
  const int product_count =
      static_cast<int>(std::clamp(absl::FDivDuration(times.communication, one_product) + 0.5, 1.0,
                                  static_cast<double>(kMaxProductCount)));
  PARPLAN_ASSIGN_OR_RETURN(times.compute, run.MedianOf(repetition_count, [&] {
    return run.TimeCompute(product_count);
  }));
  PARPLAN_ASSIGN_OR_RETURN(times.together, run.MedianOf(repetition_count, [&] {
    return run.TimeBoth(1, product_count, /*whole=*/true);
  }));
  constexpr int kLonger = 4;
  PARPLAN_ASSIGN_OR_RETURN(times.compute_beside, run.MedianOf(repetition_count, [&] {
    return run.TimeBoth(kLonger, product_count, /*whole=*/false);
  }));
  PARPLAN_ASSIGN_OR_RETURN(times.communication_beside, run.MedianOf(repetition_count, [&] {
    return run.TimeReduceBeside(kLonger * product_count);
  }));
  return times;
}

absl::Status LoadDevice(Device& device, LayerKernels& kernels, int64_t side,
                        absl::Duration duration) {
  // Products between two looks at the clock: about 10 ms of an H100 with 4096 rows. Not measured.
  constexpr int kAtOnce = 64;
  ArrayPool pool(device.memory());
  const int64_t count = side * side;
  const int64_t element_size = ElementSize(kernels.type());
  PARPLAN_ASSIGN_OR_RETURN(const Array matrices,
                           pool.Take(ArrayUse::kTransient, Bytes::Of(3 * count * element_size)));
  kernels.FillNormal({.stream = 1,
                      .deviation = 1.0,
                      .column_count = side,
                      .part_row_count = 3 * side,
                      .part_column_count = side},
                     matrices.data());
  MatrixProduct product;
  product.m = product.n = product.k = side;
  product.a = matrices.At(0, element_size);
  product.b = matrices.At(count, element_size);
  product.c = matrices.At(2 * count, element_size);
  const absl::Duration begun = SteadyNow();
  do {
    for (int i = 0; i < kAtOnce; ++i) kernels.Multiply(product);
    PARPLAN_RETURN_IF_ERROR(device.Synchronize());
  } while (SteadyNow() - begun < duration);
  return absl::OkStatus();
}

absl::StatusOr<CopySpeeds> MeasureCopies(Device& device, LayerKernels& kernels,
                                         int repetition_count) {
  ArrayPool pool(device.memory());
  const std::unique_ptr<Stopwatch> stopwatch = device.MakeStopwatch();
  PARPLAN_ASSIGN_OR_RETURN(const Array from,
                           pool.Take(ArrayUse::kTransient, Bytes::Of(kCopiedBytes)));
  PARPLAN_ASSIGN_OR_RETURN(const Array to,
                           pool.Take(ArrayUse::kTransient, Bytes::Of(kCopiedBytes)));
  std::vector<char> host(static_cast<size_t>(kCopiedBytes));
  const int64_t count = kCopiedBytes / ElementSize(kernels.type());
  kernels.Zero(from.data(), count);
  kernels.Zero(to.data(), count);
  const auto speed_of = [&](const auto& copy) -> absl::StatusOr<double> {
    std::vector<absl::Duration> samples;
    for (int i = 0; i <= repetition_count; ++i) {
      PARPLAN_RETURN_IF_ERROR(device.Synchronize());
      stopwatch->Start();
      PARPLAN_RETURN_IF_ERROR(copy());
      stopwatch->Stop();
      PARPLAN_ASSIGN_OR_RETURN(const absl::Duration elapsed, stopwatch->Elapsed());
      if (i > 0) samples.push_back(std::max(elapsed, absl::Nanoseconds(1)));
    }
    return static_cast<double>(kCopiedBytes) / absl::ToDoubleSeconds(SpreadOf(samples).median);
  };
  CopySpeeds speeds;
  PARPLAN_ASSIGN_OR_RETURN(speeds.within_device, speed_of([&] {
                             kernels.CopyRows(from.data(), count, to.data(), count, 1, count);
                             return absl::OkStatus();
                           }));
  const Bytes size = Bytes::Of(kCopiedBytes);
  PARPLAN_ASSIGN_OR_RETURN(speeds.to_device, speed_of([&] {
                             return device.CopyFromHost(host.data(), to.data(), size);
                           }));
  PARPLAN_ASSIGN_OR_RETURN(speeds.from_device, speed_of([&] {
                             return device.CopyToHost(from.data(), host.data(), size);
                           }));
  return speeds;
}

}  // namespace parplan
