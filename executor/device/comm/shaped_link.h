// A link made slower than it is, so that the choice between plans on slow and fast links
// can be tested on one machine.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "executor/device/comm/link.h"

namespace parplan {

// How a link behaves at its sending side.
struct LinkShape {
  // 0: as fast as it is.
  double bytes_per_second = 0.0;
  // From the beginning of a message to its first byte.
  absl::Duration latency;

  bool is_shaped() const { return bytes_per_second > 0.0 || latency > absl::ZeroDuration(); }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// A bucket of tokens before `link`, which must outlive it. The sender is idle while it
// waits, so other work of the rank goes on, as with a network card.
class ShapedLink : public Link {
 public:
  ShapedLink(Link& link, const LinkShape& shape) : link_(link), shape_(shape) {}

  void BeginMessage() override;
  absl::StatusOr<int64_t> Write(absl::Span<const char> data) override;
  absl::StatusOr<absl::Span<const char>> Read() override { return link_.Read(); }
  void Consume(int64_t size) override { link_.Consume(size); }
  absl::Duration UntilWritable() override;

 private:
  Link& link_;
  const LinkShape shape_;
  // When the next byte may be written.
  absl::Duration next_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_
