#include "server/core/calibration_core.h"
#include "proto/wire/published_calibration.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kCluster[] = "clusters/synthetic";

// The values of `matrix_efficiency` distinguish calibrations.
v1::Calibration Sample(double matrix_efficiency) {
  v1::Calibration calibration;
  v1::CalibrationProvenance& provenance = *calibration.mutable_provenance();
  provenance.set_agent("core_test");
  v1::CalibrationSource& source = *provenance.add_sources();
  source.set_source("made up");
  source.set_row_count(40);
  v1::CoefficientValue& value = *calibration.add_coefficient_values();
  value.set_coefficient("matrix_efficiency");
  value.set_value(matrix_efficiency);
  value.set_fitted(true);
  v1::ResidualClass& residuals = *calibration.add_residual_classes();
  residuals.set_quantity(v1::ResidualClass::STEP_DURATION);
  residuals.set_residual_count(40);
  for (int i = -4; i <= 4; ++i) residuals.add_log_ratio_quantiles(0.05 * i);
  return calibration;
}

class CalibrationCoreTest : public CoreTest {
 protected:
  absl::StatusOr<v1::Calibration> Upload(const v1::Calibration& calibration,
                                         const std::string& request_id = "once",
                                         const std::string& parent = kCluster) {
    v1::UploadCalibrationRequest request;
    request.set_parent(parent);
    request.set_request_id(request_id);
    *request.mutable_calibration() = calibration;
    return core().calibrations().Upload(request);
  }

  absl::StatusOr<v1::ActiveCalibration> Activate(const std::string& name,
                                                 const std::string& parent = kCluster) {
    v1::ActivateCalibrationRequest request;
    request.set_parent(parent);
    request.set_calibration(name);
    return core().calibrations().Activate(request);
  }

  v1::ActiveCalibration Active() {
    v1::GetActiveCalibrationRequest request;
    request.set_parent(kCluster);
    const absl::StatusOr<v1::ActiveCalibration> active = core().calibrations().GetActive(request);
    EXPECT_OK(active);
    return active.ok() ? *active : v1::ActiveCalibration();
  }

  std::vector<std::string> Names() {
    v1::ListCalibrationsRequest request;
    request.set_parent(kCluster);
    const absl::StatusOr<v1::ListCalibrationsResponse> list = core().calibrations().List(request);
    EXPECT_OK(list);
    std::vector<std::string> names;
    for (const v1::Calibration& calibration : list->calibrations()) {
      EXPECT_EQ(calibration.provenance().agent(), "core_test");
      EXPECT_EQ(calibration.coefficient_values_size() + calibration.residual_classes_size(), 0);
      names.push_back(calibration.name());
    }
    return names;
  }
};

TEST_F(CalibrationCoreTest, ACalibrationIsNamedByItsContentAndComesBackWhole) {
  Start();
  v1::Calibration sent = Sample(0.5);
  sent.set_name("not read");
  sent.set_digest("not read either");
  ASSERT_OK_AND_ASSIGN(v1::Calibration stored, Upload(sent));
  EXPECT_EQ(stored.digest().size(), 64u);
  EXPECT_EQ(stored.name(), absl::StrCat(kCluster, "/calibrations/", stored.digest().substr(0, 32)));
  v1::GetCalibrationRequest get;
  get.set_name(stored.name());
  ASSERT_OK_AND_ASSIGN(const v1::Calibration found, core().calibrations().Get(get));
  EXPECT_EQ(found.SerializeAsString(), stored.SerializeAsString());
  stored.clear_name();
  stored.clear_digest();
  stored.clear_create_time();
  EXPECT_EQ(stored.DebugString(), Sample(0.5).DebugString());
}

TEST_F(CalibrationCoreTest, EqualContentIsOneCalibration) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Calibration first, Upload(Sample(0.5), "one"));
  clock.Advance(absl::Hours(1));
  for (const char* request_id : {"one", "two"}) {
    ASSERT_OK_AND_ASSIGN(const v1::Calibration again, Upload(Sample(0.5), request_id));
    EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  }
  const absl::Status reused = Upload(Sample(0.6), "one").status();
  EXPECT_EQ(ReasonOf(reused), Reason::kRequestIdReused);
  ASSERT_OK_AND_ASSIGN(const v1::Calibration second, Upload(Sample(0.6), "three"));
  EXPECT_THAT(Names(), ElementsAre(second.name(), first.name()));
}

