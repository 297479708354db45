#include "server/rpc/self_probe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/service/listen/listening_sockets.h"
#include "server/rpc/rpc_server.h"
#include "tests/base/service/tls/test_certificate.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(50);

// Starts a server beside the harness with these files of TLS, and probes it.
absl::Status ProbeServer(RpcHarness& harness, const std::string& listen, const TlsFiles& tls) {
  RpcServerOptions options;
  options.listen_address = listen;
  options.tls = tls;
  const absl::StatusOr<std::unique_ptr<RpcServer>> server =
      RpcServer::Start(harness.core(), options);
  if (!server.ok()) return server.status();
  return (*server)->Probe(kLong);
}

TEST(SelfProbe, AServerAnswersWithAndWithoutTls) {
  RpcHarness harness;
  EXPECT_OK(harness.server().Probe(kLong));
  const TestCertificate made =
      MakeTestCertificate(absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1));
  const std::string folder = testing::TempDir();
  TlsFiles tls;
  tls.certificate = folder + "/probe.pem";
  tls.key = folder + "/probe.key";
  std::ofstream(tls.certificate) << made.certificate;
  std::ofstream(tls.key) << made.key;
  EXPECT_OK(ProbeServer(harness, "0.0.0.0:0", tls));
  tls.client_ca = tls.certificate;
  EXPECT_OK(ProbeServer(harness, "127.0.0.1:0", tls));
  EXPECT_OK(ProbeServer(harness, absl::StrCat("unix:", folder, "/probe-", getpid(), ".socket"),
                        TlsFiles()));
}

TEST(SelfProbe, WhoAcceptsAndSaysNothingIsDeaf) {
  ASSERT_OK_AND_ASSIGN(const ListeningSockets sockets, Listen("127.0.0.1:0"));
  // The system accepts in place of the program.
  EXPECT_THAT(ProbeListener(AddressOfListener(sockets.descriptors.front()), false, kShort),
              StatusIs(StatusCode::kUnavailable, HasSubstr("says nothing")));
}

TEST(SelfProbe, WhoListensNoMoreIsDeaf) {
  ListenerAddress address;
  {
    ASSERT_OK_AND_ASSIGN(const ListeningSockets sockets, Listen("127.0.0.1:0"));
    address = AddressOfListener(sockets.descriptors.front());
  }
  EXPECT_THAT(ProbeListener(address, false, kShort), StatusIs(StatusCode::kUnavailable));
}

TEST(SelfProbe, WhoClosesTheConnectionHasHeardIt) {
  ASSERT_OK_AND_ASSIGN(const ListeningSockets sockets, Listen("127.0.0.1:0"));
  const FileDescriptor& listener = sockets.descriptors.front();
  std::thread closer([&listener] {
    FileDescriptor accepted;
    while (!accepted.is_open()) {
      accepted = FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
  });
  EXPECT_OK(ProbeListener(AddressOfListener(listener), false, kLong));
  closer.join();
}

}  // namespace
}  // namespace parplan
