#include "executor/device/comm/tls_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/socket.h"
#include "tests/executor/device/comm/tls_pair.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

TEST(TlsSession, AllBytesArriveInOrderAndNoneIsOnTheWire) {
  TlsPair pair;
  ASSERT_OK(pair.Shake());
  const std::string secret = "the gradient of a secret model";
  const std::string text = secret + LongText(1'000'000);
  EXPECT_THAT(pair.Say(0, text), IsOkAndHolds(text));
  EXPECT_THAT(pair.Say(1, text), IsOkAndHolds(text));
  EXPECT_THAT(pair.Say(0, "x"), IsOkAndHolds("x"));
  for (int side = 0; side < 2; ++side) {
    EXPECT_GT(pair.HeardBy(side).size(), text.size());
    EXPECT_FALSE(absl::StrContains(pair.HeardBy(side), secret));
    EXPECT_FALSE(absl::StrContains(pair.HeardBy(side), TlsKey()));
  }
}

TEST(TlsSession, TheKeyOfALongConnectionChanges) {
  TlsPair pair(nullptr, nullptr, TlsKey(), /*records_per_key=*/3);
  ASSERT_OK(pair.Shake());
  const std::string text = LongText(1'000'000);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THAT(pair.Say(0, text), IsOkAndHolds(text));
    EXPECT_THAT(pair.Say(1, text), IsOkAndHolds(text));
  }
}

