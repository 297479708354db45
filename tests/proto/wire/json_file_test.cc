#include "proto/wire/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "parplan/v1/error_info.pb.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile.pb.h"
#include "tests/proto/wire/random_values.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::HasSubstr;

template <typename Message>
std::string ErrorOf(const std::string& text) {
  Message message;
  const absl::Status status = ParseJson(text, "f.json", &message);
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message().data(), status.message().size());
}

TEST(ReadableJson, IsReadBackToAnEqualMessage) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomValues random(seed);
    const v1::Profile profile = random.Profile();
    v1::Profile profile_again;
    ASSERT_OK(ParseJson(ToReadableJson(profile), "profile.json", &profile_again));
    EXPECT_EQ(profile_again.DebugString(), profile.DebugString());
    v1::PlanSpec spec;
    *spec.mutable_model() = random.Model();
    *spec.mutable_topology() = random.Topology();
    *spec.mutable_options() = random.Options();
    spec.set_global_batch_size(random.Integer(1, 1 << 20));
    v1::PlanSpec spec_again;
    ASSERT_OK(ParseJson(ToReadableJson(spec), "spec.json", &spec_again));
    EXPECT_EQ(spec_again.DebugString(), spec.DebugString());
  }
}

TEST(ReadableJson, IsWrittenForPeople) {
  v1::LayerTiming timing;
  timing.set_layer_definition_id("a\nb");
  timing.mutable_forward_duration()->set_nanos(5'000'000);
  v1::Profile profile;
  *profile.add_layer_timings() = timing;
  profile.set_context_memory_bytes(1);
  EXPECT_EQ(ToReadableJson(profile),
            "{\n"
            "  \"layer_timings\": [\n"
            "    {\n"
            "      \"layer_definition_id\": \"a\\nb\",\n"
            "      \"forward_duration\": \"0.005s\"\n"
            "    }\n"
            "  ],\n"
            "  \"context_memory_bytes\": \"1\"\n"
            "}\n");
  EXPECT_EQ(ToReadableJson(v1::Profile()), "{}\n");
}

TEST(ReadableJson, PrintsEvenWhatJsonCannotHold) {
  v1::LayerTiming timing;
  timing.mutable_forward_duration()->set_seconds(INT64_MAX);
  EXPECT_THAT(ToReadableJson(timing), HasSubstr("9223372036854775807"));
}

TEST(ParseJson, ReadsEveryKindOfField) {
  v1::PlanPayload payload;
  ASSERT_OK(ParseJson(R"({
    "plan": "é\u00e9",
    "nodeNames": ["a", "b"],
    "issue_time": "2022-06-01T00:00:00.5Z",
    "device_count": 1e1,
    "global_batch_size": "64",
    "micro_batch_count": 8,
    "schedule": "SCHEDULE_GPIPE",
    "stages": [{"layer_runs": [{"strategy": {
      "sequence_parallel": true,
      "rank_order": ["PARALLEL_AXIS_DATA", "PARALLEL_AXIS_TENSOR"]}}]}],
    "prediction": {"step_duration": "-1.000000001s", "samples_per_second": 2}
  })",
                      "f.json", &payload));
  EXPECT_EQ(payload.plan(), "éé");
  EXPECT_EQ(payload.node_names(1), "b");
  EXPECT_EQ(payload.issue_time().seconds(), 1'654'041'600);
  EXPECT_EQ(payload.issue_time().nanos(), 500'000'000);
  EXPECT_EQ(payload.device_count(), 10);
  EXPECT_EQ(payload.global_batch_size(), 64);
  EXPECT_EQ(payload.micro_batch_count(), 8);
  EXPECT_EQ(payload.schedule(), v1::SCHEDULE_GPIPE);
  const v1::Strategy& strategy = payload.stages(0).layer_runs(0).strategy();
  EXPECT_TRUE(strategy.sequence_parallel());
  EXPECT_EQ(strategy.rank_order(0), v1::PARALLEL_AXIS_DATA);
  EXPECT_EQ(payload.prediction().step_duration().seconds(), -1);
  EXPECT_EQ(payload.prediction().step_duration().nanos(), -1);
  EXPECT_EQ(payload.prediction().samples_per_second(), 2.0);

  v1::SignedPlan signed_plan;
  ASSERT_OK(ParseJson(R"({"payload": "/+8="})", "f.json", &signed_plan));
  EXPECT_EQ(signed_plan.payload(), "\xff\xef");
  v1::ErrorInfo info;
  ASSERT_OK(ParseJson(R"({"metadata": {"a": "1", "b": "2"}})", "f.json", &info));
  EXPECT_EQ(info.metadata().at("b"), "2");
}

