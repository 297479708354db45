// Messages of the rendezvous on a socket: a kind, a number and two texts.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/socket.h"

namespace parplan {

enum class FrameKind : uint8_t {
  // A rank joins: its number, the token of the job, how many ranks there are.
  kHello = 1,
  // The server takes the rank. Nothing else.
  kWelcome = 2,
  // It does not; why.
  kRefused = 3,
  // A fact that never changes: key and value.
  kSet = 4,
  // Asks for a fact, and waits until there is one: the number of the question and the key.
  kGet = 5,
  // The fact: the number of the question, key and value.
  kValue = 6,
  // The rank is through; its connection may end now.
  kGoodbye = 7,
  // A rank ends the job: why.
  kAbort = 8,
  // Told to all: the rank that is lost or has ended the job, what happened, and why.
  kFailure = 9,
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  uint32_t number = 0;
  std::string key;
  std::string value;
};

// At most so many bytes a text; a longer one is refused by whoever reads it.
inline constexpr uint32_t kMaxFrameText = 1 << 20;

absl::Status WriteFrame(const Socket& socket, const Frame& frame, absl::Duration deadline);
// INVALID_ARGUMENT for what is no frame; else the errors of Socket::ReadAll.
absl::StatusOr<Frame> ReadFrame(const Socket& socket, absl::Duration deadline);

// The first frame of what has arrived, which is taken from it; nothing while it is not
// whole. INVALID_ARGUMENT as above.
absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& arrived);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_FRAME_H_
