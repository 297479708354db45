#include "base/service/metrics/certificate_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/service/tls/test_certificate.h"

namespace parplan {
namespace {

using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

// Returns a certificate that ends at `end`.
std::string Certificate(absl::Time end) {
  return MakeTestCertificate(absl::UnixEpoch(), end).certificate;
}

const absl::Time kFirst = absl::FromUnixSeconds(1900000000);
const absl::Time kSecond = absl::FromUnixSeconds(2000000000);

TEST(EarliestExpiry, IsThatOfTheFirstToEnd) {
  EXPECT_THAT(EarliestExpiry(Certificate(kFirst)), Optional(kFirst));
  EXPECT_THAT(EarliestExpiry(Certificate(kSecond) + Certificate(kFirst)), Optional(kFirst));
  EXPECT_EQ(EarliestExpiry(""), std::nullopt);
  EXPECT_EQ(EarliestExpiry("-----BEGIN CERTIFICATE-----\nanything\n"), std::nullopt);
}

class CertificateMetricsTest : public testing::Test {
 protected:
  CertificateMetricsTest() { std::filesystem::create_directories(folder_); }
  ~CertificateMetricsTest() override { std::filesystem::remove_all(folder_); }

  // Writes the file and makes it look changed, whatever the clock of the disk.
  void Write(const std::string& text) {
    std::ofstream(path()) << text;
    changed_ += std::chrono::seconds(2);
    std::filesystem::last_write_time(path(), changed_);
  }
  std::string path() const { return (folder_ / "server.pem").string(); }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("certificates_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "_" +
       std::to_string(getpid()));
  std::filesystem::file_time_type changed_ = std::filesystem::file_time_type::clock::now();
};

TEST_F(CertificateMetricsTest, FollowsTheFileAndKeepsWhatItSaidLast) {
  EXPECT_EQ(MakeCertificateMetrics({{"certificate", ""}}), nullptr);
  const auto metrics = MakeCertificateMetrics({{"certificate", path()}, {"client_ca", ""}});
  EXPECT_THAT(metrics->Collect(), IsEmpty());
  Write(Certificate(kFirst));
  std::vector<prometheus::MetricFamily> families = metrics->Collect();
  ASSERT_THAT(families, SizeIs(1));
  EXPECT_EQ(families[0].name, "parplan_tls_certificate_expiry_timestamp_seconds");
  ASSERT_THAT(families[0].metric, SizeIs(1));
  EXPECT_EQ(families[0].metric[0].label[0].value, "certificate");
  EXPECT_EQ(families[0].metric[0].gauge.value, 1900000000.0);
  Write(Certificate(kSecond));
  EXPECT_EQ(metrics->Collect()[0].metric[0].gauge.value, 2000000000.0);
  Write("half of a certifi");
  EXPECT_EQ(metrics->Collect()[0].metric[0].gauge.value, 2000000000.0);
  std::filesystem::remove(path());
  EXPECT_EQ(metrics->Collect()[0].metric[0].gauge.value, 2000000000.0);
  // Nobody writes to the pipe.
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(metrics->Collect()[0].metric[0].gauge.value, 2000000000.0);
}

}  // namespace
}  // namespace parplan
