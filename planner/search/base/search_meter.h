// Counts the states of a search and says when it must end.

#ifndef PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_
#define PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_

#include <algorithm>
#include <cstdint>

#include "planner/model/planning_result.h"

namespace parplan {

// One per search, on one thread. Once stopped it stays stopped.
class SearchMeter {
 public:
  // The watcher is asked about as often.
  static constexpr int64_t kStatesBetweenQuestions = 4096;

  // `control` must outlive the meter.
  explicit SearchMeter(const SearchControl& control) : control_(control) {}

  // Counts `count` expanded states; asks the watcher every few thousand.
  // False when the search must end.
  bool Expand(int64_t count) {
    expanded_ += count;
    if (limit_ != SearchLimit::kNone) return false;
    if (control_.max_state_count > 0 && expanded_ > control_.max_state_count) {
      limit_ = SearchLimit::kStates;
      return false;
    }
    if (expanded_ >= next_question_) {
      next_question_ = expanded_ + kStatesBetweenQuestions;
      return Ask();
    }
    return true;
  }

  // Ends the search for the reason another meter ended a part of it.
  void Stop(SearchLimit limit) {
    if (limit_ == SearchLimit::kNone) limit_ = limit;
  }

  // For a part of the search that must end after `most` more states, or when this would.
  SearchControl PartOf(int64_t most) const {
    SearchControl control = control_;
    if (control_.max_state_count > 0) {
      most = std::min(most, std::max<int64_t>(1, control_.max_state_count - expanded_));
    }
    control.max_state_count = most;
    return control;
  }
  // Counts what a part did. False when the search must end: for the part's reason, unless
  // that was its own limit of states.
  bool Add(const SearchMeter& part) {
    pruned_ += part.pruned_;
    const bool goes_on = Expand(part.expanded_);
    if (part.limit_ != SearchLimit::kNone && part.limit_ != SearchLimit::kStates) {
      Stop(part.limit_);
      return false;
    }
    return goes_on;
  }

  void Prune(int64_t count) { pruned_ += count; }

  // Asks the watcher now. False when the search must end.
  bool Ask() {
    if (limit_ == SearchLimit::kNone && control_.should_stop && control_.should_stop()) {
      limit_ = control_.stop_means_cancelled ? SearchLimit::kCancelled : SearchLimit::kTime;
    }
    return limit_ == SearchLimit::kNone;
  }

  bool stopped() const { return limit_ != SearchLimit::kNone; }
  // What ended the search; `kNone` while it goes on.
  SearchLimit limit() const { return limit_; }
  int64_t expanded_state_count() const { return expanded_; }
  int64_t pruned_state_count() const { return pruned_; }

 private:
  const SearchControl& control_;
  int64_t expanded_ = 0;
  int64_t pruned_ = 0;
  int64_t next_question_ = kStatesBetweenQuestions;
  SearchLimit limit_ = SearchLimit::kNone;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_
