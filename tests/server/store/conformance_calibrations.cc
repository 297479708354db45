// Conformance of every store: calibrations, and which of them is active.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

TEST_P(StoreConformance, ACalibrationComesBackExactly) {
  const CalibrationRecord calibration = SampleCalibration("c", "a", 70000);
  EXPECT_THAT(store().PutCalibration(calibration), IsOkAndHolds(calibration));
  EXPECT_THAT(store().GetCalibration(calibration.name), IsOkAndHolds(calibration));
  Reopen();
  EXPECT_THAT(store().GetCalibration(calibration.name), IsOkAndHolds(calibration));
}

TEST_P(StoreConformance, AnUnknownCalibrationIsNotFound) {
  const auto calibration = store().GetCalibration("clusters/c/calibrations/none");
  EXPECT_THAT(calibration, StatusIs(absl::StatusCode::kNotFound,
                                    testing::HasSubstr("clusters/c/calibrations/none")));
  EXPECT_EQ(ReasonOf(calibration), Reason::kResourceNotFound);
}

TEST_P(StoreConformance, ARepeatedCalibrationGivesTheFirst) {
  const CalibrationRecord first = SampleCalibration("c", "first");
  ASSERT_OK(store().PutCalibration(first));
  // The same request, and the same content under another request.
  for (const char* request_id : {first.request_id.c_str(), "another", ""}) {
    CalibrationRecord again = first;
    again.request_id = request_id;
    again.create_time += absl::Hours(1);
    EXPECT_THAT(store().PutCalibration(again), IsOkAndHolds(first));
  }
  EXPECT_THAT(store().ListCalibrations("c", {})->records, testing::ElementsAre(first));
}

TEST_P(StoreConformance, ACalibrationsRequestIdWithOtherContentIsRefused) {
  const CalibrationRecord first = SampleCalibration("c", "first");
  ASSERT_OK(store().PutCalibration(first));
  CalibrationRecord other = SampleCalibration("c", "other");
  other.request_id = first.request_id;
  const auto result = store().PutCalibration(other);
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(ReasonOf(result), Reason::kRequestIdReused);
  EXPECT_THAT(store().GetCalibration(other.name), StatusIs(absl::StatusCode::kNotFound));
  // It belongs to one cluster, and the empty one to none.
  other = SampleCalibration("other", "other");
  other.request_id = first.request_id;
  EXPECT_THAT(store().PutCalibration(other), IsOkAndHolds(other));
  for (const char* id : {"p", "q"}) {
    CalibrationRecord nameless = SampleCalibration("c", id);
    nameless.request_id.clear();
    EXPECT_THAT(store().PutCalibration(nameless), IsOkAndHolds(nameless));
  }
}

TEST_P(StoreConformance, ACalibrationsNameWithOtherContentIsRefused) {
  const CalibrationRecord first = SampleCalibration("c", "a");
  ASSERT_OK(store().PutCalibration(first));
  CalibrationRecord second = first;
  second.request_id = "another";
  second.content_digest = "other";
  second.bytes = "other";
  const auto result = store().PutCalibration(second);
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(ReasonOf(result), Reason::kSpecInvalid);
  EXPECT_THAT(store().GetCalibration(first.name), IsOkAndHolds(first));
}

TEST_P(StoreConformance, PagesHoldTheCalibrationsOfOneClusterNewestFirst) {
  std::vector<std::string> expected;
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(store().PutCalibration(SampleCalibration("c", absl::StrCat(i))));
    ASSERT_OK(store().PutCalibration(SampleCalibration("other", absl::StrCat(i))));
    expected.insert(expected.begin(), absl::StrCat(i));
  }
  std::vector<std::string> seen;
  PageRequest request{.page_size = 2};
  do {
    ASSERT_OK_AND_ASSIGN(const auto page, store().ListCalibrations("c", request));
    ASSERT_LE(page.records.size(), 2u);
    for (const CalibrationRecord& record : page.records) seen.push_back(record.calibration_id);
    request.page_token = page.next_page_token;
  } while (!request.page_token.empty());
  EXPECT_EQ(seen, expected);
  ASSERT_OK_AND_ASSIGN(const auto page, store().ListCalibrations("c", {.page_size = 1}));
  EXPECT_EQ(ReasonOf(store().ListCalibrations("other", {.page_token = page.next_page_token})),
            Reason::kSpecInvalid);
}

TEST_P(StoreConformance, NoCalibrationIsActiveUntilOneIsMadeSo) {
  ASSERT_OK(store().PutCalibration(SampleCalibration("c", "a")));
  EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(ActiveCalibrationRecord()));
}

TEST_P(StoreConformance, TheActiveCalibrationIsTheOneMadeSoLast) {
  const CalibrationRecord a = SampleCalibration("c", "a");
  const CalibrationRecord b = SampleCalibration("c", "b");
  ASSERT_OK(store().PutCalibration(a));
  ASSERT_OK(store().PutCalibration(b));
  ASSERT_OK(store().PutCalibration(SampleCalibration("other", "a")));
  int64_t seconds = 0;
  for (const CalibrationRecord* calibration : {&b, &a, &b}) {
    const ActiveCalibrationRecord expected{.name = calibration->name,
                                           .content_digest = calibration->content_digest,
                                           .activate_time = SampleTime(++seconds)};
    EXPECT_THAT(store().ActivateCalibration("c", calibration->name, SampleTime(seconds)),
                IsOkAndHolds(expected));
    EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(expected));
    Reopen();
    EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(expected));
  }
  EXPECT_THAT(store().ActiveCalibration("other"), IsOkAndHolds(ActiveCalibrationRecord()));

  const ActiveCalibrationRecord none{
      .name = "", .content_digest = "", .activate_time = SampleTime(9)};
  EXPECT_THAT(store().ActivateCalibration("c", "", SampleTime(9)), IsOkAndHolds(none));
  Reopen();
  EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(none));
}

TEST_P(StoreConformance, WhatIsActiveStaysSoSinceItBecameSo) {
  EXPECT_THAT(store().ActivateCalibration("c", "", SampleTime(1)),
              IsOkAndHolds(ActiveCalibrationRecord()));
  const CalibrationRecord a = SampleCalibration("c", "a");
  ASSERT_OK(store().PutCalibration(a));
  ASSERT_OK_AND_ASSIGN(const ActiveCalibrationRecord first,
                       store().ActivateCalibration("c", a.name, SampleTime(1)));
  EXPECT_THAT(store().ActivateCalibration("c", a.name, SampleTime(2)), IsOkAndHolds(first));
  EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(first));
}

TEST_P(StoreConformance, ACalibrationOfAnotherClusterCannotBeActive) {
  const CalibrationRecord own = SampleCalibration("c", "a");
  const CalibrationRecord foreign = SampleCalibration("other", "a");
  ASSERT_OK(store().PutCalibration(own));
  ASSERT_OK(store().PutCalibration(foreign));
  ASSERT_OK_AND_ASSIGN(const ActiveCalibrationRecord active,
                       store().ActivateCalibration("c", own.name, SampleTime(1)));
  for (const std::string& name : {foreign.name, std::string("clusters/c/calibrations/none")}) {
    const auto result = store().ActivateCalibration("c", name, SampleTime(2));
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(ReasonOf(result), Reason::kResourceNotFound);
  }
  EXPECT_THAT(store().ActiveCalibration("c"), IsOkAndHolds(active));
}

}  // namespace
}  // namespace parplan
