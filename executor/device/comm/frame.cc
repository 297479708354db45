#include "executor/device/comm/frame.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Kind, number and the lengths of both texts; little-endian, as x86-64 and Arm have them.
using Header = std::array<uint32_t, 4>;

absl::StatusOr<Frame> FrameOf(const Header& header) {
  if (header[0] < static_cast<uint32_t>(FrameKind::kHello) ||
      header[0] > static_cast<uint32_t>(FrameKind::kWaits) || header[2] > kMaxFrameText ||
      header[3] > kMaxFrameText) {
    return absl::InvalidArgumentError("what arrived is not a message of a rendezvous");
  }
  Frame frame{.kind = static_cast<FrameKind>(header[0]), .number = header[1]};
  frame.key.resize(header[2]);
  frame.value.resize(header[3]);
  return frame;
}

}  // namespace

std::string RankFact(int rank) { return absl::StrCat("rank/", rank); }

absl::Status WriteFrame(const Socket& socket, const Frame& frame, absl::Duration deadline) {
  if (frame.key.size() > kMaxFrameText || frame.value.size() > kMaxFrameText) {
    return absl::InvalidArgumentError("a text of the rendezvous is too long");
  }
  const Header header = {static_cast<uint32_t>(frame.kind), frame.number,
                         static_cast<uint32_t>(frame.key.size()),
                         static_cast<uint32_t>(frame.value.size())};
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), header.data(), sizeof(header));
  absl::StrAppend(&bytes, frame.key, frame.value);
  return socket.WriteAll(bytes, deadline);
}

absl::StatusOr<Frame> ReadFrame(const Socket& socket, absl::Duration deadline) {
  Header header;
  PARPLAN_RETURN_IF_ERROR(
      socket.ReadAll(reinterpret_cast<char*>(header.data()), sizeof(header), deadline));
  PARPLAN_ASSIGN_OR_RETURN(Frame frame, FrameOf(header));
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(frame.key.data(), header[2], deadline));
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(frame.value.data(), header[3], deadline));
  return frame;
}

absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& arrived) {
  Header header;
  if (arrived.size() < sizeof(header)) return std::nullopt;
  std::memcpy(header.data(), arrived.data(), sizeof(header));
  PARPLAN_ASSIGN_OR_RETURN(Frame frame, FrameOf(header));
  const size_t size = sizeof(header) + frame.key.size() + frame.value.size();
  if (arrived.size() < size) return std::nullopt;
  arrived.copy(frame.key.data(), frame.key.size(), sizeof(header));
  arrived.copy(frame.value.data(), frame.value.size(), sizeof(header) + frame.key.size());
  arrived.erase(0, size);
  return frame;
}

}  // namespace parplan
