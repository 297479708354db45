// A link that is slowed down, so that the choice between plans for slow and fast networks can be
// tested on one machine. `CpuCommunicator` puts it around its links if `parplan-exec` is given
// `--shape-links`.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "executor/device/comm/link.h"

namespace parplan {

// Speed and latency of a link at its sending side.
struct LinkShape {
  // 0 or below: not limited.
  double bytes_per_second = 0.0;
  // Time from the begin of a message to its first byte.
  absl::Duration latency;

  // Returns whether the link is slowed down at all.
  bool is_shaped() const { return bytes_per_second > 0.0 || latency > absl::ZeroDuration(); }
  friend bool operator==(const LinkShape&, const LinkShape&) = default;
};

// Limits the rate of `link`, which must outlive it, by a token bucket. A write that must wait
// returns 0 at once, so other work of the rank goes on, as with a network card; `UntilWritable`
// says how long. Errors are those of `link`. `Link` (link.h) documents the methods. Used by one
// thread at a time.
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
  // Time on SteadyNow() at which the next byte may be written.
  absl::Duration next_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_SHAPED_LINK_H_
