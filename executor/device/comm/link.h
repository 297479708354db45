// Connections between this rank and the others of a group, as streams of bytes that never block.
//
// `CpuCommunicator` moves messages over them. Implementations: tcp_links.h between machines,
// shared_memory_links.h within one, shaped_link.h slows down a link of either kind.

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

  // Marks the beginning of a message; a shaped link counts its latency from here.
  virtual void BeginMessage() {}
  // Sends some of the first bytes of `data` and returns their number: 0 if there is no room, and
  // perhaps fewer than there is room for (64 KiB in shared memory, a piece on a shaped link or of
  // TLS). After 0 the next call must begin with the same bytes, of which a part may be encrypted.
  // UNAVAILABLE if the connection is broken or the shared memory damaged, DATA_LOSS if TLS finds
  // that something was altered on its way, INTERNAL for an error of OpenSSL itself. Shared memory
  // does not notice that a rank has died: it returns 0, and the rendezvous reports the death.
  virtual absl::StatusOr<int64_t> Write(absl::Span<const char> data) = 0;
  // Returns the bytes that have arrived and were not consumed, or the first part of them; empty if
  // there are none. The span is valid until `Consume`. UNAVAILABLE if the connection is broken and
  // everything that arrived before was consumed; shared memory returns no bytes instead, but
  // UNAVAILABLE at once if it is damaged. DATA_LOSS and INTERNAL come as from `Write`.
  virtual absl::StatusOr<absl::Span<const char>> Read() = 0;
  // Gives back the first `size` bytes of the span that `Read` returned last. REQUIRES, unchecked:
  // `size` is at least 0 and at most the size of that span.
  virtual void Consume(int64_t size) = 0;
  // Returns how long the shape of the link (its latency and bandwidth) delays the next byte; 0 for
  // a link without a shape.
  virtual absl::Duration UntilWritable() { return absl::ZeroDuration(); }
};

// The links of one rank to the others of its group. REQUIRES, unchecked: one thread at a time calls
// the methods of this and of its links, but for `Ticket` and `AwaitChange`, which need no lock.
//
// A thread that has nothing left to move waits in these steps, so that no change is missed between
// its last attempt and its sleep:
//
//   const uint32_t ticket = links.Ticket();
//   ...                                  // Write and Read on the links; go on if bytes moved.
//   links.Prepare();                     // Holding the lock that guards the links.
//   links.AwaitChange(ticket, longest);  // Without the lock.
//   links.Absorb();                      // Holding the lock again.
class LinkSet {
 public:
  virtual ~LinkSet() = default;

  // Returns the link to a rank, valid as long as this. REQUIRES: `rank` is not this rank; aborts
  // otherwise. REQUIRES, unchecked: it is in the group.
  virtual Link& link(int rank) = 0;

  // Returns a number that changes whenever a link may have become able to move bytes. A wait with a
  // ticket that is no longer current ends at once. Links that keep their own state (TCP) return 0.
  virtual uint32_t Ticket() = 0;
  // Notes for which events of which links the next wait is: bytes to read, or room to write where
  // the last `Write` found none.
  virtual void Prepare() {}
  // Blocks until a link may be able to move bytes, or for about `longest`; may return early.
  // At most one thread waits; others may use the links meanwhile.
  virtual void AwaitChange(uint32_t ticket, absl::Duration longest) = 0;
  // Ends the wait: reads into buffers the bytes that ended it, also those that no operation waits
  // for, which would otherwise end every later wait at once.
  virtual void Absorb() {}
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_LINK_H_
