#include "executor/device/comm/tls_session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/steady_clock.h"
#include "tests/executor/device/comm/raw_rank.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

const std::string& TlsKey() {
  static const std::string key(kTlsKeySize, 'k');
  return key;
}

std::pair<Socket, Socket> SocketPair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

// Moves what has arrived at one socket to another. `alter` may change it.
void Carry(const Socket& from, const Socket& to, const std::function<void(std::string&)>& alter) {
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
std::string LongText(size_t size) {
  std::string text(size, ' ');
  uint32_t state = 1;
  for (char& letter : text) {
    state = state * 1664525 + 1013904223;
    letter = static_cast<char>(state >> 24);
  }
  return text;
}

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

TEST(TlsSession, AnotherKeyIsRefusedByBothSides) {
  TlsPair pair(nullptr, nullptr, std::string(kTlsKeySize, 'x'));
  ASSERT_OK(pair.client().Handshake());
  pair.Carry();
  EXPECT_THAT(pair.server().Handshake().status(), StatusIs(absl::StatusCode::kDataLoss));
  pair.Carry();
  EXPECT_THAT(pair.client().Handshake().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("altered on its way")));
  // For good.
  EXPECT_THAT(pair.server().Handshake().status(), StatusIs(absl::StatusCode::kDataLoss));
}

// Somebody who carries the proofs from one side to the other, and then speaks for the server.
TEST(TlsSession, ACertificateIsNoKey) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  ASSERT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  auto [ours, theirs] = SocketPair();
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TlsSession> client,
                       TlsSession::Start(TlsSide::kClient, ours.descriptor(), TlsKey()));
  const std::unique_ptr<SSL, decltype(&SSL_free)> impostor(SSL_new(context.get()), &SSL_free);
  ASSERT_EQ(::fcntl(theirs.descriptor(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(SSL_set_fd(impostor.get(), theirs.descriptor()), 1);
  absl::StatusOr<bool> done = false;
  for (int round = 0; round < 6 && done.ok() && !*done; ++round) {
    done = client->Handshake();
    (void)SSL_accept(impostor.get());
  }
  EXPECT_THAT(done.status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("certificate")));
}

// No side exchanges data after a byte of the handshake was altered, whichever byte that is.
TEST(TlsSession, NoByteOfAHandshakeCanBeAltered) {
  TlsPair plain;
  ASSERT_OK(plain.Shake());
  for (int side = 0; side < 2; ++side) {
    const size_t size = plain.HeardBy(side).size();
    for (size_t place = 0; place < size; ++place) {
      // The version of the first record, which means nothing: TLS 1.3 has readers ignore it.
      if (place == 2) continue;
      const TlsPair::Alter alter = [place](std::string& bytes, size_t offset) {
        if (place >= offset && place < offset + bytes.size()) bytes[place - offset] ^= 1;
      };
      TlsPair pair(side == 0 ? alter : nullptr, side == 1 ? alter : nullptr);
      std::array<bool, 2> is_done = {false, false};
      for (int round = 0; round < 4; ++round) {
        is_done[0] = is_done[0] || pair.client().Handshake().value_or(false);
        pair.Carry();
        is_done[1] = is_done[1] || pair.server().Handshake().value_or(false);
        pair.Carry();
      }
      EXPECT_FALSE(is_done[1]) << "byte " << place << " to side " << side;
    }
  }
}

TEST(TlsSession, AnAlteredByteOfDataIsFoundByBothSides) {
  for (const size_t place : {size_t{0}, size_t{4}, size_t{5}, size_t{700}, size_t{1021}}) {
    bool is_armed = false;
    TlsPair pair(nullptr, [&](std::string& bytes, size_t) {
      if (std::exchange(is_armed, false)) bytes[place] ^= 0x40;
    });
    ASSERT_OK(pair.Shake());
    is_armed = true;
    // A record: 5 bytes of header, the text, its type and 16 bytes of tag.
    EXPECT_THAT(pair.Say(0, LongText(1000)), testing::Not(IsOkAndHolds(LongText(1000)))) << place;
    // A longer or shorter record ends with what follows.
    const absl::Status found = pair.Say(0, LongText(100'000)).status();
    EXPECT_THAT(found, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("altered"))) << place;
    pair.Carry();
    char byte = 0;
    EXPECT_THAT(pair.client().Receive(&byte, 1).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("altered on its way")))
        << place;
  }
}

TEST(TlsSession, ARecordThatIsRepeatedOrLeftOutIsFound) {
  for (const bool is_repeated : {true, false}) {
    bool is_armed = false;
    TlsPair pair(nullptr, [&](std::string& bytes, size_t) {
      if (!std::exchange(is_armed, false)) return;
      bytes = is_repeated ? bytes + bytes : "";
    });
    ASSERT_OK(pair.Shake());
    is_armed = true;
    (void)pair.Say(0, "first");
    EXPECT_THAT(pair.Say(0, "second"), StatusIs(absl::StatusCode::kDataLoss)) << is_repeated;
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

// Returns a secret that TLS derives from another (RFC 8446, section 7.1).
std::string ExpandLabel(const std::string& secret, const std::string& label, size_t size) {
  std::string info = {'\0', static_cast<char>(size), static_cast<char>(label.size() + 6)};
  info += "tls13 " + label + std::string(1, '\0');
  std::string text = info + "\1";
  std::array<unsigned char, EVP_MAX_MD_SIZE> block;
  unsigned int block_size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), block.data(), &block_size);
  return std::string(reinterpret_cast<const char*>(block.data()), size);
}

// Returns a first record that holds a part of a handshake message. It is encrypted with the secret
// of the client, so only a side of the connection can send it.
std::string PartOfAMessage(const std::string& client_secret) {
  const std::string key = ExpandLabel(client_secret, "key", 16);
  const std::string nonce = ExpandLabel(client_secret, "iv", 12);
  // The first four bytes of a KeyUpdate of five, and the type of all such messages.
  const std::string text("\x18\0\0\1\x16", 5);
  std::string record("\x17\3\3\0\x15", 5);
  std::array<unsigned char, 5> sealed;
  std::array<unsigned char, 16> tag;
  int size = 0;
  const auto bytes = [](const std::string& each) {
    return reinterpret_cast<const unsigned char*>(each.data());
  };
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nullptr, bytes(key), bytes(nonce));
  EVP_EncryptUpdate(context, nullptr, &size, bytes(record), 5);
  EVP_EncryptUpdate(context, sealed.data(), &size, bytes(text), 5);
  EVP_EncryptFinal_ex(context, sealed.data() + size, &size);
  EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, tag.data());
  EVP_CIPHER_CTX_free(context);
  record.append(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  record.append(reinterpret_cast<const char*>(tag.data()), tag.size());
  return record;
}

