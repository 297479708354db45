#include "server/rpc/self_probe.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/system/clock.h"

namespace parplan {
namespace {

// The preface of HTTP/2 and settings without a value.
constexpr char kHttp2Hello[] =
    "505249202a20485454502f322e300d0a0d0a534d0d0a0d0a"
    "000000040000000000";

// A ClientHello of TLS 1.2 with the cipher suites and curves that every server of it has. It is
// never followed by anything, so its random bytes need not be random.
constexpr char kTlsHello[] =
    "1603010059"                        // A record of a handshake.
    "010000550303"                      // ClientHello.
    "000102030405060708090a0b0c0d0e0f"  // 32 random bytes.
    "101112131415161718191a1b1c1d1e1f"
    "00"                    // No session.
    "0008c02bc02fc02cc030"  // ECDHE with ECDSA or RSA, AES-GCM of 128 or 256 bits.
    "0100"                  // No compression.
    "0024"
    "000a00080006001d00170018"              // Curves: X25519, P-256, P-384.
    "000b00020100"                          // Points without compression.
    "000d000e000c040305030603040105010601"  // ECDSA and RSA with SHA-256, 384 and 512.
    ;

// Waits until `end` on the steady clock for `events`. Returns whether they came.
bool WaitFor(int descriptor, int16_t events, absl::Duration end) {
  while (true) {
    const absl::Duration left = end - Clock::Real().Steady();
    pollfd watched = {descriptor, events, 0};
    const int64_t wait = std::max<int64_t>(0, absl::ToInt64Milliseconds(left));
    const int count = poll(&watched, 1, static_cast<int>(wait));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

absl::Status Deaf(absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("this server does not answer on its own address: ", why));
}

}  // namespace

absl::Status ProbeListener(const ListenerAddress& listener, bool uses_tls, absl::Duration timeout) {
  const absl::Duration end = Clock::Real().Steady() + timeout;
  const FileDescriptor probe(
      socket(listener.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  // A process without a descriptor left still answers those that are connected.
  if (!probe.is_open()) return absl::OkStatus();
  // An address of all interfaces is that of this machine here.
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&listener.address), listener.length) !=
          0 &&
      errno != EINPROGRESS) {
    return Deaf(DescribeErrno(errno, "cannot connect"));
  }
  if (!WaitFor(probe.get(), POLLOUT, end)) return Deaf("it accepts no connection");
  const std::string hello = absl::HexStringToBytes(uses_tls ? kTlsHello : kHttp2Hello);
  // The server has heard a connection that it closed.
  if (send(probe.get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) {
    return errno == EPIPE || errno == ECONNRESET ? absl::OkStatus()
                                                 : Deaf(DescribeErrno(errno, "cannot send"));
  }
  if (!WaitFor(probe.get(), POLLIN, end)) return Deaf("it says nothing to a new connection");
  return absl::OkStatus();
}

}  // namespace parplan
