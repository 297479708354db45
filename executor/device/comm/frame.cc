#include "executor/device/comm/frame.h"

#include <array>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// Kind, number and the lengths of both texts; little-endian, as x86-64 and Arm have them.
using Header = std::array<uint32_t, 4>;
static_assert(sizeof(Header) == kFrameHeaderSize);

}  // namespace

absl::StatusOr<FrameHeader> HeaderOf(absl::string_view arrived) {
  Header header;
  std::memcpy(header.data(), arrived.data(), sizeof(header));
  if (header[0] < static_cast<uint32_t>(FrameKind::kHello) ||
      header[0] > static_cast<uint32_t>(FrameKind::kProof) || header[2] > kMaxFrameText ||
      header[3] > kMaxFrameText) {
    return absl::InvalidArgumentError("what arrived is not a message of a rendezvous");
  }
  return FrameHeader{.kind = static_cast<FrameKind>(header[0]),
                     .number = header[1],
                     .key_size = header[2],
                     .value_size = header[3]};
}

std::string RankFact(int rank) { return absl::StrCat("rank/", rank); }

int OwnerOfFact(absl::string_view key) {
  int number = 0;
  const size_t slash = key.find('/');
  if (slash == absl::string_view::npos) return -1;
  const absl::string_view kind = key.substr(0, slash);
  key.remove_prefix(slash + 1);
  if (absl::SimpleAtoi(key, &number)) return number;
  if (kind != "memory" && kind != "nccl") return -1;
  const size_t begin = key.rfind(':');
  const size_t end = key.find_first_of(",#", begin == absl::string_view::npos ? 0 : begin);
  if (begin == absl::string_view::npos || end == absl::string_view::npos) return -1;
  return absl::SimpleAtoi(key.substr(begin + 1, end - begin - 1), &number) ? number : -1;
}

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
  std::array<char, kFrameHeaderSize> bytes;
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(bytes.data(), bytes.size(), deadline));
  PARPLAN_ASSIGN_OR_RETURN(const FrameHeader header,
                           HeaderOf(absl::string_view(bytes.data(), bytes.size())));
  Frame frame{.kind = header.kind, .number = header.number};
  frame.key.resize(header.key_size);
  frame.value.resize(header.value_size);
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(frame.key.data(), frame.key.size(), deadline));
  PARPLAN_RETURN_IF_ERROR(socket.ReadAll(frame.value.data(), frame.value.size(), deadline));
  return frame;
}

absl::StatusOr<std::optional<Frame>> TakeFrame(std::string& arrived) {
  if (arrived.size() < kFrameHeaderSize) return std::nullopt;
  PARPLAN_ASSIGN_OR_RETURN(const FrameHeader header, HeaderOf(arrived));
  const size_t size = kFrameHeaderSize + header.key_size + header.value_size;
  if (arrived.size() < size) return std::nullopt;
  Frame frame{.kind = header.kind,
              .number = header.number,
              .key = arrived.substr(kFrameHeaderSize, header.key_size),
              .value = arrived.substr(kFrameHeaderSize + header.key_size, header.value_size)};
  arrived.erase(0, size);
  return frame;
}

}  // namespace parplan
