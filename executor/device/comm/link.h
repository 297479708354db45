// Connections between this rank and the others of a group, as streams of bytes that never block.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace parplan {

// A connection to one other rank, in both directions. What is written at one side is read at the
// other, in order. Messages are padded to multiples of 8 bytes, so a reader that consumes whole
// elements finds an element split only at the end of what has arrived.
class Link {
 public:
  virtual ~Link() = default;

  // Marks the begin of a message; a shaped link counts its latency from here.
  virtual void BeginMessage() {}
  // Sends as many of the first bytes of `data` as there is room for and returns their number.
  // UNAVAILABLE if the other side is gone.
  virtual absl::StatusOr<int64_t> Write(absl::Span<const char> data) = 0;
  // Returns what has arrived and was not consumed, or the first part of it. Valid until
  // `Consume`. UNAVAILABLE if the other side is gone.
  virtual absl::StatusOr<absl::Span<const char>> Read() = 0;
  // Gives back the first `size` bytes of what `Read` returned.
  virtual void Consume(int64_t size) = 0;
  // Returns how long the shape of the link delays the next byte; 0 for a link without one.
  virtual absl::Duration UntilWritable() { return absl::ZeroDuration(); }
};

// The links of one rank to the others of its group. All methods except `Ticket` and `AwaitChange`
// are called by one thread at a time.
class LinkSet {
 public:
  virtual ~LinkSet() = default;

  // REQUIRES: `rank` is another rank of the group.
  virtual Link& link(int rank) = 0;

  // Returns the state of the links for `AwaitChange`. Take it before trying the links; if none
  // could move bytes, a change since then ends the wait at once.
  virtual uint32_t Ticket() = 0;
  // Prepares a wait.
  virtual void Prepare() {}
  // Blocks until a link may be able to move bytes, or for about `longest`; may return early.
  // One thread calls it, between its `Prepare` and `Absorb`; others may use links meanwhile.
  virtual void AwaitChange(uint32_t ticket, absl::Duration longest) = 0;
  // Ends the wait.
  virtual void Absorb() {}
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_
