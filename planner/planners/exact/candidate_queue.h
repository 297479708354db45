// The queue of open candidates, in the order of visits. Used by `BestFirstSearch`.
//
// Words (docs/glossary.md): a candidate is all plans of one batch size, pipeline degree, number of
// micro-batches and schedule.

#ifndef PARPLAN_PLANNER_PLANNERS_EXACT_CANDIDATE_QUEUE_H_
#define PARPLAN_PLANNER_PLANNERS_EXACT_CANDIDATE_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/planners/exact/exact_candidates.h"

namespace parplan {

// A priority queue by lower bound per sample (`MorePromising`). Candidates of the preferred batch
// size, if there is one (`Prefer`), come before all others. Keeps a reference to the candidates,
// which must outlive it; a candidate in the queue must not change.
class CandidateQueue {
 public:
  explicit CandidateQueue(const std::vector<ExactCandidate>& candidates)
      : candidates_(candidates) {}

  // Adds a candidate, given by its place, from 0, in the list of the constructor. REQUIRES,
  // unchecked: it is in the list and not in the queue; one that was added twice comes twice.
  void Put(size_t index) {
    heap_.push_back(index);
    std::push_heap(heap_.begin(), heap_.end(), Later(*this));
  }
  // Returns whether no candidate is left.
  bool empty() const { return heap_.empty(); }
  // Returns the index of the candidate to visit next; `Pop` removes it. REQUIRES, of both,
  // unchecked: the queue is not empty.
  size_t first() const { return heap_.front(); }
  void Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later(*this));
    heap_.pop_back();
  }

  // Makes candidates of the batch size come first; 0, the default, for none. O(candidates in the
  // queue) if the batch size is another than before.
  void Prefer(int64_t global_batch_size) {
    if (preferred_batch_ == global_batch_size) return;
    preferred_batch_ = global_batch_size;
    std::make_heap(heap_.begin(), heap_.end(), Later(*this));
  }

 private:
  struct Later {
    explicit Later(const CandidateQueue& queue) : queue(queue) {}
    bool operator()(size_t a, size_t b) const {
      const ExactCandidate& first = queue.candidates_[a];
      const ExactCandidate& second = queue.candidates_[b];
      const bool prefers_first = queue.Prefers(first);
      if (prefers_first != queue.Prefers(second)) return !prefers_first;
      return MorePromising(second, first);
    }
    const CandidateQueue& queue;
  };

  bool Prefers(const ExactCandidate& candidate) const {
    return candidate.pipeline.global_batch_size == preferred_batch_;
  }

  const std::vector<ExactCandidate>& candidates_;
  int64_t preferred_batch_ = 0;
  std::vector<size_t> heap_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_EXACT_CANDIDATE_QUEUE_H_
