#include "proto/wire/calibration_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "proto/wire/json_file.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

v1::Calibration Sample() {
  v1::Calibration message;
  const absl::Status status = ParseJson(R"({
    "provenance": {
      "agent": "planctl 0.1.0",
      "fit_time": "2026-11-21T12:00:00.250Z",
      "sources": [
        {"source": "vtrain-single", "row_count": 151, "slice_rule": "sha256(id) % 5 == 0"},
        {"source": "megatron-ci-golden", "row_count": 210, "slice_rule": "sha256(id) % 2 == 0"}
      ],
      "notes": ["made up"]
    },
    "coefficient_values": [
      {"coefficient": "matrix_efficiency", "scope": {"device_family": "ampere"}, "value": 0.8125,
       "evidence_count": 151, "fitted": true},
      {"coefficient": "time_factor", "scope": {"cluster": "lab", "layer_kind": "LAYER_KIND_HEAD"},
       "value": 1.25},
      {"coefficient": "contention", "value": 1.5}
    ],
    "residual_classes": [
      {"quantity": "STEP_DURATION", "residual_count": "151",
       "log_ratio_quantiles": [-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4]},
      {"quantity": "PEAK_MEMORY", "confidence": "CONFIDENCE_ESTIMATED", "device_family": "ampere",
       "tensor_parallel_reach": "ACROSS_NODES", "residual_count": "40",
       "log_ratio_quantiles": [-0.2, -0.2, -0.1, -0.1, 0.0, 0.0, 0.1, 0.2, 0.2]}
    ]
  })",
                                        "sample.json", &message);
  EXPECT_OK(status);
  return message;
}

TEST(CalibrationWire, ReadsEveryField) {
  ASSERT_OK_AND_ASSIGN(const Calibration calibration, CalibrationFromProto(Sample()));
  const Calibration::Content& content = calibration.content();
  EXPECT_EQ(content.provenance.sources[1],
            (Calibration::Source{"megatron-ci-golden", 210, "sha256(id) % 2 == 0"}));
  EXPECT_EQ(
      content.coefficient_values[0],
      (CoefficientValue{Coefficient::kMatrixEfficiency, {"ampere", "", {}}, 0.8125, 151, true}));
  EXPECT_EQ(
      content.coefficient_values[1],
      (CoefficientValue{Coefficient::kTimeFactor, {"", "lab", LayerKind::kHead}, 1.25, 0, false}));
  EXPECT_EQ(content.residual_classes[1].key,
            (ResidualKey{ResidualQuantity::kPeakMemory, Confidence::kEstimated, "ampere",
                         TensorParallelReach::kAcrossNodes}));
  EXPECT_EQ(content.residual_classes[1].residual_count, 40);
  EXPECT_EQ(content.residual_classes[1].log_ratio.back(), 0.2);
  EXPECT_EQ(content.digest.size(), 64u);
}

TEST(CalibrationWire, ComesBackEqualAlsoThroughAFile) {
  ASSERT_OK_AND_ASSIGN(const Calibration calibration, CalibrationFromProto(Sample()));
  v1::Calibration message;
  ASSERT_OK(ParseJson(ToReadableJson(CalibrationToProto(calibration)), "c.json", &message));
  ASSERT_OK_AND_ASSIGN(const Calibration again, CalibrationFromProto(message));
  EXPECT_EQ(again, calibration);
}

TEST(CalibrationWire, TheBuiltInOneIsAFileToo) {
  const Calibration::Content& built_in = Calibration::BuiltIn()->content();
  ASSERT_OK_AND_ASSIGN(const Calibration again,
                       CalibrationFromProto(CalibrationToProto(*Calibration::BuiltIn())));
  EXPECT_EQ(again.content().residual_classes, built_in.residual_classes);
  EXPECT_EQ(again.content().digest, CalibrationDigest(built_in));
}

