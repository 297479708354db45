#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/reserved_port.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReservedPort, IsGivenToAServerThatNamesItAndToNobodyElse) {
  const ReservedPort reserved;
  EXPECT_NE(reserved.number(), ReservedPort().number());
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(reserved.number()));
  EXPECT_EQ(::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(server, 1), 0);
  ::close(server);
}

TEST(StatusMatchers, DistinguishOkFromError) {
  EXPECT_OK(absl::OkStatus());
  EXPECT_OK(absl::StatusOr<int>(3));
  EXPECT_THAT(absl::InternalError("x"), Not(IsOk()));
  EXPECT_THAT(absl::StatusOr<int>(absl::InternalError("x")), Not(IsOk()));
}

TEST(StatusMatchers, CompareCodeAndMessage) {
  const absl::StatusOr<int> result = absl::NotFoundError("no plan 7");
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound, HasSubstr("plan")));
  EXPECT_THAT(result, Not(StatusIs(absl::StatusCode::kNotFound, HasSubstr("profile"))));
  EXPECT_THAT(result, Not(StatusIs(absl::StatusCode::kInternal)));
}

TEST(StatusMatchers, LookInsideAResult) {
  EXPECT_THAT(absl::StatusOr<int>(3), IsOkAndHolds(3));
  EXPECT_THAT(absl::StatusOr<std::string>("three"), IsOkAndHolds(HasSubstr("hre")));
  EXPECT_THAT(absl::StatusOr<int>(absl::InternalError("x")), Not(IsOkAndHolds(3)));
}

TEST(StatusMatchers, AssignMovesOutOfTheResult) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<int> value,
                       absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(3)));
  EXPECT_EQ(*value, 3);
}

TEST(SharedDataDir, IsNothingWhereTheNamedFolderIsAbsent) {
  const char* const before = std::getenv("PARPLAN_SHARED_DATA");
  const std::optional<std::string> saved =
      before == nullptr ? std::nullopt : std::optional<std::string>(before);
  setenv("PARPLAN_SHARED_DATA", (testing::TempDir() + "/absent").c_str(), 1);
  EXPECT_EQ(SharedDataDir(), std::nullopt);
  setenv("PARPLAN_SHARED_DATA", testing::TempDir().c_str(), 1);
  EXPECT_NE(SharedDataDir(), std::nullopt);
  if (saved) {
    setenv("PARPLAN_SHARED_DATA", saved->c_str(), 1);
  } else {
    unsetenv("PARPLAN_SHARED_DATA");
  }
}

}  // namespace
}  // namespace parplan
