#include "base/service/shell/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/unreachable.h"
#include "parplan/v1/error_info.pb.h"
#include "tests/support/shared_data.h"

namespace parplan::shell {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// docs/planctl.md in numbers.
const std::map<Reason, int>& Documented() {
  static const auto* const codes = new std::map<Reason, int>{
      {Reason::kSpecInvalid, 2},       {Reason::kProfileInvalid, 2},
      {Reason::kUploadTooLarge, 2},    {Reason::kRequestIdReused, 2},
      {Reason::kExecutionState, 2},    {Reason::kNoFeasiblePlan, 3},
      {Reason::kProfileMissing, 4},    {Reason::kTopologyMismatch, 5},
      {Reason::kPlanExpired, 5},       {Reason::kSignatureInvalid, 5},
      {Reason::kPayloadMalformed, 5},  {Reason::kAudienceMismatch, 5},
      {Reason::kQueueFull, 6},         {Reason::kSearchTimedOut, 6},
      {Reason::kStoreUnavailable, 6},  {Reason::kDraining, 6},
      {Reason::kAgentConnected, 6},    {Reason::kResourceNotFound, 7},
      {Reason::kCheckFailed, 1},       {Reason::kRoleRequired, 2},
      {Reason::kAuditUnavailable, 6},  {Reason::kQuotaExceeded, 6},
      {Reason::kSearchOutOfMemory, 2},
  };
  return *codes;
}

TEST(ExitCode, EveryReasonOfTheContractHasTheOneDocumented) {
  const auto* const values = v1::ErrorReason_descriptor();
  int checked = 0;
  for (int i = 0; i < values->value_count(); ++i) {
    const int number = values->value(i)->number();
    if (number == 0) continue;
    const auto reason = static_cast<Reason>(number);
    ASSERT_EQ(Documented().count(reason), 1u) << values->value(i)->name();
    // The reason decides, whatever code it comes with.
    for (absl::StatusCode code : {absl::StatusCode::kInternal, absl::StatusCode::kUnavailable}) {
      EXPECT_EQ(static_cast<int>(ExitCodeOf(MakeError(code, reason, "message"))),
                Documented().at(reason))
          << values->value(i)->name();
    }
    ++checked;
  }
  EXPECT_EQ(checked, static_cast<int>(Documented().size()));
}

TEST(ExitCode, WithoutAReasonTheCodeOfTheStatusDecides) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), ExitCode::kBadInput);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), ExitCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("x")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("x")), ExitCode::kUnavailable);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), ExitCode::kInternal);
  EXPECT_EQ(ExitCodeOf(absl::UnknownError("x")), ExitCode::kInternal);
}

TEST(ExitCode, AllAreInTheDocumentation) {
  std::ifstream file(SourceDir() + "/docs/planctl.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (int code = 0; code <= 7; ++code) {
    EXPECT_THAT(text.str(), HasSubstr(absl::StrCat("\n| ", code, " | ")));
  }
}

TEST(ErrorText, IsOneLineWithReasonAndMessage) {
  EXPECT_EQ(ErrorText("planctl", FieldError(Reason::kSpecInvalid, "model.x", "must be above 0")),
            "planctl: SPEC_INVALID: model.x: must be above 0");
  EXPECT_EQ(ErrorText("planctl", absl::InternalError("odd")), "planctl: INTERNAL: odd");
}

TEST(ErrorText, OfAServerThatIsAwaySaysWhatToDo) {
  EXPECT_THAT(ErrorText("planctl", MarkUnreachable(absl::UnavailableError("no connection"))),
              AllOf(StartsWith("planctl: UNAVAILABLE: no connection"), HasSubstr("--server")));
  // A full disk, a connection that broke, a server that ends.
  EXPECT_EQ(ErrorText("planctl", absl::UnavailableError("cannot write p.json: no space left")),
            "planctl: UNAVAILABLE: cannot write p.json: no space left");
  EXPECT_THAT(
      ErrorText("planctl", MakeError(absl::StatusCode::kUnavailable, Reason::kDraining, "ends")),
      Not(HasSubstr("--server")));
}

TEST(ErrorJson, HasCodeReasonMessageAndFacts) {
  const nlohmann::json object = nlohmann::json::parse(
      ErrorJson(MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNoFeasiblePlan, "too big",
                          {{"smallestDeviceMemoryBytes", "17"}})));
  EXPECT_EQ(object, nlohmann::json::parse(R"({"error": {
      "code": "FAILED_PRECONDITION", "reason": "NO_FEASIBLE_PLAN", "message": "too big",
      "metadata": {"smallestDeviceMemoryBytes": "17"}}})"));
}

TEST(ErrorJson, WithoutAReasonHasTheSameMembers) {
  const nlohmann::json object = nlohmann::json::parse(ErrorJson(absl::InternalError("odd")));
  EXPECT_EQ(object, nlohmann::json::parse(R"({"error": {
      "code": "INTERNAL", "reason": "", "message": "odd", "metadata": {}}})"));
}

TEST(ErrorJson, IsJsonWhateverBytesTheMessageHas) {
  const std::string text = ErrorJson(absl::InvalidArgumentError("file \xff\x01\n\"x\""));
  EXPECT_TRUE(nlohmann::json::accept(text)) << text;
}

}  // namespace
}  // namespace parplan::shell