// A rank may do so; the other must neither abort nor wait for the rest without a pause.
TEST(TlsSession, APartOfAMessageAboutTheConnectionEndsIt) {
  for (const int64_t records_per_key : {int64_t{0}, TlsSession::kRecordsPerKey}) {
    auto [ours, theirs] = SocketPair();
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<TlsSession> server,
        TlsSession::Start(TlsSide::kServer, ours.descriptor(), TlsKey(), "", records_per_key));
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    ASSERT_EQ(SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256"), 1);
    const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), &SSL_free);
    static std::string secret;
    SSL_CTX_set_keylog_callback(context.get(), [](const SSL*, const char* line) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words[0] == "CLIENT_TRAFFIC_SECRET_0") secret = absl::HexStringToBytes(words[2]);
    });
    SSL_set_psk_use_session_callback(
        client.get(), [](SSL* ssl, const EVP_MD*, const unsigned char** name, size_t* name_size,
                         SSL_SESSION** session) {
          constexpr unsigned char kSuite[] = {0x13, 0x01};
          *session = SSL_SESSION_new();
          SSL_SESSION_set1_master_key(
              *session, reinterpret_cast<const unsigned char*>(TlsKey().data()), TlsKey().size());
          SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, kSuite));
          SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
          *name = reinterpret_cast<const unsigned char*>("parplan tls 1");
          *name_size = 13;
          return 1;
        });
    ASSERT_EQ(::fcntl(theirs.descriptor(), F_SETFL, O_NONBLOCK), 0);
    ASSERT_EQ(SSL_set_fd(client.get(), theirs.descriptor()), 1);
    absl::StatusOr<bool> done = false;
    for (int round = 0; round < 6 && done.ok() && !*done; ++round) {
      (void)SSL_connect(client.get());
      done = server->Handshake();
    }
    ASSERT_THAT(done, IsOkAndHolds(true));
    ASSERT_OK(theirs.WriteAll(PartOfAMessage(secret), SteadyNow() + kLong));
    char byte = 0;
    EXPECT_THAT(server->Receive(&byte, 1), IsOkAndHolds(0));
    EXPECT_THAT(server->Send("text"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("protocol")));
  }
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

TEST(TlsSession, OnlyWhatArrivedIsCalledAltered) {
  EXPECT_THAT(StatusOfTlsError(ERR_PACK(ERR_LIB_SSL, 0, ERR_R_MALLOC_FAILURE)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("memory")));
  EXPECT_THAT(StatusOfTlsError(ERR_PACK(ERR_LIB_SSL, 0, ERR_R_INTERNAL_ERROR)),
              StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(StatusOfTlsError(ERR_PACK(ERR_LIB_SSL, 0, SSL_R_BAD_RECORD_TYPE)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("what arrived")));
  EXPECT_THAT(StatusOfTlsError(ERR_PACK(ERR_LIB_SSL, 0, SSL_R_SSLV3_ALERT_BAD_RECORD_MAC)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the other side received")));
}

}  // namespace
}  // namespace parplan
