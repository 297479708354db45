#include "planner/planners/exact/interleaved/interleaved_laps.h"

#include <algorithm>

namespace parplan {

int AlternatingPasses::Within(int part, int offset) const {
  const int all = device_count_ * virtual_stage_count_;
  int count = 0;
  // The passes may begin in one round of all parts and end in the next.
  for (const int round : {0, all}) {
    const int begin = std::max(offset, round + part * device_count_);
    const int end = std::min(offset + device_count_, round + (part + 1) * device_count_);
    count += std::max(0, end - begin);
  }
  return count;
}

int AlternatingPasses::ForwardOf(int chunk, int device) const {
  // Backward passes of the first chunk begin at (V - 1) P in their group, and the forward pass
  // behind backward pass i is that with number i + (V - 1) P + 2 (P - 1 - d) + 1.
  const int all = device_count_ * virtual_stage_count_;
  const int offset =
      (2 * (virtual_stage_count_ - 1) * device_count_ + 2 * (device_count_ - 1 - device) + 1) % all;
  return Within(chunk, offset);
}

int AlternatingPasses::BackwardOf(int chunk, int device) const {
  // The backward pass behind forward pass k is that with number k - (V - 1) P - 2 (P - 1 - d), and
  // the last chunk comes first.
  const int all = device_count_ * virtual_stage_count_;
  const int offset = (all - 2 * (device_count_ - 1 - device)) % all;
  return Within(virtual_stage_count_ - 1 - chunk, offset);
}

}  // namespace parplan
