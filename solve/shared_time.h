// One limit of time for the several searches of an answer: a shape, the sensitivities of a plan, a
// plan beside its baselines. Without it each would have the whole limit.
//
//   SharedTime time(Clock::Real(), absl::Seconds(30), counts.size());
//   for (const int count : counts) {
//     const std::optional<absl::Duration> limit = time.Next();
//     if (!limit.has_value()) break;  // the time is over
//     Search(count, *limit);
//   }

#ifndef PARPLAN_SOLVE_SHARED_TIME_H_
#define PARPLAN_SOLVE_SHARED_TIME_H_

#include <optional>

#include "absl/time/time.h"
#include "base/system/clock.h"

namespace parplan {

// Divides the time from its creation on among searches that run one after the other. Not
// thread-safe.
class SharedTime {
 public:
  // `limit` may be infinite. `search_count` searches are expected; any number may follow. `clock`
  // must outlive this object.
  SharedTime(const Clock& clock, absl::Duration limit, int search_count)
      : clock_(clock),
        limit_(limit),
        end_(clock.Steady() + limit),
        expected_(search_count),
        later_(search_count) {}

  // Returns the time that the next search may take: what is left, but for half of an equal share
  // for each search that is expected after it, so that a hard first search leaves some to all
  // others. Returns nothing once the time is over, except to the first search.
  std::optional<absl::Duration> Next();

 private:
  const Clock& clock_;
  const absl::Duration limit_;
  const absl::Duration end_;
  const int expected_;
  // Searches expected that have not begun.
  int later_;
  bool has_begun_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_SOLVE_SHARED_TIME_H_
