#include "executor/device/comm/hello_reader.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <optional>

#include "absl/status/statusor.h"
#include "executor/device/comm/steady_clock.h"

namespace parplan {
void HelloReader::Add(Socket socket, absl::Duration now) {
  if (silent_.size() >= kMaxSilentCount) silent_.pop_front();
  silent_.push_back({std::move(socket), now + kPatience, ""});
}

size_t HelloReader::NextSize(absl::string_view arrived) const {
  if (arrived.size() < kFrameHeaderSize) return kFrameHeaderSize;
  const absl::StatusOr<FrameHeader> header = HeaderOf(arrived);
  if (!header.ok() || header->kind != FrameKind::kHello || header->key_size != token_.size()) {
    return 0;
  }
  const size_t token_end = kFrameHeaderSize + header->key_size;
  if (arrived.size() < token_end) return token_end;
  const absl::string_view token = arrived.substr(kFrameHeaderSize, header->key_size);
  return IsSameToken(token, token_) ? token_end + header->value_size : 0;
}

HelloReader::Progress HelloReader::Read(Silent& silent) const {
  std::array<char, 4096> bytes;
  while (true) {
    const size_t size = NextSize(silent.arrived);
    if (size == 0) return Progress::kWrong;
    if (size == silent.arrived.size()) return Progress::kWhole;
    const ssize_t count =
        ::recv(silent.socket.descriptor(), bytes.data(),
               std::min(bytes.size(), size - silent.arrived.size()), MSG_DONTWAIT);
    if (count == 0) return Progress::kWrong;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return errno == EAGAIN || errno == EWOULDBLOCK ? Progress::kIncomplete : Progress::kWrong;
    }
    silent.arrived.append(bytes.data(), static_cast<size_t>(count));
  }
}

std::vector<HelloReader::Guest> HelloReader::Take(absl::Duration now) {
  std::vector<Guest> guests;
  for (auto each = silent_.begin(); each != silent_.end();) {
    const size_t before = each->arrived.size();
    const Progress progress = Read(*each);
    // A long hello of a rank comes in parts, which the reader may look at seldom.
    if (each->arrived.size() > std::max(before, kFrameHeaderSize + token_.size())) {
      each->end = now + kPatience;
    }
    if (progress == Progress::kIncomplete && now < each->end) {
      ++each;
      continue;
    }
    if (progress == Progress::kWhole) {
      absl::StatusOr<std::optional<Frame>> hello = TakeFrame(each->arrived);
      if (hello.ok() && hello->has_value()) {
        guests.push_back({std::move(each->socket), **std::move(hello)});
      }
    }
    each = silent_.erase(each);
  }
  return guests;
}

bool HelloReader::Await(const Listener& listener, absl::Duration deadline) const {
  std::vector<pollfd> interests = {{.fd = listener.descriptor(), .events = POLLIN, .revents = 0}};
  for (const Silent& silent : silent_) {
    interests.push_back({.fd = silent.socket.descriptor(), .events = POLLIN, .revents = 0});
  }
  const absl::Duration left =
      std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Duration(absl::Hours(1)));
  const timespec timeout = absl::ToTimespec(left);
  // A signal ends the wait early, which does no harm.
  return ::ppoll(interests.data(), interests.size(), &timeout, nullptr) > 0 &&
         interests[0].revents != 0;
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
