// Places blocks in one range of addresses. `CudaMemory` keeps one for each lifetime.

#ifndef PARPLAN_EXECUTOR_DEVICE_KERNELS_BLOCK_HEAP_H_
#define PARPLAN_EXECUTOR_DEVICE_KERNELS_BLOCK_HEAP_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace parplan {

// Offsets of blocks in a range that begins at 0 and has no end. Holds no memory itself: whoever
// uses it keeps memory under [0, end()).
//
// A block takes the smallest free range that holds it, the lowest of equal ones, and the range's
// lower end; without one it begins at end(), and then ends the heap. No free range reaches end().
// Free ranges that touch are one range. The same calls give the same offsets. For one thread at a
// time; each call takes O(log n) for n free ranges.
//
//   BlockHeap heap;
//   const int64_t a = heap.Take(1000);  // 0; end() is 1024
//   heap.Give(a);                       // end() is 0
class BlockHeap {
 public:
  // Sizes are rounded up to multiples of this many bytes, and offsets are multiples of it.
  static constexpr int64_t kAlignment = 256;

  // Returns the offset of a block of `size` bytes, at least 0; a block of 0 bytes takes kAlignment.
  int64_t Take(int64_t size);
  // Frees a block. REQUIRES: `Take` returned `offset`, and it was not freed since; aborts
  // otherwise.
  void Give(int64_t offset);

  // The end of the last block; 0 without blocks.
  int64_t end() const { return end_; }
  // Free ranges below `end()`, from offset to end.
  const std::map<int64_t, int64_t>& free_ranges() const { return free_; }

 private:
  void Insert(int64_t begin, int64_t end);
  void Erase(std::map<int64_t, int64_t>::iterator range);

  // Blocks in use, and free ranges between them, from offset to end; the latter also by size.
  std::map<int64_t, int64_t> blocks_;
  std::map<int64_t, int64_t> free_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_KERNELS_BLOCK_HEAP_H_