TEST(ParseJson, SaysWhatIsWrongAndWhatToWrite) {
  using Model = v1::ModelSpec;
  using Timing = v1::LayerTiming;
  EXPECT_EQ(ErrorOf<Model>("{\n  \"layer_definitions\": [{\n    \"hiden_size\": 4}]}"),
            "f.json:3: layer_definitions[0].hiden_size: no such field of LayerDefinition; "
            "did you mean `hidden_size`?");
  EXPECT_EQ(ErrorOf<Model>("{\"zzzzzzzzzz\": 4}"),
            "f.json:1: zzzzzzzzzz: no such field of ModelSpec");
  EXPECT_EQ(ErrorOf<Model>("{\"precision\": \"PRECISION_BF61\"}"),
            "f.json:1: precision: must be one of PRECISION_FP32, PRECISION_BF16, "
            "PRECISION_FP16, PRECISION_FP8_DELAYED, PRECISION_FP8_CURRENT, PRECISION_FP8_ROWWISE, "
            "PRECISION_FP8_BLOCKWISE, PRECISION_MXFP8, PRECISION_NVFP4, not \"PRECISION_BF61\"; "
            "did you mean `PRECISION_BF16`?");
  EXPECT_THAT(ErrorOf<Model>("{\"precision\": 2}"), HasSubstr("must be one of PRECISION_FP32"));
  EXPECT_EQ(ErrorOf<Model>("{\"model_id\": \"a\",\n\"modelId\": \"b\"}"),
            "f.json:2: modelId: the field is there twice; keep one");
  EXPECT_EQ(ErrorOf<Model>("{\"model_id\": null}"),
            "f.json:1: model_id: must not be null; leave the field out");
  EXPECT_EQ(ErrorOf<Model>("{\"model_id\": 3}"),
            "f.json:1: model_id: must be a string, not a "
            "number");
  EXPECT_EQ(ErrorOf<Model>("{\"layer_runs\": {}}"),
            "f.json:1: layer_runs: must be a list, not an object");
  EXPECT_EQ(ErrorOf<Model>("{\"layer_runs\": [[]]}"),
            "f.json:1: layer_runs[0]: must be an object, not a list");
  EXPECT_EQ(ErrorOf<Model>("[]"), "f.json:1: must be an object, not a list");
  EXPECT_EQ(ErrorOf<Timing>("{\"forward_duration\": \"5ms\"}"),
            "f.json:1: forward_duration: must be a string of seconds like \"0.005s\", not "
            "\"5ms\"; write \"0.005s\"");
  EXPECT_EQ(ErrorOf<Timing>("{\"forward_duration\": 0.005}"),
            "f.json:1: forward_duration: must be a string of seconds like \"0.005s\", not a "
            "number");
  for (const char* bad : {"5", "s", "-s", ".5s", "1.s", "1e3s", " 1s", "1.0000000001s", "inf",
                          "9999999999999s", "315576000001s", "1m30s", "0x1s"}) {
    EXPECT_NE(ErrorOf<Timing>(absl::StrCat("{\"forward_duration\": \"", bad, "\"}")), "") << bad;
  }
  EXPECT_EQ(ErrorOf<Timing>("{\"micro_batch_size\": 2147483648}"),
            "f.json:1: micro_batch_size: must be between -2147483648 and 2147483647, not "
            "2147483648");
  EXPECT_EQ(ErrorOf<Timing>("{\"micro_batch_size\": 1.5}"),
            "f.json:1: micro_batch_size: must be a whole number, not 1.5");
  EXPECT_EQ(ErrorOf<Timing>("{\"micro_batch_size\": 1e16}"),
            "f.json:1: micro_batch_size: must be between -2147483648 and 2147483647, not 1e+16");
  // A whole number of 64 bits, so the error must say what is wrong with it.
  EXPECT_EQ(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": 1e16}"),
            "f.json:1: global_batch_size: must be written with all its digits: beyond 2^53, a "
            "number with a point or an exponent may stand for another one");
  EXPECT_EQ(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": 10000000000000000}"), "");
  EXPECT_EQ(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": 9.007199254740992e15}"), "");
  EXPECT_THAT(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": 9223372036854775808}"),
              HasSubstr("must be between -9223372036854775808 and 9223372036854775807"));
  EXPECT_EQ(ErrorOf<Timing>("{\"micro_batch_size\": \"4\"}"),
            "f.json:1: micro_batch_size: must be a whole number, not a string");
  EXPECT_THAT(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": \"0x10\"}"),
              HasSubstr("not \"0x10\""));
  EXPECT_THAT(ErrorOf<v1::PlanSpec>("{\"global_batch_size\": 18446744073709551615}"),
              HasSubstr("must be between"));
  EXPECT_THAT(ErrorOf<v1::Provenance>("{\"measure_time\": \"yesterday\"}"),
              HasSubstr("must be a time like"));
  EXPECT_THAT(ErrorOf<v1::Provenance>("{\"measure_time\": \"infinite-future\"}"),
              HasSubstr("must be a time like"));
  EXPECT_THAT(ErrorOf<v1::SignedPlan>("{\"payload\": \"*\"}"), HasSubstr("must be base64"));
  EXPECT_EQ(ErrorOf<v1::SearchPlanResponse>("{\"progress\": {},\n \"plan\": {}}"),
            "f.json:2: plan: another field of `event` is there already");
}

TEST(ParseJson, ListsAllErrorsOfAFileUpToTwenty) {
  std::string text = "{\n";
  for (int i = 0; i < 25; ++i) absl::StrAppend(&text, "\"field", i, "\": 0,\n");
  text += "\"model_id\": \"m\"}";
  const std::vector<std::string> lines = absl::StrSplit(ErrorOf<v1::ModelSpec>(text), '\n');
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_EQ(lines[0], "f.json:2: field0: no such field of ModelSpec");
  EXPECT_EQ(lines[19], "f.json:21: field19: no such field of ModelSpec");
  EXPECT_EQ(lines[20], "and 5 more");
}

TEST(ParseJson, RefusesTextThatIsNotJson) {
  EXPECT_THAT(ErrorOf<v1::ModelSpec>(""), HasSubstr("f.json:1: not JSON: parse error"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("{\n\"model_id\": \n}"), HasSubstr("f.json:3: not JSON"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("{} {}"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("{\"model_id\": \"\xff\"}"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("{/* c */}"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>("{\"model_id\": 1e999}"), HasSubstr("not JSON"));
}

TEST(ParseJson, RefusesDepthAndSizeBeyondItsLimits) {
  EXPECT_THAT(ErrorOf<v1::ModelSpec>(std::string(100'000, '[')),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(ErrorOf<v1::ModelSpec>(std::string(kMaxJsonBytes + 1, ' ')),
              HasSubstr("longer than 67108864 bytes"));
}

}  // namespace
}  // namespace parplan
