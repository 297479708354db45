#include "executor/device/comm/hello_reader.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <optional>

#include "absl/status/statusor.h"

namespace parplan {
namespace {

// Bytes of the longest hello: a token, and the name of a group.
constexpr size_t kMaxHelloBytes = 4096;

enum class Outcome { kSilent, kHello, kWrong };

// Looks at what has arrived without taking it.
Outcome Look(const Socket& socket) {
  std::array<char, kMaxHelloBytes> bytes;
  const ssize_t count =
      ::recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? Outcome::kSilent
                                                                     : Outcome::kWrong;
  }
  std::string arrived(bytes.data(), static_cast<size_t>(count));
  const absl::StatusOr<std::optional<Frame>> frame = TakeFrame(arrived);
  if (!frame.ok() || count == 0) return Outcome::kWrong;
  if (frame->has_value()) return Outcome::kHello;
  return static_cast<size_t>(count) == bytes.size() ? Outcome::kWrong : Outcome::kSilent;
}

}  // namespace

void HelloReader::Add(Socket socket, absl::Duration now) {
  if (silent_.size() >= kMaxSilentCount) silent_.pop_front();
  silent_.push_back({std::move(socket), now + kPatience});
}

std::vector<HelloReader::Guest> HelloReader::Take(absl::Duration now) {
  std::vector<Guest> guests;
  for (auto each = silent_.begin(); each != silent_.end();) {
    const Outcome outcome = Look(each->socket);
    if (outcome == Outcome::kSilent && now < each->end) {
      ++each;
      continue;
    }
    if (outcome == Outcome::kHello) {
      // It is there, so this waits for nothing.
      absl::StatusOr<Frame> hello = ReadFrame(each->socket, now);
      if (hello.ok() && hello->kind == FrameKind::kHello && IsSameToken(hello->key, token_)) {
        guests.push_back({std::move(each->socket), *std::move(hello)});
      }
    }
    each = silent_.erase(each);
  }
  return guests;
}

bool IsSameToken(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace parplan
