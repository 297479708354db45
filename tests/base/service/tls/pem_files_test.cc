#include "base/service/tls/pem_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/system/openssl_handles.h"
#include "tests/base/service/tls/test_certificate.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kDamaged[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

const absl::Time kStart = absl::FromUnixSeconds(1900000000);
const absl::Time kNow = kStart + absl::Hours(24);
const absl::Time kEnd = kStart + absl::Hours(48);

// Returns the key in `pem` under a passphrase.
std::string Encrypted(const std::string& pem) {
  const BioHandle in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const KeyHandle key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  const BioHandle out(BIO_new(BIO_s_mem()));
  char passphrase[] = "secret";
  PEM_write_bio_PKCS8PrivateKey(out.get(), key.get(), EVP_aes_256_cbc(), passphrase,
                                static_cast<int>(sizeof(passphrase) - 1), nullptr, nullptr);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

class PemFilesTest : public testing::Test {
 protected:
  // Writes a file of the test and returns its path.
  std::string File(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  const TestCertificate own_ = MakeTestCertificate(kStart, kEnd);
  const TestCertificate other_ = MakeTestCertificate(kStart, kEnd);
  const std::string folder_ = MakeTestFolder();
};

// Expects an error that names the setting `field` and says `part`.
template <typename Result>
void ExpectRefused(const Result& result, const std::string& field, const std::string& part) {
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr(field + ": "), HasSubstr(part))));
  ASSERT_TRUE(GetErrorDetail(result.status()).has_value());
  EXPECT_EQ(GetErrorDetail(result.status())->reason, Reason::kSpecInvalid);
}

TEST_F(PemFilesTest, ReadsAllCertificatesOfAFile) {
  const std::string text = own_.certificate + other_.certificate;
  EXPECT_THAT(ReadCertificates("tls_ca", File("ca.pem", text)), IsOkAndHolds(text));
}

TEST_F(PemFilesTest, TheEndOfATextIsThatOfItsFirstCertificate) {
  const TestCertificate later = MakeTestCertificate(kStart, kEnd + absl::Hours(1));
  EXPECT_EQ(EndOfCertificate(own_.certificate + later.certificate), kEnd);
  EXPECT_EQ(EndOfCertificate(later.certificate + own_.certificate), kEnd + absl::Hours(1));
  EXPECT_EQ(EndOfCertificate(""), std::nullopt);
  EXPECT_EQ(EndOfCertificate(kDamaged), std::nullopt);
}

TEST_F(PemFilesTest, RefusesAFileWithoutACertificate) {
  ExpectRefused(ReadCertificates("tls_ca", ""), "tls_ca", "is missing");
  ExpectRefused(ReadCertificates("tls_ca", folder_ + "/none.pem"), "tls_ca", "none.pem");
  for (const std::string& text : {std::string(), std::string("no PEM\n"), own_.key}) {
    const std::string path = File("ca.pem", text);
    ExpectRefused(ReadCertificates("tls_ca", path), "tls_ca", path + "` holds no CERTIFICATE");
  }
}

// Nobody writes to the pipe: a read of it would not end. Links are followed, to a pipe as well.
TEST_F(PemFilesTest, RefusesAPipeWithoutWaitingForAWriter) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string link = folder_ + "/link";
  ASSERT_EQ(::symlink("pipe", link.c_str()), 0);
  const std::string certificate = File("c.pem", own_.certificate);
  const std::string key = File("k.pem", own_.key);
  for (const std::string& path : {pipe, link}) {
    ExpectRefused(ReadCertificates("tls_ca", path), "tls_ca", "no regular file");
    ExpectRefused(ReadTlsKeyPair(path, key, kNow), "tls_certificate", "no regular file");
    ExpectRefused(ReadTlsKeyPair(certificate, path, kNow), "tls_key", "no regular file");
  }
  const std::string linked = folder_ + "/linked";
  ASSERT_EQ(::symlink("c.pem", linked.c_str()), 0);
  EXPECT_OK(ReadTlsKeyPair(linked, key, kNow));
}

TEST_F(PemFilesTest, RefusesADamagedCertificateBehindAWholeOne) {
  const std::string path = File("ca.pem", own_.certificate + kDamaged);
  ExpectRefused(ReadCertificates("tls_ca", path), "tls_ca", path + "` holds a damaged CERTIFICATE");
}

// gRPC reads them as certificates, and nothing behind one that is damaged.
TEST_F(PemFilesTest, ATrustedCertificateIsOneToo) {
  const auto trusted = [](const std::string& pem) {
    return absl::StrReplaceAll(pem, {{"BEGIN CERTIFICATE", "BEGIN TRUSTED CERTIFICATE"},
                                     {"END CERTIFICATE", "END TRUSTED CERTIFICATE"}});
  };
  const std::string whole = own_.certificate + trusted(other_.certificate);
  EXPECT_THAT(ReadCertificates("tls_ca", File("ca.pem", whole)), IsOkAndHolds(whole));
  const std::string path =
      File("torn.pem", own_.certificate + trusted(kDamaged) + other_.certificate);
  ExpectRefused(ReadCertificates("tls_ca", path), "tls_ca", path + "` holds a damaged CERTIFICATE");
  // The first of a chain is the holder's own, whatever it is called.
  const std::string chain = File("c.pem", trusted(other_.certificate) + own_.certificate);
  ExpectRefused(ReadTlsKeyPair(chain, File("k.pem", own_.key), kNow), "tls_key",
                "is not the key of the first certificate");
}

TEST_F(PemFilesTest, ReadsACertificateWithItsChainAndItsKey) {
  const std::string chain = own_.certificate + other_.certificate;
  ASSERT_OK_AND_ASSIGN(const TlsKeyPair pair,
                       ReadTlsKeyPair(File("c.pem", chain), File("k.pem", own_.key), kNow));
  EXPECT_EQ(pair.certificates, chain);
  EXPECT_EQ(pair.key, own_.key);
}

TEST_F(PemFilesTest, RefusesTheKeyOfAnotherCertificate) {
  const std::string certificate = File("c.pem", own_.certificate + other_.certificate);
  ExpectRefused(ReadTlsKeyPair(certificate, File("k.pem", other_.key), kNow), "tls_key",
                "is not the key of the first certificate in `" + certificate);
}

TEST_F(PemFilesTest, RefusesAKeyThatIsMissingOrEncrypted) {
  const std::string certificate = File("c.pem", own_.certificate);
  ExpectRefused(ReadTlsKeyPair(certificate, "", kNow), "tls_key", "is missing");
  for (const std::string& text : {std::string("no PEM\n"), Encrypted(own_.key)}) {
    ExpectRefused(ReadTlsKeyPair(certificate, File("k.pem", text), kNow), "tls_key",
                  "holds no unencrypted PRIVATE KEY");
  }
}

TEST_F(PemFilesTest, RefusesACertificateOutsideItsTime) {
  const std::string certificate = File("c.pem", own_.certificate);
  const std::string key = File("k.pem", own_.key);
  EXPECT_OK(ReadTlsKeyPair(certificate, key, kStart));
  EXPECT_OK(ReadTlsKeyPair(certificate, key, kEnd));
  ExpectRefused(ReadTlsKeyPair(certificate, key, kEnd + absl::Seconds(1)), "tls_certificate",
                "expired on 2030-03-19T17:46:40");
  ExpectRefused(ReadTlsKeyPair(certificate, key, kStart - absl::Seconds(1)), "tls_certificate",
                "is not valid before 2030-03-17T17:46:40");
}

}  // namespace
}  // namespace parplan
