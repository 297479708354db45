#include "clients/import/megatron_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_rules.h"
#include "clients/import/megatron_run.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ArgumentList ListOf(const std::string& text) {
  const absl::StatusOr<ArgumentList> list = ArgumentList::Read({"run.args", text}, MegatronRules());
  EXPECT_OK(list.status()) << text;
  return list.ok() ? *list : ArgumentList();
}

TEST(FindMegatronWholeGraphs, KnowsWhichGraphsLeaveNothingToTheHost) {
  const auto find = [](const std::string& text) {
    return std::string(FindMegatronWholeGraphs(ListOf(text)));
  };
  EXPECT_EQ(find(""), "");
  EXPECT_EQ(find("--cuda-graph-impl none"), "");
  EXPECT_EQ(find("--cuda-graph-scope full"), "");
  EXPECT_EQ(find("--cuda-graph-impl local"), "cuda-graph-impl");
  EXPECT_EQ(find("--cuda-graph-impl local --cuda-graph-scope full_iteration"), "cuda-graph-impl");
  EXPECT_EQ(find("--cuda-graph-impl full_iteration"), "cuda-graph-impl");
  EXPECT_EQ(find("--cuda-graph-impl transformer_engine --cuda-graph-scope full"),
            "cuda-graph-impl");
  EXPECT_EQ(find("--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router"), "");
  EXPECT_EQ(find("--external-cuda-graph"), "external-cuda-graph");
  EXPECT_EQ(find("--external-cuda-graph --cuda-graph-scope attn"), "");
  EXPECT_EQ(find("--enable-cuda-graph"), "enable-cuda-graph");
  EXPECT_EQ(find("--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router"), "");
}

TEST(NotesOnMegatronLaunches, NameWhatThePredictionPricesAllTheSame) {
  const auto notes = [](const std::string& text, bool has_experts = true) {
    return NotesOnMegatronLaunches(ListOf(text), has_experts);
  };
  const std::string padded = "--moe-pad-expert-input-to-capacity";
  EXPECT_THAT(notes("--bf16"), IsEmpty());
  EXPECT_THAT(notes("--cuda-graph-impl none --cuda-graph-scope full"), IsEmpty());
  EXPECT_THAT(notes(padded), ElementsAre("The wait for expert counts is priced although "
                                         "--moe-pad-expert-input-to-capacity avoids it."));
  EXPECT_THAT(
      notes("--cuda-graph-impl local --cuda-graph-scope full_iteration"),
      ElementsAre("The wait for expert counts is priced although --cuda-graph-impl avoids it.",
                  "Read, and not part of the prediction: --cuda-graph-scope."));
  EXPECT_THAT(notes("--external-cuda-graph --cuda-graph-scope attn"),
              ElementsAre("Read, and not part of the prediction: --external-cuda-graph, "
                          "--cuda-graph-scope."));
  EXPECT_THAT(notes("--cuda-graph-impl local --cuda-graph-modules attn"),
              ElementsAre("Read, and not part of the prediction: --cuda-graph-impl, "
                          "--cuda-graph-modules."));
  EXPECT_THAT(notes(padded + " --cuda-graph-impl local", false),
              ElementsAre("Read, and not part of the prediction: "
                          "--moe-pad-expert-input-to-capacity, --cuda-graph-impl."));
}

TEST(NotesOnMegatronLaunches, AreNotesOfARun) {
  const auto notes_of = [](const std::string& arguments) {
    const absl::StatusOr<MegatronRunImport> run = ImportMegatronRun(
        {"run.args", absl::StrCat("--num-layers 4 --hidden-size 64 --num-attention-heads 4 "
                                  "--seq-length 64 --vocab-size 100 --micro-batch-size 1 ",
                                  arguments)},
        {.device_count = 8});
    EXPECT_OK(run.status()) << arguments;
    return run.ok() ? run->notes : std::vector<std::string>();
  };
  const std::string padded = "--moe-pad-expert-input-to-capacity";
  EXPECT_THAT(notes_of(padded + " --num-experts 8"),
              Contains(HasSubstr("The wait for expert counts is priced")));
  EXPECT_THAT(notes_of(padded), Not(Contains(HasSubstr("expert counts"))));
}

}  // namespace
}  // namespace parplan
