// Messages of the rendezvous on a socket: a kind, a number and two texts. `Rendezvous` and
// `RendezvousServer` exchange them; ranks that connect for a group (JobFabric) send each other
// those of a handshake (handshake.h) alone.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The kinds of messages, with the meaning of their fields; other fields are empty or 0. The numbers
// are on the wire.
enum class FrameKind : uint8_t {
  // A rank connects. `number`: the rank; `key`: its nonce; `value`: the context (handshake.h).
  kHello = 1,
  // The server accepts the rank. `number`: one more than the rank that serves the rendezvous, 0 if
  // none does; `value`: the host of that rank.
  kWelcome = 2,
  // The server refuses the rank: the reason in `value`. Or a rank refuses the challenge of a
  // listener that does not know the token; all other fields are then empty.
  kRefused = 3,
  // A rank publishes a fact that never changes: `key` and `value`.
  kSet = 4,
  // A rank asks for a fact, now or once it is published. `number`: the question; `key`: the fact.
  kGet = 5,
  // The server answers a question: its `number`, `key` and `value`.
  kValue = 6,
  // The rank leaves; its connection may end now.
  kGoodbye = 7,
  // A rank ends the job. `value`: the reason.
  kAbort = 8,
  // The server reports to all ranks that the job has failed. `number`: the rank that is lost, has
  // ended the job, or is to blame for a stall (0 if none is found); `key`: `aborted`, with the
  // reason in `value`, or `lost`, `altered` (lost since something was altered on its way) or
  // `stalled`, with the whole message there.
  kFailure = 9,
  // An operation of a rank took too long. `number`: one more than the rank it waits for, 0 if that
  // is not known; `value`: the operation.
  kStalled = 10,
  // The server asks whom the rank waits for. All other fields are empty.
  kProbe = 11,
  // The rank answers. `number`: one more than the rank it waits for, 0 for none.
  kWaits = 12,
  // The answer to kHello. `key`: the nonce of the listener; `value`: its proof (handshake.h).
  kChallenge = 13,
  // The answer to kChallenge. `key`: the proof of the caller; `value`: between two ranks the name
  // of which kHello has the digest.
  kProof = 14,
};

// The fact that answers at once, without having been published: the ranks that have not come yet,
// for people; empty if all are here.
inline constexpr char kMissingRanks[] = "missing ranks";
// The fact under which a rank publishes its machine, a space, and the HOST:PORT it listens at.
std::string RankFact(int rank);
// Returns the rank that a fact is about, which alone may publish it; -1 for others. Facts of a rank
// are KIND/RANK: `JobFabric` publishes its address, `rank/1`, a GPU its place, `device/1`. And the
// first rank of a group publishes where it hands over its memory, `memory/NAME:1,4,5#0`, and by
// what id of NCCL the group meets, `nccl/NAME:1,4,5#0`.
int OwnerOfFact(absl::string_view key);

// One message.
struct Frame {
  // `FrameKind` says what the other fields mean for each kind.
  FrameKind kind = FrameKind::kHello;
  uint32_t number = 0;
  std::string key;
  std::string value;
};

// Largest length of a text in bytes; readers refuse a longer one. Not measured: facts are addresses
// and ids below 1 kB, and a stranger's bytes must not make a reader allocate more.
inline constexpr uint32_t kMaxFrameText = 1 << 20;

// Writes a frame until `deadline` on SteadyNow(). INVALID_ARGUMENT for a text longer than
// kMaxFrameText; else the errors of Socket::WriteAll: UNAVAILABLE, DEADLINE_EXCEEDED, DATA_LOSS.
absl::Status WriteFrame(const Socket& socket, const Frame& frame, absl::Duration deadline);
// Reads a frame. INVALID_ARGUMENT for bytes that are not a frame; else the errors of
// Socket::ReadAll: UNAVAILABLE, DEADLINE_EXCEEDED, DATA_LOSS.
absl::StatusOr<Frame> ReadFrame(const Socket& socket, absl::Duration deadline);

// The part of a frame before its texts.
struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  uint32_t number = 0;
  // Bytes of both texts.
  size_t key_size = 0;
  size_t value_size = 0;
};

// Bytes of a header.
inline constexpr size_t kFrameHeaderSize = 16;

// Returns the header at the beginning of `arrived`. INVALID_ARGUMENT as for ReadFrame. REQUIRES,
// unchecked: at least kFrameHeaderSize bytes.
absl::StatusOr<FrameHeader> HeaderOf(absl::string_view arrived);

// Removes the first frame from `arrived` and returns it; nothing while it is incomplete.
// INVALID_ARGUMENT as for ReadFrame, as soon as the header shows it; `arrived` is then unchanged.
absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& arrived);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_
