#include "server/main/server_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "base/error.h"

namespace parplan {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Returns what a log of `level` contains for a call that ended with `code` for `reason`.
std::string LineOf(const std::string& level, absl::StatusCode code, Reason reason) {
  testing::internal::CaptureStderr();
  CallRecord record;
  record.code = code;
  record.reason = reason;
  ServerLog(level, "json").LogCall(record);
  return testing::internal::GetCapturedStderr();
}

TEST(ServerLog, ALogOfWarningsSaysThatTheStoreWasAwayAndNotThatAQuestionWasWrong) {
  const auto away = absl::StatusCode::kUnavailable;
  EXPECT_THAT(LineOf("warning", away, Reason::kStoreUnavailable),
              HasSubstr(R"("level":"warning","event":"call")"));
  EXPECT_THAT(LineOf("warning", away, Reason::kQueueFull), IsEmpty());
  EXPECT_THAT(LineOf("warning", absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid),
              IsEmpty());
  EXPECT_THAT(LineOf("error", away, Reason::kStoreUnavailable), IsEmpty());
  EXPECT_THAT(LineOf("error", absl::StatusCode::kInternal, Reason::kStoreUnavailable),
              HasSubstr(R"("level":"error")"));
}

}  // namespace
}  // namespace parplan
