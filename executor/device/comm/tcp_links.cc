#include "executor/device/comm/tcp_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace parplan {
namespace {

// Size of a connection's buffer of bytes that have arrived and are not consumed. A multiple of 8.
constexpr int64_t kBufferBytes = int64_t{256} * 1024;

absl::Status Broken(const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("the connection broke: ", why.message()));
}

}  // namespace

class TcpLinks::Connection : public Link {
 public:
  explicit Connection(Socket socket)
      : socket_(std::move(socket)), buffer_(kBufferBytes), may_hold_more_(socket_.has_pending()) {}

  absl::StatusOr<int64_t> Write(absl::Span<const char> data) override {
    is_full_ = false;
    if (data.empty()) return 0;
    const absl::StatusOr<int64_t> count = socket_.Send(absl::string_view(data.data(), data.size()));
    if (!count.ok()) return Broken(count.status());
    is_full_ = *count == 0;
    return *count;
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
    may_hold_more_ = false;
    while (error_.ok() && count_ < kBufferBytes) {
      const int64_t end = (first_ + count_) % kBufferBytes;
      const int64_t room = end < first_ ? first_ - end : kBufferBytes - end;
      const absl::StatusOr<int64_t> count = socket_.Receive(buffer_.data() + end, room);
      if (!count.ok()) {
        error_ = Broken(count.status());
        return;
      }
      count_ += *count;
      // After less than there is room for, an error that was found waits for the next call.
      if (*count == 0 || (*count < room && !socket_.has_pending())) return;
    }
    may_hold_more_ = socket_.has_pending();
  }

  // Returns whether there is room again for bytes that TLS may have taken from the kernel, so that
  // the socket does not become readable for them.
  bool MustFill() const { return may_hold_more_ && error_.ok() && count_ < kBufferBytes; }

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
  // Whether TLS holds bytes that `Fill` has not read, for want of room.
  bool may_hold_more_;
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
  is_ready_ = false;
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection != nullptr && connection->MustFill()) {
      connection->Fill();
      is_ready_ = true;
    }
    interests_.push_back(connection == nullptr ? pollfd{.fd = -1, .events = 0, .revents = 0}
                                               : connection->Interest());
  }
}

void TcpLinks::AwaitChange(uint32_t /*ticket*/, absl::Duration longest) {
  const timespec timeout =
      absl::ToTimespec(is_ready_ ? absl::ZeroDuration() : std::max(longest, absl::ZeroDuration()));
  ::ppoll(interests_.data(), interests_.size(), &timeout, nullptr);
}

void TcpLinks::Absorb() {
  // Bytes that no operation waits for are read too, or they would end every wait at once.
  for (size_t rank = 0; rank < interests_.size(); ++rank) {
    if ((interests_[rank].revents & ~POLLOUT) != 0) connections_[rank]->Fill();
  }
}

}  // namespace parplan
