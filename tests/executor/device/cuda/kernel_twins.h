// Kernels of a device beside those of fp64, on the same numbers.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_KERNEL_TWINS_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_KERNEL_TWINS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/host_elements.h"
#include "executor/device/kernels/layer_kernels.h"
#include "tests/executor/device/kernels/gradient_check.h"
#include "tests/support/status_matchers.h"

namespace parplan {

// Kernels that are looked at, and what they need to live.
class KernelSubject {
 public:
  virtual ~KernelSubject() = default;
  virtual LayerKernels& kernels() = 0;
  virtual DeviceMemory& memory() = 0;
  // Lines about its kernels (Device::Notes).
  virtual std::vector<std::string> Notes() { return {}; }
};

// One of the subjects of a binary. The variant differs where it matters how kernels run.
struct SubjectChoice {
  ElementType type = ElementType::kFloat32;
  int variant = 0;
};
std::vector<SubjectChoice> SubjectChoices();
std::string SubjectName(const SubjectChoice& choice);
// Null with the reason to skip.
std::unique_ptr<KernelSubject> MakeSubject(const SubjectChoice& choice, std::string& reason);

// An array on both sides.
struct Twin {
  int index = -1;
};

class KernelTwins {
 public:
  explicit KernelTwins(KernelSubject& subject) : subject_(subject) {}
  ~KernelTwins() {
    for (const Pair& pair : pairs_) subject_.memory().Free(pair.device);
  }

  ElementType type() const { return subject_.kernels().type(); }
  // Allowed difference of a result, relative to the larger of 1 and the result.
  double tolerance() const { return type() == ElementType::kBfloat16 ? 1e-2 : 1e-4; }

  // An array of these numbers, rounded to the subject's type on both sides.
  Twin Put(const Numbers& numbers) { return PutAs(type(), numbers); }
  Twin PutStatistics(const Numbers& numbers) {
    return PutAs(subject_.kernels().statistics_type(), numbers);
  }
  // An array of random numbers.
  Twin Random(int64_t count, uint32_t seed, double deviation = 1.0) {
    return Put(RandomNumbers(count, seed, deviation));
  }
  // An array of `count` numbers that a kernel is to replace.
  Twin Room(int64_t count) { return Put(Numbers(count, 7.0)); }
  Twin RoomForStatistics(int64_t count) { return PutStatistics(Numbers(count, 7.0)); }

  // One fp64 of 7.
  Twin RoomForLoss() { return PutAs(ElementType::kFloat64, {7.0}); }

  // Calls op(kernels, at) on both sides; at(twin, offset) is the array there.
  template <typename Operation>
  void Run(Operation op) {
    op(*exact_, [&](Twin twin, int64_t offset = 0) -> void* {
      return pairs_[twin.index].exact.data() + offset;
    });
    RunSubject(op);
  }
  // Calls it on the subject's side only.
  template <typename Operation>
  void RunSubject(Operation op) {
    op(subject_.kernels(), [&](Twin twin, int64_t offset = 0) -> void* {
      const Pair& pair = pairs_[twin.index];
      return static_cast<char*>(pair.device) + offset * ElementSize(pair.type);
    });
  }

  // The array of the subject.
  Numbers Read(Twin twin) {
    const Pair& pair = pairs_[twin.index];
    absl::StatusOr<std::vector<double>> numbers = ReadElements(
        subject_.kernels(), pair.type, pair.device, static_cast<int64_t>(pair.exact.size()));
    EXPECT_OK(numbers.status());
    return numbers.ok() ? *numbers : Numbers(pair.exact.size(), std::nan(""));
  }
  const Numbers& Exact(Twin twin) const { return pairs_[twin.index].exact; }

  // The subject has exactly the other side's numbers, rounded to `as`.
  void ExpectEqual(Twin twin, ElementType as, const char* what) {
    const Numbers actual = Read(twin);
    const Numbers& expected = Exact(twin);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(actual[i], Round(as, expected[i])) << what << "[" << i << "]";
    }
  }

  // Both sides have the same, but for `factor` times the tolerance.
  void ExpectSame(Twin twin, const char* what, double factor = 1.0) {
    const Numbers actual = Read(twin);
    const Numbers& expected = Exact(twin);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], factor * tolerance() * (1.0 + std::abs(expected[i])))
          << what << "[" << i << "]";
    }
  }

 private:
  struct Pair {
    ElementType type;
    Numbers exact;
    void* device;
  };

  static double Round(ElementType type, double value) {
    if (type == ElementType::kFloat64) return value;
    const auto single = static_cast<float>(value);
    return type == ElementType::kBfloat16 ? FromBfloat16(RoundToBfloat16(single)) : single;
  }
  Twin PutAs(ElementType type, const Numbers& numbers) {
    Pair pair{.type = type, .exact = numbers};
    for (double& each : pair.exact) each = Round(type, each);
    absl::StatusOr<void*> device = subject_.memory().Allocate(
        Bytes::Of(static_cast<int64_t>(numbers.size()) * ElementSize(type)), Lifetime::kLasting);
    EXPECT_OK(device.status());
    pair.device = *device;
    EXPECT_OK(WriteElements(subject_.kernels(), type, pair.exact, pair.device));
    pairs_.push_back(std::move(pair));
    return {static_cast<int>(pairs_.size()) - 1};
  }

  KernelSubject& subject_;
  const std::unique_ptr<LayerKernels> exact_ = MakeCpuKernels(ElementType::kFloat64);
  std::deque<Pair> pairs_;
};

// For every subject of the binary.
class KernelTwinsTest : public testing::TestWithParam<SubjectChoice> {
 protected:
  void SetUp() override {
    std::string reason;
    subject_ = MakeSubject(GetParam(), reason);
    if (subject_ == nullptr) GTEST_SKIP() << reason;
    twins_ = std::make_unique<KernelTwins>(*subject_);
  }
  void TearDown() override {
    if (subject_ == nullptr) return;
    EXPECT_OK(subject_->kernels().Synchronize());
  }
  KernelTwins& twins() { return *twins_; }
  KernelSubject& subject() { return *subject_; }
  // Elements of 16 bytes and so, and odd ones.
  std::vector<int64_t> sizes() const { return {1, 37, 64, 264, 521}; }

  std::unique_ptr<KernelSubject> subject_;
  std::unique_ptr<KernelTwins> twins_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_CUDA_KERNEL_TWINS_H_
