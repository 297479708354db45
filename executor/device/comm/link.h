// Ways between this rank and the others of a group, as streams of bytes that never block.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

// To and from one other rank. What is written at one side is read at the other, in order.
// Only a multiple of 8 bytes is ever under way between messages, so a reader that consumes
// whole elements never meets one in two pieces but for the end of what has arrived.
class Link {
 public:
  virtual ~Link() = default;

  // A message begins; a slow link counts its latency from here.
  virtual void BeginMessage() {}
  // Takes the first bytes of `data`, as many as there is room for, and says how many.
  // UNAVAILABLE when the other side is gone.
  virtual absl::StatusOr<int64_t> Write(absl::Span<const char> data) = 0;
  // What has arrived and not been consumed, or the first part of it. Valid until `Consume`.
  virtual absl::StatusOr<absl::Span<const char>> Read() = 0;
  virtual void Consume(int64_t size) = 0;
  // How long until it takes more bytes, as far as it knows: 0 unless it is slowed down.
  virtual absl::Duration UntilWritable() { return absl::ZeroDuration(); }
};

// The links of a group at one of its ranks. All but `Ticket` and `AwaitChange` is to be
// called by one thread at a time.
class LinkSet {
 public:
  virtual ~LinkSet() = default;

  // REQUIRES: `rank` is another rank of the group.
  virtual Link& link(int rank) = 0;

  // To be taken before links are tried, and given to `AwaitChange` when none had anything
  // to do: a change in between is not missed.
  virtual uint32_t Ticket() = 0;
  // A wait is to begin.
  virtual void Prepare() {}
  // Blocks until a link may have something to do, or for about `longest`. May return early.
  // By one thread, between its `Prepare` and `Absorb`; others may use links meanwhile.
  virtual void AwaitChange(uint32_t ticket, absl::Duration longest) = 0;
  // The wait is over.
  virtual void Absorb() {}
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_
