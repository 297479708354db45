#include "clients/import/torch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "exports/torch_plan_export.h"
#include "planner/model/runtime_traits.h"
#include "tests/clients/import/decoder_models.h"
#include "tests/clients/import/layerwise_plans.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A plan of two stages of two ranks, as files.
class ImportTorchPlanTest : public ::testing::Test {
 protected:
  ImportTorchPlanTest() {
    Plan plan;
    plan.device_count = 4;
    plan.global_batch_size = 8;
    plan.micro_batch_count = 2;
    const Strategy split{.tensor_parallel_degree = 2};
    const Strategy sharded{.data_parallel_degree = 2, .sharding_level = ShardingLevel::kGradients};
    plan.stages = {{0, 2, {{0, 1, sharded}, {1, 1, sharded}}},
                   {2, 2, {{2, 1, split}, {3, 1, sharded}}}};
    const auto files = ExportFsdp2Plan(plan, model_, {*FindRuntime("fsdp"), ""});
    EXPECT_OK(files);
    document_ = json::parse((*files)[0].text);
    passes_ = (*files)[1].text;
  }

  absl::Status Read(const json& document) const { return ReadText(document.dump()); }
  absl::Status ReadText(const std::string& text) const {
    return ImportTorchPlan({"f.json", text}, NamedText{"s.csv", passes_}, model_).status();
  }
  // Expects an error with these parts after `change`.
  template <typename Change>
  void Refuse(Change&& change, const std::string& part) const {
    json document = document_;
    change(document);
    EXPECT_THAT(Read(document), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  }

  ModelSpec model_ = DecoderModel({.dense_layer_count = 2, .tied_embedding = false});
  json document_;
  std::string passes_;
};

TEST_F(ImportTorchPlanTest, ReadsTheExample) { EXPECT_OK(Read(document_)); }

// The file says in which numbers gradients travel and what is repeated, which runtimes differ in.
TEST_F(ImportTorchPlanTest, NamesTheRuntimeThatTheFileIsOf) {
  const auto runtime_of = [this](const json& document) {
    const auto import =
        ImportTorchPlan({"f.json", document.dump()}, NamedText{"s.csv", passes_}, model_);
    EXPECT_OK(import.status());
    return import.ok() ? std::string(RuntimeOfTorchPlan(import->traits)) : "";
  };
  // The example was exported for it.
  EXPECT_EQ(runtime_of(document_), "fsdp");
  json document = document_;
  document["numbers"]["gradient_messages"] = "float32";
  EXPECT_EQ(runtime_of(document), "torch");
  TorchPlanTraits traits;
  traits.selective_recompute = SelectiveRecompute::kOperators;
  EXPECT_EQ(RuntimeOfTorchPlan(traits), "torchtitan");
  for (const char* const runtime : {"fsdp", "torch", "torchtitan"}) {
    EXPECT_NE(FindRuntime(runtime), nullptr) << runtime;
  }
}

TEST_F(ImportTorchPlanTest, RefusesEveryTruncation) {
  const std::string text = document_.dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THAT(ReadText(text.substr(0, size)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("f.json")));
  }
}

// Every value of the file, replaced by one of another type or taken away, is noticed.
TEST_F(ImportTorchPlanTest, RefusesEveryMemberOfAnotherTypeOrMissing) {
  int changed = 0;
  const json leaves = document_.flatten();
  for (const auto& [pointer, value] : leaves.items()) {
    for (const json& other : {json(), json("x"), json(-1), json(1.5), json::array({json::object()}),
                              json(true), json(1e300)}) {
      // The other truth can be another plan.
      if (other == value || (value.is_boolean() && other.is_boolean())) continue;
      json document = document_;
      document[json::json_pointer(pointer)] = other;
      EXPECT_FALSE(Read(document).ok()) << pointer << " " << other;
      ++changed;
    }
  }
  for (const auto& [key, value] : document_.items()) {
    json document = document_;
    document.erase(key);
    EXPECT_THAT(Read(document), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(key)));
  }
  EXPECT_GE(changed, 300);
}

