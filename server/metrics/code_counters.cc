#include "server/metrics/code_counters.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "server/metrics/label.h"

namespace parplan {

CodeCounters::CodeCounters(prometheus::Family<prometheus::Counter>& family, std::string row_label,
                           int row_count, std::function<std::string(int row)> text)
    : family_(family),
      row_label_(std::move(row_label)),
      text_(std::move(text)),
      slots_(static_cast<size_t>(row_count) * kStatusCodeCount) {}

prometheus::Counter& CodeCounters::At(int row, absl::StatusCode code) {
  const int column = std::clamp(static_cast<int>(code), 0, kStatusCodeCount - 1);
  std::atomic<prometheus::Counter*>& slot =
      slots_[static_cast<size_t>(row) * kStatusCodeCount + column];
  prometheus::Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &family_.Add({{row_label_, text_(row)},
                            {"code", StatusCodeLabel(static_cast<absl::StatusCode>(column))}});
    slot.store(counter, std::memory_order_release);
  }
  return *counter;
}

}  // namespace parplan
