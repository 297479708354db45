// Counts the states of a search and says when it must end. Each planner makes one for a search, and
// some make more for its parts.

#ifndef PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_
#define PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_

#include <algorithm>
#include <cstdint>
#include <functional>

#include "planner/model/planning_result.h"

namespace parplan {

// Counts expanded and pruned states and remembers which limit ended the search. One meter belongs
// to one search and is used on one thread at a time. Once stopped, it stays stopped; it still
// counts, but does not ask `should_stop` again.
class SearchMeter {
 public:
  // States between two questions to `SearchControl::should_stop`. Fewer would make the cost of the
  // question, which reads a clock, noticeable; more would delay a stop. Not measured for other
  // values.
  static constexpr int64_t kStatesBetweenQuestions = 4096;
  // Operations between two questions. An operation takes 1 to 50 ns, so a question comes every
  // millisecond or every few of them. Not measured for other values.
  static constexpr int64_t kWorkBetweenQuestions = 200'000;

  // `control` must outlive the meter.
  explicit SearchMeter(const SearchControl& control) : control_(control) {}

  // Counts `count` expanded states and asks `should_stop` every `kStatesBetweenQuestions` states.
  // Returns false if the search must end: as soon as more than `max_state_count` are counted
  // (unless that is 0), or `should_stop` said so.
  bool Expand(int64_t count) {
    expanded_ += count;
    if (limit_ != SearchLimit::kNone) return false;
    if (control_.max_state_count > 0 && expanded_ > control_.max_state_count) {
      limit_ = SearchLimit::kStates;
      return false;
    }
    if (expanded_ >= next_question_) {
      next_question_ = expanded_ + kStatesBetweenQuestions;
      return ShouldContinue();
    }
    return true;
  }

  // Counts `operations` (comparisons, sums, looks at an option) of a loop that expands no states,
  // or states that take long, and asks `should_stop` every `kWorkBetweenQuestions`. They are no
  // states, so `max_state_count` does not limit them. Returns false if the search must end.
  bool Work(int64_t operations) {
    work_ += operations;
    if (work_ >= kWorkBetweenQuestions) {
      work_ = 0;
      return ShouldContinue();
    }
    return limit_ == SearchLimit::kNone;
  }

  // Returns `Work` as a function. The meter must outlive it.
  std::function<bool(int64_t operations)> Worker() {
    return [this](int64_t operations) { return Work(operations); };
  }

  // Ends the search for the reason that ended a part of it on another meter. Without effect if it
  // has ended before, or for `kNone`.
  void Stop(SearchLimit limit) {
    if (limit_ == SearchLimit::kNone) limit_ = limit;
  }

  // Returns the control of a part of the search that may expand at most `limit` states, and no more
  // than this search may still expand, but at least one. REQUIRES: limit >= 1, since 0 would be no
  // limit; nothing checks it. Its other members are those of this search. The caller keeps the
  // control as long as the meter of the part.
  SearchControl PartOf(int64_t limit) const {
    SearchControl control = control_;
    if (control_.max_state_count > 0) {
      limit = std::min(limit, std::max<int64_t>(1, control_.max_state_count - expanded_));
    }
    control.max_state_count = limit;
    return control;
  }
  // Adds the counts of a part. Returns false if the search must end: a part that reached its own
  // limit of states does not end it, any other limit does.
  bool Add(const SearchMeter& part) {
    pruned_ += part.pruned_;
    const bool goes_on = Expand(part.expanded_);
    if (part.limit_ != SearchLimit::kNone && part.limit_ != SearchLimit::kStates) {
      Stop(part.limit_);
      return false;
    }
    return goes_on;
  }

  // Counts states that were dropped without being expanded; they count against no limit.
  void Prune(int64_t count) { pruned_ += count; }

  // Asks `should_stop` now, unless the search has ended. Returns false if the search must end.
  bool ShouldContinue() {
    if (limit_ == SearchLimit::kNone && control_.should_stop && control_.should_stop()) {
      limit_ = SearchLimit::kTime;
    }
    return limit_ == SearchLimit::kNone;
  }

  // Multiplies the limits that a method sets to its own parts (`SearchControl::effort`).
  int64_t effort() const { return control_.effort; }

  // Returns whether the search must end.
  bool stopped() const { return limit_ != SearchLimit::kNone; }
  // The limit that ended the search; `kNone` while it goes on.
  SearchLimit limit() const { return limit_; }
  // Return the counts so far, those of parts included.
  int64_t expanded_state_count() const { return expanded_; }
  int64_t pruned_state_count() const { return pruned_; }

 private:
  const SearchControl& control_;
  int64_t expanded_ = 0;
  int64_t pruned_ = 0;
  int64_t next_question_ = kStatesBetweenQuestions;
  // Operations since the last question that `Work` asked.
  int64_t work_ = 0;
  SearchLimit limit_ = SearchLimit::kNone;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_BASE_SEARCH_METER_H_
