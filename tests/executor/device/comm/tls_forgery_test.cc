// In these TLS sessions somebody between the two sides, or one of them, alters, repeats, leaves out
// or makes up bytes.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/tls_session.h"
#include "tests/executor/device/comm/tls_pair.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

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
