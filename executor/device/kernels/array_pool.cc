#include "executor/device/kernels/array_pool.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr int64_t kAlignment = 256;

class HostMemory : public DeviceMemory {
 public:
  absl::StatusOr<void*> Allocate(Bytes size, Lifetime) override {
    const int64_t rounded = (size.count() + kAlignment - 1) / kAlignment * kAlignment;
    void* const data = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for an array of ", size.count(), " bytes"));
    }
    return data;
  }
  void Free(void* data) override { std::free(data); }
};

}  // namespace

std::unique_ptr<DeviceMemory> MakeHostMemory() { return std::make_unique<HostMemory>(); }

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_ = other.size_;
  use_ = other.use_;
  return *this;
}

void Array::Reset() {
  if (data_ == nullptr) return;
  pool_->Count(use_, Bytes() - size_);
  void* const data = std::exchange(data_, nullptr);
  if (pool_->memory_.reuses_freed()) {
    pool_->memory_.Free(data);
  } else {
    pool_->free_[size_].push_back(data);
  }
}

void Array::set_use(ArrayUse use) {
  if (data_ == nullptr || use == use_) return;
  pool_->Count(use_, Bytes() - size_);
  use_ = use;
  pool_->Count(use_, size_);
}

Bytes ArrayUsage::Total() const {
  Bytes total;
  for (const Bytes each : bytes) total += each;
  return total;
}

ArrayPool::~ArrayPool() {
  for (const auto& [unused, blocks] : free_) {
    for (void* const block : blocks) memory_.Free(block);
  }
}

absl::StatusOr<Array> ArrayPool::Take(ArrayUse use, Bytes size) {
  const bool passes = use == ArrayUse::kTransient || use == ArrayUse::kLogits ||
                      use == ArrayUse::kGatheredParameters;
  return Take(use, size, passes ? Lifetime::kPassing : Lifetime::kLasting);
}

absl::StatusOr<Array> ArrayPool::Take(ArrayUse use, Bytes size, Lifetime lifetime) {
  Array array;
  std::vector<void*>& blocks = free_[size];
  if (blocks.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(array.data_, memory_.Allocate(size, lifetime));
  } else {
    array.data_ = blocks.back();
    blocks.pop_back();
  }
  array.pool_ = this;
  array.size_ = size;
  array.use_ = use;
  Count(use, size);
  return array;
}

void ArrayPool::Count(ArrayUse use, Bytes size) {
  usage_.bytes[static_cast<int>(use)] += size;
  if (usage_.Total() > at_peak_.Total()) at_peak_ = usage_;
}

}  // namespace parplan