// A record may be encrypted whole and leave in parts, while the caller offers fewer bytes.
TEST(TlsSession, ASlowConnectionTakesEachByteOnce) {
  auto [ours, theirs] = SocketPair();
  const int size = 4096;
  ASSERT_EQ(::setsockopt(ours.descriptor(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TlsSession> client,
                       TlsSession::Start(TlsSide::kClient, ours.descriptor(), TlsKey()));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TlsSession> server,
                       TlsSession::Start(TlsSide::kServer, theirs.descriptor(), TlsKey()));
  EXPECT_THAT(client->Handshake(), IsOkAndHolds(false));
  EXPECT_THAT(server->Handshake(), IsOkAndHolds(false));
  EXPECT_THAT(client->Handshake(), IsOkAndHolds(true));
  EXPECT_THAT(server->Handshake(), IsOkAndHolds(true));
  const std::string text = LongText(300'000);
  std::string heard;
  size_t sent = 0;
  int full_count = 0;
  for (int round = 0; round < 100'000 && heard.size() < text.size(); ++round) {
    // Offers all, and then pieces of some bytes.
    const size_t offered = round % 3 == 0 ? text.size() : 7;
    ASSERT_OK_AND_ASSIGN(const int64_t count,
                         client->Send(absl::string_view(text).substr(sent, offered)));
    sent += count;
    if (count == 0 && sent < text.size()) ++full_count;
    std::array<char, 1000> bytes;
    ASSERT_OK_AND_ASSIGN(const int64_t read, server->Receive(bytes.data(), bytes.size()));
    heard.append(bytes.data(), read);
  }
  EXPECT_GT(full_count, 0);
  EXPECT_EQ(heard, text);
}

TEST(TlsSession, AnEndIsNoAlteration) {
  auto [ours, theirs] = SocketPair();
  ASSERT_OK(ours.StartTls(TlsSide::kClient, TlsKey()));
  EXPECT_THAT(ours.ContinueTls(), IsOkAndHolds(false));
  theirs.Close();
  EXPECT_THAT(ours.ContinueTls(), StatusIs(absl::StatusCode::kUnavailable));
}

// One thread reads while another writes, at both ends.
TEST(TlsSession, BothDirectionsMoveAtTheSameTime) {
  auto [first, second] = SocketPair();
  std::thread server([&second = second] {
    EXPECT_OK(second.FinishTls(TlsSide::kServer, TlsKey(), SteadyNow() + kLong));
  });
  ASSERT_OK(first.FinishTls(TlsSide::kClient, TlsKey(), SteadyNow() + kLong));
  server.join();
  const std::string text = LongText(2'000'000);
  std::vector<std::thread> threads;
  for (const Socket* const socket : {&first, &second}) {
    threads.emplace_back(
        [&text, socket] { EXPECT_OK(socket->WriteAll(text, SteadyNow() + kLong)); });
    threads.emplace_back([&text, socket] {
      std::string heard(text.size(), ' ');
      EXPECT_OK(
          socket->ReadAll(heard.data(), static_cast<int64_t>(heard.size()), SteadyNow() + kLong));
      EXPECT_EQ(heard, text);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two sockets between which TLS is set up; the first has a small buffer to send.
std::pair<Socket, Socket> SecuredPair() {
  std::pair<Socket, Socket> pair = SocketPair();
  const int size = 4096;
  EXPECT_EQ(::setsockopt(pair.first.descriptor(), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
  EXPECT_OK(pair.first.StartTls(TlsSide::kClient, TlsKey()));
  EXPECT_OK(pair.second.StartTls(TlsSide::kServer, TlsKey()));
  EXPECT_THAT(pair.first.ContinueTls(), IsOkAndHolds(false));
  EXPECT_THAT(pair.second.ContinueTls(), IsOkAndHolds(false));
  EXPECT_THAT(pair.first.ContinueTls(), IsOkAndHolds(true));
  EXPECT_THAT(pair.second.ContinueTls(), IsOkAndHolds(true));
  return pair;
}

// Else the bytes of the next message would count as those that are encrypted already.
TEST(TlsSession, NoMessageFollowsOneThatRanOutOfTime) {
  auto [ours, theirs] = SecuredPair();
  EXPECT_THAT(ours.WriteAll(LongText(1'000'000), SteadyNow()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::array<char, 1 << 16> bytes;
  while (theirs.Receive(bytes.data(), bytes.size()).value() > 0) {
  }
  EXPECT_THAT(ours.WriteAll("next", SteadyNow() + kLong),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in time")));
  // The other direction goes on.
  ASSERT_OK(theirs.WriteAll("back", SteadyNow() + kLong));
  std::string back(4, ' ');
  ASSERT_OK(ours.ReadAll(back.data(), 4, SteadyNow() + kLong));
  EXPECT_EQ(back, "back");
}

// The last words of a process that has ended say why.
TEST(TlsSession, WhatArrivedBeforeAFailedSendCanBeRead) {
  auto [ours, theirs] = SecuredPair();
  ASSERT_OK(theirs.WriteAll("the reason", SteadyNow() + kLong));
  theirs.Close();
  EXPECT_THAT(ours.WriteAll("x", SteadyNow() + kLong), StatusIs(absl::StatusCode::kUnavailable));
  std::string reason(10, ' ');
  ASSERT_OK(ours.ReadAll(reason.data(), 10, SteadyNow() + kLong));
  EXPECT_EQ(reason, "the reason");
  char byte = 0;
  EXPECT_THAT(ours.Receive(&byte, 1), StatusIs(absl::StatusCode::kUnavailable));
}

// The socket does not become readable for it.
TEST(TlsSession, AnErrorThatFollowsBytesIsPending) {
  bool is_armed = false;
  TlsPair pair(nullptr, [&](std::string& bytes, size_t) {
    if (is_armed) bytes.back() ^= 1;
  });
  ASSERT_OK(pair.Shake());
  ASSERT_THAT(pair.client().Send("good"), IsOkAndHolds(4));
  ASSERT_THAT(pair.client().Send("bad"), IsOkAndHolds(3));
  is_armed = true;
  pair.Carry();
  std::array<char, 100> bytes;
  EXPECT_THAT(pair.server().Receive(bytes.data(), bytes.size()), IsOkAndHolds(4));
  EXPECT_TRUE(pair.server().has_pending());
  EXPECT_THAT(pair.server().Receive(bytes.data(), bytes.size()),
              StatusIs(absl::StatusCode::kDataLoss));
}

// Ends the process with 0 if two ranks talk, else with 1 after the reason.
void TalkAndExit() {
  TlsPair pair;
  const absl::Status shaken = pair.Shake();
  const bool is_heard = shaken.ok() && pair.Say(0, "text").value_or("") == "text";
  std::fprintf(stderr, "%s\n", shaken.ToString().c_str());
  std::exit(is_heard ? 0 : 1);
}

// Each has a process of its own, since OpenSSL reads its configuration once.
TEST(TlsSession, TheConfigurationOfOpensslEndsNoJob) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = testing::TempDir() + "/openssl.cnf";
  const auto configure = [&path](const std::string& settings) {
    std::ofstream(path) << "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\n"
                        << "system_default = system\n[system]\n"
                        << settings << "\n";
  };
  ASSERT_EQ(::setenv("OPENSSL_CONF", path.c_str(), 1), 0);
  for (const char* const harmless :
       {"MaxProtocol = TLSv1.2", "MinProtocol = TLSv1.1", "Groups = P-384",
        "Ciphersuites = TLS_CHACHA20_POLY1305_SHA256", "Options = ServerPreference",
        "Protocol = -TLSv1.3"}) {
    configure(harmless);
    EXPECT_EXIT(TalkAndExit(), testing::ExitedWithCode(0), "OK") << harmless;
  }
  // The administrator wants 256 bits.
  configure("CipherString = DEFAULT@SECLEVEL=5");
  EXPECT_EXIT(TalkAndExit(), testing::ExitedWithCode(1), "INTERNAL: the settings of OpenSSL");
  ASSERT_EQ(::unsetenv("OPENSSL_CONF"), 0);
}

}  // namespace
}  // namespace parplan
