// A rank of a rendezvous whose every message a test writes and reads: it answers nothing by itself.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RAW_RANK_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RAW_RANK_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/rendezvous_server.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/support/status_matchers.h"

namespace parplan {

inline constexpr absl::Duration kLong = absl::Minutes(3);

// Returns the rendezvous of a job with this number of ranks, whose token is `secret`.
inline std::unique_ptr<RendezvousServer> ServeJob(int world_size) {
  absl::StatusOr<std::unique_ptr<RendezvousServer>> server =
      RendezvousServer::Start({.token = "secret", .world_size = world_size});
  EXPECT_OK(server);
  return *std::move(server);
}

// The token is `secret`.
struct RawRank {
  RawRank(const RendezvousServer& server, int rank, int world_size) {
    absl::StatusOr<Socket> made = Socket::Connect(server.address(), SteadyNow() + kLong);
    EXPECT_OK(made.status());
    socket = *std::move(made);
    Handshake handshake = {
        .purpose = kMeetingPurpose, .caller = rank, .context = absl::StrCat(world_size)};
    EXPECT_OK(SayHello(socket, handshake, SteadyNow() + kLong));
    EXPECT_OK(ProveTo(socket, handshake, "secret", "", SteadyNow() + kLong));
    EXPECT_OK(
        socket.FinishTls(TlsSide::kClient, TlsKeyOf(handshake, "secret"), SteadyNow() + kLong));
    EXPECT_EQ(Read().kind, FrameKind::kWelcome);
  }
  void Write(const Frame& frame) const {
    EXPECT_OK(WriteFrame(socket, frame, SteadyNow() + kLong));
  }
  Frame Read() const {
    absl::StatusOr<Frame> frame = ReadFrame(socket, SteadyNow() + kLong);
    EXPECT_OK(frame.status());
    return frame.ok() ? *std::move(frame) : Frame();
  }
  // Returns once the server has heard all that was written before, and has then looked at its
  // clock.
  void Meet() const {
    for (uint32_t round = 1; round <= 2; ++round) {
      Write({.kind = FrameKind::kGet, .number = round, .key = kMissingRanks});
      EXPECT_EQ(Read().kind, FrameKind::kValue);
    }
  }

  Socket socket;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RAW_RANK_H_
