#include "executor/device/comm/tcp_links.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// Size of a connection's buffer of bytes that have arrived and are not consumed. A multiple of 8.
constexpr int64_t kBufferBytes = int64_t{256} * 1024;

absl::Status Gone(absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("the connection is gone: ", why));
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

class TcpLinks::Connection : public Link {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)), buffer_(kBufferBytes) {}

  absl::StatusOr<int64_t> Write(absl::Span<const char> data) override {
    is_full_ = false;
    if (data.empty()) return 0;
    const ssize_t count =
        ::send(socket_.descriptor(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) return count;
    if (!WouldBlock(errno)) return Gone(ErrnoText(errno));
    is_full_ = true;
    return 0;
  }

  absl::StatusOr<absl::Span<const char>> Read() override {
    if (count_ == 0) Fill();
    if (count_ == 0 && !error_.ok()) return error_;
    return absl::MakeConstSpan(buffer_).subspan(first_, std::min(count_, kBufferBytes - first_));
  }

  void Consume(int64_t size) override {
    first_ = (first_ + size) % kBufferBytes;
    count_ -= size;
    // Starting over while the buffer is empty avoids splitting an arrival at its end.
    if (count_ == 0 && first_ % 8 == 0) first_ = 0;
  }

  // Reads what has arrived into the buffer, as far as there is room.
  void Fill() {
    while (error_.ok() && count_ < kBufferBytes) {
      const int64_t end = (first_ + count_) % kBufferBytes;
      const int64_t room = end < first_ ? first_ - end : kBufferBytes - end;
      const ssize_t count = ::recv(socket_.descriptor(), buffer_.data() + end, room, MSG_DONTWAIT);
      if (count > 0) {
        count_ += count;
        if (count < room) return;
      } else if (count == 0) {
        error_ = Gone("the other side closed it");
      } else if (WouldBlock(errno)) {
        return;
      } else {
        error_ = Gone(ErrnoText(errno));
      }
    }
  }

  pollfd Interest() const {
    short events = 0;
    if (error_.ok() && count_ < kBufferBytes) events |= POLLIN;
    if (is_full_) events |= POLLOUT;
    return {.fd = events == 0 ? -1 : socket_.descriptor(), .events = events, .revents = 0};
  }

 private:
  const Socket socket_;
  std::vector<char> buffer_;
  // Index of the first byte in `buffer_`, a ring, and number of bytes.
  int64_t first_ = 0;
  int64_t count_ = 0;
  // Whether the last write found no room.
  bool is_full_ = false;
  absl::Status error_;
};

TcpLinks::TcpLinks(std::vector<Socket> connections) {
  for (Socket& socket : connections) {
    connections_.push_back(socket.is_open() ? std::make_unique<Connection>(std::move(socket))
                                            : nullptr);
  }
}

TcpLinks::~TcpLinks() = default;

Link& TcpLinks::link(int rank) {
  PARPLAN_CHECK(connections_[rank] != nullptr);
  return *connections_[rank];
}

void TcpLinks::Prepare() {
  interests_.clear();
  for (const std::unique_ptr<Connection>& connection : connections_) {
    interests_.push_back(connection == nullptr ? pollfd{.fd = -1, .events = 0, .revents = 0}
                                               : connection->Interest());
  }
}

void TcpLinks::AwaitChange(uint32_t /*ticket*/, absl::Duration longest) {
  const timespec timeout = absl::ToTimespec(std::max(longest, absl::ZeroDuration()));
  ::ppoll(interests_.data(), interests_.size(), &timeout, nullptr);
}

void TcpLinks::Absorb() {
  // Bytes that no operation waits for are read too, or they would end every wait at once.
  for (size_t rank = 0; rank < interests_.size(); ++rank) {
    if ((interests_[rank].revents & ~POLLOUT) != 0) connections_[rank]->Fill();
  }
}

}  // namespace parplan