TEST_F(CalibrationCoreTest, WhatBreaksARuleIsRefusedWithItsField) {
  Start();
  v1::Calibration broken = Sample(0.5);
  broken.mutable_coefficient_values(0)->set_value(-1.0);
  const absl::Status value = Upload(broken).status();
  EXPECT_EQ(ReasonOf(value), Reason::kSpecInvalid);
  EXPECT_EQ(FactOf(value, "field"), "calibration.coefficient_values[0].value");
  EXPECT_EQ(FactOf(Upload(Sample(0.5), "").status(), "field"), "request_id");
  EXPECT_EQ(FactOf(Upload(Sample(0.5), "once", "clusters/B!").status(), "field"), "parent");
  EXPECT_EQ(FactOf(core().calibrations().Upload(v1::UploadCalibrationRequest()).status(), "field"),
            "parent");
  v1::UploadCalibrationRequest nothing;
  nothing.set_parent(kCluster);
  nothing.set_request_id("once");
  EXPECT_EQ(FactOf(core().calibrations().Upload(nothing).status(), "field"), "calibration");
  EXPECT_TRUE(Names().empty());
}

TEST_F(CalibrationCoreTest, ACalibrationBeyondTheLimitIsRefused) {
  limits.max_request_bytes = 100;
  Start();
  const absl::Status status = Upload(Sample(0.5)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), Reason::kUploadTooLarge);
  EXPECT_EQ(FactOf(status, "limit"), "100");
}

TEST_F(CalibrationCoreTest, OneOfTheClusterIsActiveOrNone) {
  Start();
  EXPECT_EQ(Active().SerializeAsString(), "");
  ASSERT_OK_AND_ASSIGN(const v1::Calibration first, Upload(Sample(0.5), "one"));
  ASSERT_OK_AND_ASSIGN(const v1::Calibration second, Upload(Sample(0.6), "two"));
  for (const v1::Calibration* calibration : {&first, &second, &first}) {
    ASSERT_OK_AND_ASSIGN(const v1::ActiveCalibration active, Activate(calibration->name()));
    EXPECT_EQ(active.calibration(), calibration->name());
    EXPECT_EQ(active.digest(), calibration->digest());
    EXPECT_TRUE(active.has_activate_time());
    EXPECT_EQ(Active().SerializeAsString(), active.SerializeAsString());
  }
  Start(store().OpenAgain());
  EXPECT_EQ(Active().calibration(), first.name());
  ASSERT_OK_AND_ASSIGN(const v1::ActiveCalibration none, Activate(""));
  EXPECT_EQ(none.calibration() + none.digest(), "");
}

TEST_F(CalibrationCoreTest, WhatTheClusterHasNotCannotBeActive) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, Upload(Sample(0.5)));
  const absl::Status unknown = Activate(absl::StrCat(kCluster, "/calibrations/none")).status();
  EXPECT_EQ(ReasonOf(unknown), Reason::kResourceNotFound);
  EXPECT_THAT(unknown, StatusIs(testing::_, testing::StartsWith("`calibration`: there is no ")));
  const absl::Status foreign = Activate(stored.name(), "clusters/other").status();
  EXPECT_EQ(ReasonOf(foreign), Reason::kSpecInvalid);
  EXPECT_EQ(FactOf(foreign, "field"), "calibration");
  EXPECT_EQ(FactOf(Activate("clusters/synthetic/plans/p").status(), "field"), "calibration");
  EXPECT_EQ(Active().calibration(), "");
}

TEST_F(CalibrationCoreTest, AStoreThatFailsIsUnavailable) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, Upload(Sample(0.5)));
  store().SetBroken(true);
  EXPECT_EQ(ReasonOf(Upload(Sample(0.6), "two").status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Activate(stored.name()).status()), Reason::kStoreUnavailable);
  store().SetBroken(false);
  EXPECT_EQ(Active().calibration(), "");
}

