#include "server/rpc/bounded_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "parplan/v1/plan_service.pb.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

bool Fits(absl::string_view bytes, int64_t max_count) {
  return HasFewParts(*v1::CreatePlanRequest::descriptor(), bytes, max_count);
}

std::string Repeated(absl::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

// Messages of the request with so many empty definitions of layers: a spec, a model and those.
std::string WithDefinitions(int count) {
  v1::CreatePlanRequest request;
  for (int i = 0; i < count; ++i) request.mutable_spec()->mutable_model()->add_layer_definitions();
  return request.SerializeAsString();
}

TEST(HasFewParts, CountsMessagesTextsAndWhatTheTypeDoesNotHave) {
  EXPECT_TRUE(Fits("", 0));
  EXPECT_TRUE(Fits(WithDefinitions(5), 7));
  EXPECT_FALSE(Fits(WithDefinitions(5), 6));
  v1::CreatePlanRequest texts;
  texts.set_parent("clusters/lab");
  texts.set_job_id("j");
  texts.mutable_spec()->set_global_batch_size(8);
  EXPECT_TRUE(Fits(texts.SerializeAsString(), 3));
  EXPECT_FALSE(Fits(texts.SerializeAsString(), 2));
  // Field 15 is none: a number, eight and four bytes, a text, and a group with a number in it.
  for (const absl::string_view unknown :
       {absl::string_view("\x78\x01", 2),
        absl::string_view("\x79"
                          "12345678",
                          9),
        absl::string_view("\x7d"
                          "1234",
                          5),
        absl::string_view("\x7a\x01x", 3), absl::string_view("\x7b\x7c", 2)}) {
    EXPECT_TRUE(Fits(Repeated(unknown, 9), 9)) << unknown;
    EXPECT_FALSE(Fits(Repeated(unknown, 9), 8)) << unknown;
  }
  EXPECT_FALSE(Fits(Repeated(absl::string_view("\x7b\x08\x01\x7c", 4), 9), 17));
}

// The decoder stops at the same byte, so what follows takes no memory.
TEST(HasFewParts, LooksAtNothingBehindWhatCannotBeDecoded) {
  const std::string many = Repeated(absl::string_view("\x7b\x7c", 2), 50);
  EXPECT_TRUE(Fits("\xff" + many, 10));
  EXPECT_TRUE(Fits(std::string("\x12\x7f", 2) + many.substr(0, 20), 10));
  // Groups in groups, more than a decoder follows.
  EXPECT_TRUE(Fits(Repeated("\x7b", 200), 150));
}

// Every method, as gRPC keeps unknown fields of every request.
TEST(RpcServer, RequestsOfTooManyPartsAreNotDecoded) {
  RpcHarness harness;
  const std::string unknown =
      Repeated(absl::string_view("\xfa\x7f\x00", 3), static_cast<int>(kMaxRequestParts) + 1);
  const std::string few = Repeated(absl::string_view("\xfa\x7f\x00", 3), 100);
  for (const char* const method : {"PlanService/ShapePlan",
                                   "PlanService/CreatePlan",
                                   "PlanService/SearchPlan",
                                   "PlanService/GetPlan",
                                   "PlanService/ListPlans",
                                   "PlanService/VerifyPlan",
                                   "PlanService/ExportPlan",
                                   "PlanService/GetCapabilities",
                                   "ProfileService/GetProfile",
                                   "ProfileService/ListProfiles",
                                   "ProfileService/DeleteProfile",
                                   "ExecutionService/CreateExecution",
                                   "ExecutionService/CompleteExecution",
                                   "ExecutionService/FailExecution",
                                   "ExecutionService/GetExecution",
                                   "ExecutionService/ListExecutions",
                                   "CalibrationService/UploadCalibration",
                                   "CalibrationService/GetCalibration",
                                   "CalibrationService/ListCalibrations",
                                   "CalibrationService/ActivateCalibration",
                                   "CalibrationService/GetActiveCalibration",
                                   "AgentService/ListAgents"}) {
    const std::string path = absl::StrCat("/parplan.v1.", method);
    EXPECT_EQ(CallRaw(harness.channel(), path, unknown).error_code(), grpc::UNIMPLEMENTED)
        << method;
    EXPECT_NE(CallRaw(harness.channel(), path, few).error_code(), grpc::UNIMPLEMENTED) << method;
  }
  // The end of a stream would be OK.
  for (const std::string& message : {unknown, std::string("\xff\xff")}) {
    EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.ExecutionService/ReportMetrics", message)
                  .error_code(),
              grpc::INVALID_ARGUMENT);
  }
  ASSERT_OK(harness.UploadSmallProfile().status());
  EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.PlanService/CreatePlan",
                    SmallQuestion().SerializeAsString())
                .error_code(),
            grpc::OK);
}

}  // namespace
}  // namespace parplan
