// Memory of a device, counted by use. `PlanApplier` and the probes make a pool for each trainer.
//
// Arrays that are given back serve the next ones: of their size, or of any where the device's own
// allocator reuses memory. Peaks count what is in use, without the free blocks of the pool.

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

// How long an array lives: a lasting one into later layers' passes, a passing one until its own
// layer's pass has ended; gradients that are being scattered are passing, and end with the pass of
// the next layer. An allocator that keeps them apart has no lasting array in the middle of the
// memory that passing ones have left.
enum class Lifetime { kLasting, kPassing };

// The allocator of a device.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Returns memory aligned to 256 bytes, which is not null for 0 bytes either. Returns
  // RESOURCE_EXHAUSTED naming the size if there is not enough, else errors of the device
  // (`CudaMemory` waits for its stream and returns the error of earlier work).
  virtual absl::StatusOr<void*> Allocate(Bytes size, Lifetime lifetime) = 0;
  // Frees what `Allocate` returned.
  virtual void Free(void* data) = 0;
  // Whether freed memory, of any size, can be allocated again without waiting. A pool then frees
  // every array that is given back, instead of keeping it for arrays of the same size.
  virtual bool reuses_freed() const { return false; }
};

// Makes the allocator of host memory; never null.
std::unique_ptr<DeviceMemory> MakeHostMemory();

// Use of an array. The names mean what those of MemoryItemKind (planner/model/plan.h) mean, the
// memory items that a plan predicts; the numbers differ. kGatheredParameters also has the gradients
// of one micro-batch where gradients are sharded.
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

// Memory of a pool, which outlives it; given back when it is destroyed.
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept { *this = std::move(other); }
  Array& operator=(Array&& other) noexcept;
  ~Array() { Reset(); }

  // Returns the address of the first element in device memory; null if the array is null.
  void* data() const { return data_; }
  // Returns the address of element `offset`; `element_size` is in bytes.
  void* At(int64_t offset, int64_t element_size) const {
    return static_cast<char*>(data_) + offset * element_size;
  }
  // Returns whether there is no memory: after construction, a move or `Reset`.
  bool is_null() const { return data_ == nullptr; }
  // Gives the memory back to the pool; the array is null then. Kernels and copies that were called
  // before may still use the memory, because a device executes in the order of calls. REQUIRES,
  // unchecked: collectives with the memory have been waited for (`PendingWork::Wait`).
  void Reset();
  // Counts the memory under another use from now on; does nothing if the array is null. The
  // lifetime for which the memory was taken stays.
  void set_use(ArrayUse use);

 private:
  friend class ArrayPool;
  ArrayPool* pool_ = nullptr;
  void* data_ = nullptr;
  Bytes size_;
  ArrayUse use_ = ArrayUse::kTransient;
};

// Memory in use at one moment.
struct ArrayUsage {
  // [ArrayUse]
  std::array<Bytes, kArrayUseCount> bytes = {};
  Bytes operator[](ArrayUse use) const { return bytes[static_cast<int>(use)]; }
  // Returns the sum over all uses.
  Bytes Total() const;
};

// Keeps arrays of one device; used by one thread.
class ArrayPool {
 public:
  // `memory` must outlive the pool, which frees its blocks at its end. REQUIRES, unchecked: its
  // arrays are gone by then.
  explicit ArrayPool(DeviceMemory& memory) : memory_(memory) {}
  ~ArrayPool();
  ArrayPool(const ArrayPool&) = delete;
  ArrayPool& operator=(const ArrayPool&) = delete;

  // Returns an array with undefined content. An array of no bytes is not null. Returns the errors
  // of DeviceMemory::Allocate if there is no free block of the size: RESOURCE_EXHAUSTED naming the
  // size if the device has no memory for one, else errors of the device. The lifetime follows from
  // the use: transient arrays, logits and gathered parameters pass. It has no effect where a free
  // block of the pool is reused.
  absl::StatusOr<Array> Take(ArrayUse use, Bytes size);
  // The same for an array whose use will change: the output of a layer is transient until the next
  // layer keeps it.
  absl::StatusOr<Array> Take(ArrayUse use, Bytes size, Lifetime lifetime);

  // Memory in use now, and at the moment when the total was highest, since the pool was made or
  // since the last `ResetPeaks`.
  const ArrayUsage& usage() const { return usage_; }
  const ArrayUsage& at_peak() const { return at_peak_; }
  // Forgets earlier peaks.
  void ResetPeaks() { at_peak_ = usage_; }

 private:
  friend class Array;
  void Count(ArrayUse use, Bytes size);

  DeviceMemory& memory_;
  // Free blocks by size, unless the memory reuses what is freed.
  std::map<Bytes, std::vector<void*>> free_;
  ArrayUsage usage_;
  ArrayUsage at_peak_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_ARRAY_POOL_H_
