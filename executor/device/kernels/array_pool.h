// Memory of a device, counted by what it is for.
//
// Arrays that are given back serve the next ones of their size, so a training step takes
// the same blocks again and again; the peaks are those of what is in use, without anything
// an allocator keeps besides.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_ARRAY_POOL_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_ARRAY_POOL_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace parplan {

// Where a device's memory comes from.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Aligned to 256 bytes. RESOURCE_EXHAUSTED naming the size.
  virtual absl::StatusOr<void*> Allocate(Bytes size) = 0;
  virtual void Free(void* data) = 0;
};

// The processor's.
std::unique_ptr<DeviceMemory> MakeHostMemory();

// What arrays are for. A mirror of the items a plan predicts (MemoryItemKind).
enum class ArrayUse {
  kParameters,
  kGradients,
  kOptimizerStates,
  kActivations,
  kCheckpoints,
  kGatheredParameters,
  kLogits,
  kTransient,
  kMasterParameters,
};
inline constexpr int kArrayUseCount = 9;

class ArrayPool;

// Memory of a pool, given back at the end of its life. The pool outlives it.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept;
  ~Array() { Reset(); }

  void* data() const { return data_; }
  // The element `offset` elements of `element_size` bytes from the first.
  void* At(int64_t offset, int64_t element_size) const {
    return static_cast<char*>(data_) + offset * element_size;
  }
  bool is_null() const { return data_ == nullptr; }
  void Reset();
  // Counts as something else from now on.
  void set_use(ArrayUse use);

 private:
  friend class ArrayPool;
  ArrayPool* pool_ = nullptr;
  void* data_ = nullptr;
  Bytes size_;
  ArrayUse use_ = ArrayUse::kTransient;
};

// Bytes by use.
struct ArrayUsage {
  std::array<Bytes, kArrayUseCount> bytes = {};
  Bytes operator[](ArrayUse use) const { return bytes[static_cast<int>(use)]; }
  Bytes Total() const;
};

// Of one thread.
class ArrayPool {
 public:
  explicit ArrayPool(DeviceMemory& memory) : memory_(memory) {}
  ~ArrayPool();
  ArrayPool(const ArrayPool&) = delete;
  ArrayPool& operator=(const ArrayPool&) = delete;

  // Holds anything. An array of no bytes is not null.
  absl::StatusOr<Array> Take(ArrayUse use, Bytes size);

  // What is in use now, and what was at the moment when most was.
  const ArrayUsage& usage() const { return usage_; }
  const ArrayUsage& at_peak() const { return at_peak_; }
  // Begins to look for that moment anew.
  void ResetPeaks() { at_peak_ = usage_; }

 private:
  friend class Array;
  void Count(ArrayUse use, Bytes size);

  DeviceMemory& memory_;
  // By size: blocks nobody uses.
  std::map<Bytes, std::vector<void*>> free_;
  ArrayUsage usage_;
  ArrayUsage at_peak_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_ARRAY_POOL_H_
