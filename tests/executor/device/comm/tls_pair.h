// Two sides of a TLS session on one thread, and the wire between them, which a test may alter.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_TLS_PAIR_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_TLS_PAIR_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {

// Returns the key that both sides have.
inline const std::string& TlsKey() {
  static const std::string key(kTlsKeySize, 'k');
  return key;
}

// Returns two sockets that are connected with each other.
inline std::pair<Socket, Socket> SocketPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

// Moves what has arrived at one socket to another. `alter` may change it.
inline void Carry(const Socket& from, const Socket& to,
                  const std::function<void(std::string&)>& alter) {
  std::array<char, 1 << 16> bytes;
  const absl::StatusOr<int64_t> count = from.Receive(bytes.data(), bytes.size());
  if (!count.ok() || *count == 0) return;
  std::string text(bytes.data(), *count);
  if (alter) alter(text);
  EXPECT_OK(to.WriteAll(text, SteadyNow() + kLong));
}

// A client and a server, and the wire between them, on one thread.
class TlsPair {
 public:
  // Changes what goes to one side; the bytes that went there before are `offset`.
  using Alter = std::function<void(std::string& bytes, size_t offset)>;

  explicit TlsPair(Alter to_client = nullptr, Alter to_server = nullptr,
                   const std::string& server_key = TlsKey(),
                   int64_t records_per_key = TlsSession::kRecordsPerKey)
      : alter_{std::move(to_client), std::move(to_server)} {
    for (int side = 0; side < 2; ++side) {
      std::tie(ends_[side], wire_[side]) = SocketPair();
      auto session = TlsSession::Start(side == 0 ? TlsSide::kClient : TlsSide::kServer,
                                       ends_[side].descriptor(), side == 0 ? TlsKey() : server_key,
                                       "", records_per_key);
      EXPECT_OK(session);
      sessions_[side] = *std::move(session);
    }
  }

  TlsSession& client() { return *sessions_[0]; }
  TlsSession& server() { return *sessions_[1]; }
  // All that went to one side.
  const std::string& HeardBy(int side) const { return heard_[side]; }

  // Moves what has arrived on the wire to the other side, in both directions.
  void Carry() {
    for (int side = 0; side < 2; ++side) {
      parplan::Carry(wire_[1 - side], wire_[side], [&](std::string& bytes) {
        if (alter_[side]) alter_[side](bytes, heard_[side].size());
        heard_[side] += bytes;
      });
    }
  }
  // Shakes hands. Returns the first error of a side.
  absl::Status Shake() {
    std::array<bool, 2> is_done = {false, false};
    // Three flights; more rounds are those of an error.
    for (int round = 0; round < 6; ++round) {
      for (int side = 0; side < 2; ++side) {
        if (is_done[side]) continue;
        const absl::StatusOr<bool> done = sessions_[side]->Handshake();
        if (!done.ok()) return done.status();
        is_done[side] = *done;
        Carry();
      }
    }
    EXPECT_TRUE(is_done[0] && is_done[1]);
    return absl::OkStatus();
  }
  // Sends a text from one side, and returns what the other has read, which may be an error.
  absl::StatusOr<std::string> Say(int side, const std::string& text) {
    std::string heard;
    size_t sent = 0;
    // Each round moves a record at least, or ends with an error.
    for (int round = 0; round < 10'000 && heard.size() < text.size(); ++round) {
      if (sent < text.size()) {
        absl::StatusOr<int64_t> count =
            sessions_[side]->Send(absl::string_view(text).substr(sent, 100'000));
        if (!count.ok()) return count.status();
        sent += *count;
      }
      Carry();
      std::array<char, 3000> bytes;
      absl::StatusOr<int64_t> count = int64_t{bytes.size()};
      while (count.ok() && *count == int64_t{bytes.size()}) {
        count = sessions_[1 - side]->Receive(bytes.data(), bytes.size());
        if (!count.ok()) return count.status();
        heard.append(bytes.data(), *count);
      }
    }
    return heard;
  }

 private:
  std::array<Alter, 2> alter_;
  std::array<Socket, 2> ends_;
  std::array<Socket, 2> wire_;
  std::array<std::string, 2> heard_;
  std::array<std::unique_ptr<TlsSession>, 2> sessions_;
};

// Returns a text that does not repeat soon.
inline std::string LongText(size_t size) {
  std::string text(size, ' ');
  uint32_t state = 1;
  for (char& letter : text) {
    state = state * 1664525 + 1013904223;
    letter = static_cast<char>(state >> 24);
  }
  return text;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_TLS_PAIR_H_
