#include "server/rpc/tls_copies.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "tests/base/service/tls/test_certificate.h"
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

TEST_F(TlsCopiesTest, NothingBeginsWithoutAGoodPair) {
  Write("garbage", Make().key);
  EXPECT_THAT(TlsCopies::Make(files_, kNow),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("tls_certificate")));
}

}  // namespace
}  // namespace parplan