TEST_F(ImportTorchPlanTest, RefusesUnknownAndContradictoryMembers) {
  Refuse([](json& d) { d["colour"] = 1; }, "/colour: is unknown");
  Refuse([](json& d) { d["stages"][0]["layers"][1]["note"] = "x"; },
         "/stages/0/layers/1/note: is unknown");
  Refuse([](json& d) { d["format"] = "parplan.fsdp3"; }, "format: must be parplan.fsdp2 or");
  Refuse([](json& d) { d["version"] = 2; }, "version: must be 1");
  Refuse([](json& d) { d["stages"][0]["layers"][1]["strategy"] = 7; },
         "stages[0].layers[1].strategy: is no index");
  Refuse([](json& d) { d["stages"][0]["layers"].erase(1); }, "hold 3 layers, and the model 4");
  Refuse([](json& d) { d["stages"][1]["first_rank"] = 0; }, "/stages/1/first_rank: contradicts");
  Refuse([](json& d) { d["stages"][1]["layers"][0]["modules"] = {"layers.7"}; },
         "/stages/1/layers/0/modules/0: contradicts the rest of the file, which makes it "
         "\"layers.1\"");
  Refuse(
      [](json& d) {
        d["transitions"][0]["gradient_scale"] = {1, 1};
      },
      "/transitions/0/gradient_scale/0: contradicts the rest of the file, which makes it 2");
  Refuse([](json& d) { d["transitions"].erase(1); }, "/transitions/-: is missing");
  Refuse([](json& d) { d["tied_modules"] = {"tok_embeddings", "lm_head"}; }, "/tied_modules");
  Refuse([](json& d) { d["numbers"]["parameters"] = "float32"; }, "/numbers/parameters");
  Refuse([](json& d) { d["numbers"]["gradient_messages"] = "int8"; },
         "must be float32 or bfloat16");
  Refuse([](json& d) { d["pipeline"]["degree"] = 3; }, "pipeline.degree: must divide");
  Refuse([](json& d) { d["pipeline"]["virtual_stages"] = 2; }, "pipeline.degree: must divide");
  Refuse([](json& d) { d["pipeline"]["schedule"] = "interleaved"; }, "schedule: is interleaved");
  Refuse([](json& d) { d["device_count"] = 1 << 20; }, "pipeline.degree");
  Refuse([](json& d) { d["strategies"][0]["mesh"]["shape"] = {2, 1, 2}; }, "do not multiply");
  Refuse(
      [](json& d) {
        d["strategies"][0]["mesh"]["axes"] = {"tensor", "data", "context"};
      },
      "strategies[0].mesh.axes: must be");
  Refuse([](json& d) { d["strategies"][0]["data_parallel"]["reduce_gradients"] = "never"; },
         "reduce_gradients: must be micro_batch");
  Refuse([](json& d) { d["strategies"][0]["data_parallel"]["shard_degree"] = 2; },
         "strategies[0].data_parallel.shard_degree: must be a divisor of the 2 ranks");
  Refuse([](json& d) { d["strategies"][0]["data_parallel"]["kind"] = "ddp"; },
         "kind: must be replicate or fully_shard");
  Refuse([](json& d) { d["strategies"].push_back(d["strategies"][0]); }, "/strategies/2");
  Refuse([](json& d) { d["tensor_parallel_plan"]["attention"]["query"] = "rowwise"; },
         "/tensor_parallel_plan/attention/query: contradicts");
}

TEST_F(ImportTorchPlanTest, NeedsTheTableOfPassesExactlyBesideAPipeline) {
  EXPECT_THAT(ImportTorchPlan({"f.json", document_.dump()}, std::nullopt, model_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be given too")));
  EXPECT_THAT(
      ImportTorchPlan({"f.json", document_.dump()},
                      NamedText{"s.csv", absl::StrReplaceAll(passes_, {{"1F", "1B"}})}, model_),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("s.csv: line 2, cell 1"), HasSubstr("must be 1F0"))));
}

TEST_F(ImportTorchPlanTest, RefusesAnotherModel) {
  const ModelSpec deeper = DecoderModel({.dense_layer_count = 3, .tied_embedding = false});
  EXPECT_THAT(
      ImportTorchPlan({"f.json", document_.dump()}, NamedText{"s.csv", passes_}, deeper),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hold 4 layers, and the model 5")));
}

}  // namespace
}  // namespace parplan