TEST_F(CalibrationCoreTest, WhatIsStoredIsReadOnceAndShared) {
  Start();
  ASSERT_OK_AND_ASSIGN(const v1::Calibration stored, Upload(Sample(0.5)));
  ASSERT_OK_AND_ASSIGN(const auto first, core().calibrations().Find(stored.name()));
  EXPECT_EQ(first->content().digest, stored.digest());
  ASSERT_OK_AND_ASSIGN(const auto second, core().calibrations().Find(stored.name()));
  EXPECT_EQ(second, first);
  ASSERT_OK_AND_ASSIGN(const auto none, core().calibrations().Find(""));
  EXPECT_EQ(none, nullptr);
}

TEST_F(CalibrationCoreTest, AStoredCalibrationOfANewerServerIsNotGuessedAt) {
  Start();
  v1::Calibration newer = Sample(0.5);
  newer.mutable_coefficient_values(0)->set_coefficient("of_tomorrow");
  CalibrationRecord record;
  record.name = absl::StrCat(kCluster, "/calibrations/newer");
  record.cluster = "synthetic";
  record.bytes = newer.SerializeAsString();
  ASSERT_OK(store().PutCalibration(record));
  const absl::Status status = core().calibrations().Find(record.name).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("activate another"));
}

// Plans and calibrations.

TEST_F(CalibrationCoreTest, AnotherActiveCalibrationGivesNewPlansAndKeepsTheOldOnes) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan built_in, Ask(Question()));
  EXPECT_EQ(PayloadOf(*built_in).calibration_digest(), PublishedCalibration()->content().digest);
  ASSERT_OK_AND_ASSIGN(const v1::Calibration calibration, Upload(Sample(0.5)));
  // It is there, but plans do not rest on it yet.
  ASSERT_OK_AND_ASSIGN(const SharedPlan same, Ask(Question()));
  EXPECT_EQ(same->name(), built_in->name());

  ASSERT_OK(Activate(calibration.name()));
  ASSERT_OK_AND_ASSIGN(const SharedPlan calibrated, Ask(Question()));
  EXPECT_FALSE(calibrated->from_cache());
  EXPECT_NE(calibrated->name(), built_in->name());
  EXPECT_EQ(PayloadOf(*calibrated).calibration_digest(), calibration.digest());
  EXPECT_EQ(planner.search_count, 2);

  // The plan of before is still valid, and found by its name.
  v1::VerifyPlanRequest verify;
  *verify.mutable_signed_plan() = built_in->signed_plan();
  EXPECT_EQ(core().plans().VerifyPlan(verify).verdict(), v1::VerifyPlanResponse::VALID);
  v1::GetPlanRequest get;
  get.set_name(built_in->name());
  EXPECT_OK(core().plans().GetPlan(get));

  // And given again once plans rest on the same as then, without a search, also by
  // a server that starts again.
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Activate(""));
    EXPECT_EQ((*Ask(Question()))->name(), built_in->name());
    ASSERT_OK(Activate(calibration.name()));
    EXPECT_EQ((*Ask(Question()))->name(), calibrated->name());
    Start(store().OpenAgain());
  }
  EXPECT_EQ(planner.search_count, 2);
}

TEST_F(CalibrationCoreTest, AShapeIsAnsweredAnewOnceAnotherCalibrationIsActive) {
  StartMeasured();
  v1::ShapePlanRequest request;
  request.set_parent(kCluster);
  *request.mutable_model() = Question().spec().model();
  request.set_global_batch_size(16);
  v1::DeviceOffer& offer = *request.add_offers();
  const v1::NodeGroup group = Question().spec().topology().node_groups(0);
  offer.set_device_kind(group.device_kind());
  offer.set_devices_per_node(group.devices_per_node());
  offer.set_device_memory_bytes(group.device_memory_bytes());
  offer.set_min_device_count(8);
  offer.set_max_device_count(8);
  ASSERT_OK(AskShape(request));
  EXPECT_TRUE((*AskShape(request))->from_cache());
  ASSERT_OK_AND_ASSIGN(const v1::Calibration calibration, Upload(Sample(0.5)));
  EXPECT_TRUE((*AskShape(request))->from_cache());
  ASSERT_OK(Activate(calibration.name()));
  EXPECT_FALSE((*AskShape(request))->from_cache());
  EXPECT_TRUE((*AskShape(request))->from_cache());
}

}  // namespace
}  // namespace parplan