TEST(CalibrationWire, TheDigestIsOfEverythingButOrderAndNames) {
  ASSERT_OK_AND_ASSIGN(const Calibration calibration, CalibrationFromProto(Sample()));
  const std::string digest = calibration.content().digest;

  v1::Calibration same = Sample();
  same.set_name("clusters/lab/calibrations/c1");
  same.set_digest("anything");
  same.mutable_coefficient_values()->SwapElements(0, 2);
  same.mutable_residual_classes()->SwapElements(0, 1);
  ASSERT_OK_AND_ASSIGN(const Calibration of_same, CalibrationFromProto(same));
  EXPECT_EQ(of_same.content().digest, digest);

  const std::vector<std::function<void(v1::Calibration&)>> changes = {
      [](auto& c) { c.mutable_provenance()->set_agent("planctl 0.1.1"); },
      [](auto& c) { c.mutable_provenance()->mutable_fit_time()->set_nanos(1); },
      [](auto& c) { c.mutable_provenance()->clear_fit_time(); },
      [](auto& c) { c.mutable_provenance()->mutable_sources(0)->set_slice_rule("all"); },
      [](auto& c) { c.mutable_provenance()->mutable_sources(0)->set_row_count(1); },
      [](auto& c) { c.mutable_provenance()->set_parent_digest("aa"); },
      [](auto& c) { c.mutable_provenance()->add_notes("more"); },
      [](auto& c) { c.mutable_coefficient_values(0)->set_value(0.81); },
      [](auto& c) { c.mutable_coefficient_values(0)->set_fitted(false); },
      [](auto& c) { c.mutable_coefficient_values(0)->set_evidence_count(150); },
      [](auto& c) { c.mutable_coefficient_values(2)->mutable_scope()->set_cluster("lab"); },
      [](auto& c) { c.mutable_coefficient_values(1)->mutable_scope()->clear_layer_kind(); },
      [](auto& c) { c.mutable_residual_classes(1)->clear_confidence(); },
      [](auto& c) { c.mutable_residual_classes(1)->clear_tensor_parallel_reach(); },
      [](auto& c) { c.mutable_residual_classes(1)->set_residual_count(41); },
      [](auto& c) { c.mutable_residual_classes(1)->set_log_ratio_quantiles(8, 0.25); },
      [](auto& c) { c.mutable_residual_classes()->RemoveLast(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    v1::Calibration other = Sample();
    changes[i](other);
    ASSERT_OK_AND_ASSIGN(const Calibration of_other, CalibrationFromProto(other));
    EXPECT_NE(of_other.content().digest, digest) << "change " << i;
  }
}

TEST(CalibrationWire, NamesTheBrokenFieldBelowTheCallersPath) {
  struct Case {
    std::function<void(v1::Calibration&)> change;
    std::string field;
  };
  const std::vector<Case> cases = {
      {[](auto& c) { c.clear_provenance(); }, "c.provenance.agent"},
      {[](auto& c) { c.mutable_provenance()->mutable_fit_time()->set_nanos(-1); },
       "c.provenance.fit_time"},
      {[](auto& c) { c.mutable_coefficient_values(1)->set_coefficient("luck"); },
       "c.coefficient_values[1].coefficient"},
      {[](auto& c) { c.mutable_coefficient_values(2)->set_value(1.7); },
       "c.coefficient_values[2].value"},
      {[](auto& c) {
         c.mutable_coefficient_values(1)->mutable_scope()->set_layer_kind(
             static_cast<v1::LayerKind>(99));
       },
       "c.coefficient_values[1].scope.layer_kind"},
      {[](auto& c) { c.mutable_residual_classes(0)->clear_quantity(); },
       "c.residual_classes[0].quantity"},
      {[](auto& c) { c.mutable_residual_classes(0)->add_log_ratio_quantiles(0.5); },
       "c.residual_classes[0].log_ratio_quantiles"},
      {[](auto& c) { *c.mutable_residual_classes(0) = c.residual_classes(1); },
       "c.residual_classes[1]"},
  };
  for (const Case& broken : cases) {
    v1::Calibration message = Sample();
    broken.change(message);
    const absl::StatusOr<Calibration> refused = CalibrationFromProto(message, "c");
    ASSERT_FALSE(refused.ok()) << broken.field;
    EXPECT_EQ(GetErrorDetail(refused.status())->metadata.at("field"), broken.field);
  }
  v1::Calibration message = Sample();
  message.mutable_coefficient_values(1)->set_coefficient("luck");
  EXPECT_THAT(CalibrationFromProto(message),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr("must be one of matrix_efficiency, ")));
}

}  // namespace
}  // namespace parplan
