#include "executor/device/kernels/block_heap.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace parplan {

int64_t BlockHeap::Take(int64_t size) {
  const int64_t rounded = (std::max<int64_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const auto fitting = by_size_.lower_bound({rounded, 0});
  int64_t offset = end_;
  if (fitting == by_size_.end()) {
    // No free range reaches the end: the last block does.
    end_ += rounded;
  } else {
    const auto range = free_.find(fitting->second);
    const auto [begin, end] = *range;
    offset = begin;
    Erase(range);
    if (begin + rounded < end) Insert(begin + rounded, end);
  }
  blocks_[offset] = offset + rounded;
  return offset;
}

void BlockHeap::Give(int64_t offset) {
  const auto block = blocks_.find(offset);
  PARPLAN_CHECK(block != blocks_.end());
  int64_t begin = block->first;
  int64_t end = block->second;
  blocks_.erase(block);
  const auto next = free_.find(end);
  if (next != free_.end()) {
    end = next->second;
    Erase(next);
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin() && std::prev(after)->second == begin) {
    begin = std::prev(after)->first;
    Erase(std::prev(after));
  }
  if (end == end_) {
    end_ = begin;
  } else {
    Insert(begin, end);
  }
}

void BlockHeap::Insert(int64_t begin, int64_t end) {
  free_[begin] = end;
  by_size_.insert({end - begin, begin});
}

void BlockHeap::Erase(std::map<int64_t, int64_t>::iterator range) {
  by_size_.erase({range->second - range->first, range->first});
  free_.erase(range);
}

}  // namespace parplan
