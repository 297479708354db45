// A family of counters, one for each row of a fixed list and each status code. `PrometheusObserver`
// counts calls and methods of the store with it.

#ifndef PARPLAN_SERVER_METRICS_CODE_COUNTERS_H_
#define PARPLAN_SERVER_METRICS_CODE_COUNTERS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace parplan {

// Counters by row and status code. Each is made when it is first needed, since most pairs never
// happen; later its cost is that of an atomic read. Safe to use from any thread.
class CodeCounters {
 public:
  // `row_label` is the name of the label that identifies the row, and `text` returns its value, on
  // the thread that calls `At`, perhaps on several at once. `family` outlives the counters.
  CodeCounters(prometheus::Family<prometheus::Counter>& family, std::string row_label,
               int row_count, std::function<std::string(int row)> text);

  // Returns the counter, valid as long as the family. A code above those of `absl::StatusCode`
  // counts as the last of them. REQUIRES: `row` is at least 0 and below `row_count`; not checked.
  prometheus::Counter& At(int row, absl::StatusCode code);

 private:
  prometheus::Family<prometheus::Counter>& family_;
  const std::string row_label_;
  const std::function<std::string(int)> text_;
  std::vector<std::atomic<prometheus::Counter*>> slots_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_CODE_COUNTERS_H_
