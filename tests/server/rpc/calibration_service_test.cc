#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "clients/cpp/calibration_client.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

v1::UploadCalibrationRequest SmallUpload(double matrix_efficiency = 0.5) {
  v1::UploadCalibrationRequest request;
  request.set_parent(kCluster);
  v1::Calibration& calibration = *request.mutable_calibration();
  calibration.mutable_provenance()->set_agent("test");
  v1::CoefficientValue& value = *calibration.add_coefficient_values();
  value.set_coefficient("matrix_efficiency");
  value.set_value(matrix_efficiency);
  return request;
}

class CalibrationServiceTest : public testing::Test {
 protected:
  absl::StatusOr<v1::ActiveCalibration> Activate(const std::string& name) {
    v1::ActivateCalibrationRequest request;
    request.set_parent(kCluster);
    request.set_calibration(name);
    return client_.Activate(request);
  }
  absl::StatusOr<v1::Calibration> Get(const std::string& name) {
    v1::GetCalibrationRequest request;
    request.set_name(name);
    return client_.Get(request);
  }

  RpcHarness harness_;
  CalibrationClient client_{harness_.channel()};
};

TEST_F(CalibrationServiceTest, ACalibrationIsUploadedListedShownAndActivated) {
  ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, client_.Upload(SmallUpload()));
  ASSERT_OK_AND_ASSIGN(const v1::Calibration found, Get(stored.name()));
  EXPECT_EQ(found.SerializeAsString(), stored.SerializeAsString());
  EXPECT_EQ(found.coefficient_values_size(), 1);
  v1::ListCalibrationsRequest list;
  list.set_parent(kCluster);
  ASSERT_OK_AND_ASSIGN(const v1::ListCalibrationsResponse page, client_.List(list));
  ASSERT_EQ(page.calibrations_size(), 1);
  EXPECT_EQ(page.calibrations(0).name(), stored.name());
  EXPECT_EQ(page.calibrations(0).coefficient_values_size(), 0);

  v1::GetActiveCalibrationRequest get_active;
  get_active.set_parent(kCluster);
  EXPECT_EQ(client_.GetActive(get_active)->calibration(), "");
  ASSERT_OK_AND_ASSIGN(const v1::ActiveCalibration active, Activate(stored.name()));
  EXPECT_EQ(active.digest(), stored.digest());
  EXPECT_EQ(client_.GetActive(get_active)->calibration(), stored.name());
}

TEST_F(CalibrationServiceTest, APlanSaysWhichCalibrationItRestsOn) {
  ASSERT_OK(harness_.UploadSmallProfile());
  ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, client_.Upload(SmallUpload()));
  ASSERT_OK(Activate(stored.name()));
  ASSERT_OK_AND_ASSIGN(const v1::Plan plan, harness_.plans().CreatePlan(SmallQuestion()));
  v1::PlanPayload payload;
  ASSERT_TRUE(payload.ParseFromString(plan.signed_plan().payload()));
  EXPECT_EQ(payload.calibration_digest(), stored.digest());
  EXPECT_EQ(stored.name(),
            absl::StrCat(kCluster, "/calibrations/", payload.calibration_digest().substr(0, 32)));
}

TEST_F(CalibrationServiceTest, RefusalsCarryTheirReasons) {
  v1::UploadCalibrationRequest upload = SmallUpload(-1.0);
  EXPECT_THAT(client_.Upload(upload),
              IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  upload = SmallUpload();
  upload.set_request_id("once");
  ASSERT_OK(client_.Upload(upload));
  ASSERT_OK(client_.Upload(upload));
  upload = SmallUpload(0.6);
  upload.set_request_id("once");
  EXPECT_THAT(client_.Upload(upload),
              IsRefused(StatusCode::kInvalidArgument, Reason::kRequestIdReused));
  const std::string unknown = absl::StrCat(kCluster, "/calibrations/none");
  EXPECT_THAT(Get(unknown), IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound));
  EXPECT_THAT(Activate(unknown), IsRefused(StatusCode::kNotFound, Reason::kResourceNotFound));
  EXPECT_THAT(Get("none"), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  v1::ListCalibrationsRequest list;
  list.set_parent(kCluster);
  list.set_page_token("none");
  EXPECT_THAT(client_.List(list), IsRefused(StatusCode::kInvalidArgument, Reason::kSpecInvalid));
  harness_.store().SetBroken(true);
  EXPECT_THAT(client_.Upload(SmallUpload()),
              IsRefused(StatusCode::kUnavailable, Reason::kStoreUnavailable));
}

TEST_F(CalibrationServiceTest, CallsAreCountedByMethod) {
  ASSERT_OK(client_.Upload(SmallUpload()));
  ASSERT_OK(Activate(""));
  const std::string text = harness_.observer().Text();
  EXPECT_THAT(text,
              HasSubstr("parplan_requests_total{code=\"OK\",method=\"UploadCalibration\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("parplan_requests_total{code=\"OK\",method=\"ActivateCalibration\"} 1"));
}

}  // namespace
}  // namespace parplan
