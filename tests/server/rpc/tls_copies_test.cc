#include "server/rpc/tls_copies.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "tests/base/service/tls/test_certificate.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class TlsCopiesTest : public testing::Test {
 protected:
  TlsCopiesTest() {
    files_.certificate = testing::TempDir() + "/copies.pem";
    files_.key = testing::TempDir() + "/copies.key";
    files_.client_ca = files_.certificate;
  }

  void Write(const std::string& certificate, const std::string& key) {
    std::ofstream(files_.certificate) << certificate;
    std::ofstream(files_.key) << key;
  }

  static TestCertificate Make() {
    return MakeTestCertificate(kNow - absl::Hours(1), kNow + absl::Hours(1));
  }

  TlsFiles files_;
};

TEST_F(TlsCopiesTest, FollowFilesThatAreGood) {
  const TestCertificate first = Make();
  Write(first.certificate, first.key);
  ASSERT_OK_AND_ASSIGN(const auto copies, TlsCopies::Make(files_, kNow));
  EXPECT_EQ(Read(copies->copies().certificate), first.certificate);
  EXPECT_EQ(Read(copies->copies().key), first.key);
  EXPECT_EQ(Read(copies->copies().client_ca), first.certificate);
  const TestCertificate second = Make();
  Write(second.certificate, second.key);
  ASSERT_OK(copies->Refresh(kNow));
  EXPECT_EQ(Read(copies->copies().certificate), second.certificate);
  EXPECT_EQ(Read(copies->copies().key), second.key);
  EXPECT_EQ(Read(copies->copies().client_ca), second.certificate);
}

TEST_F(TlsCopiesTest, KeepTheLastGoodPair) {
  const TestCertificate first = Make();
  Write(first.certificate, first.key);
  ASSERT_OK_AND_ASSIGN(const auto copies, TlsCopies::Make(files_, kNow));
  for (const auto& [certificate, key] :
       {std::pair(first.certificate, Make().key), std::pair(Make().certificate, first.key),
        std::pair(std::string("garbage"), first.key), std::pair(std::string(), std::string())}) {
    Write(certificate, key);
    EXPECT_THAT(copies->Refresh(kNow), StatusIs(StatusCode::kInvalidArgument, HasSubstr("tls_")));
    EXPECT_EQ(Read(copies->copies().certificate), first.certificate);
    EXPECT_EQ(Read(copies->copies().key), first.key);
    EXPECT_EQ(Read(copies->copies().client_ca), first.certificate);
  }
}

// Memory for the certificate is missing, as that for the CA, or just for the last of the files.
TEST_F(TlsCopiesTest, KeepTheLastGoodPairWhenMemoryIsShort) {
  const TestCertificate first = Make();
  Write(first.certificate, first.key);
  files_.client_ca = testing::TempDir() + "/copies.ca";
  std::ofstream(files_.client_ca) << first.certificate;
  ASSERT_OK_AND_ASSIGN(const auto copies, TlsCopies::Make(files_, kNow));
  const TestCertificate second = Make();
  // A chain is longer than the key.
  const std::string chain = second.certificate + second.certificate + second.certificate;
  Write(chain, second.key);
  for (const size_t room : {size_t{10}, chain.size() - 1}) {
    const FileSizeLimit limit(room);
    EXPECT_THAT(copies->Refresh(kNow), StatusIs(StatusCode::kUnavailable));
    EXPECT_EQ(Read(copies->copies().certificate), first.certificate);
    EXPECT_EQ(Read(copies->copies().key), first.key);
    EXPECT_EQ(Read(copies->copies().client_ca), first.certificate);
  }
  ASSERT_OK(copies->Refresh(kNow));
  EXPECT_EQ(Read(copies->copies().certificate), chain);
  EXPECT_EQ(Read(copies->copies().key), second.key);
}

TEST_F(TlsCopiesTest, NothingBeginsWithoutAGoodPair) {
  Write("garbage", Make().key);
  EXPECT_THAT(TlsCopies::Make(files_, kNow),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tls_certificate")));
}

}  // namespace
}  // namespace parplan
