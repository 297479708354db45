#include "clients/import/megatron_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the arguments of a file; the error's text goes to the test.
std::vector<std::string> WordsOf(const std::string& text) {
  const absl::StatusOr<MegatronYaml> yaml = ReadMegatronYaml({"a.yaml", text});
  EXPECT_OK(yaml.status()) << text;
  return yaml.ok() ? yaml->arguments : std::vector<std::string>();
}

TEST(ReadMegatronYaml, TakesListsOfATestApart) {
  const auto words_of = [](const std::string& lines) {
    return WordsOf(absl::StrCat("MODEL_ARGS:\n  ", lines, "\n"));
  };
  const std::string sizes = "--hierarchical-context-parallel-sizes";
  for (const char* const list :
       {" [2, 4]", " [\"2\",'4']", "\n    - 2\n    - 4", "\n  - 2\n  - 4"}) {
    EXPECT_THAT(words_of(absl::StrCat(sizes, ":", list)), ElementsAre(sizes, "2", "4")) << list;
  }
  EXPECT_THAT(words_of(sizes + ": 2 4"), ElementsAre(sizes, "2 4"));
  EXPECT_THAT(words_of("--recompute-modules: \"[layernorm moe_act]\""),
              ElementsAre("--recompute-modules", "layernorm", "moe_act"));
  EXPECT_THAT(words_of("--cp-comm-type: [p2p, p2p]"), ElementsAre("--cp-comm-type", "p2p", "p2p"));
  EXPECT_THAT(words_of("--recompute-modules: [mlp]"), ElementsAre("--recompute-modules", "mlp"));
  EXPECT_THAT(words_of("--cuda-graph-scope: [attn, moe_router]"),
              ElementsAre("--cuda-graph-scope", "attn", "moe_router"));
  for (const char* const none : {" []", " null", " false", ""}) {
    EXPECT_THAT(words_of(absl::StrCat("--cp-comm-type:", none)), IsEmpty()) << none;
  }
  // Two lists after each other.
  EXPECT_THAT(
      words_of("--cp-comm-type:\n    - a2a+p2p\n  --recompute-modules:\n    - mlp\n    - moe"),
      ElementsAre("--cp-comm-type", "a2a+p2p", "--recompute-modules", "mlp", "moe"));
  // One value in brackets is a pattern.
  EXPECT_THAT(words_of("--moe-layer-freq: ([0]*1+[1]*3)\n  --window-size: [7, 0]"),
              ElementsAre("--moe-layer-freq", "([0]*1+[1]*3)", "--window-size", "[7, 0]"));
}

TEST(ReadMegatronYaml, TakesListsOfABridgeApart) {
  const auto words_of = [](const std::string& lines) {
    return WordsOf(absl::StrCat("model:\n  ", lines, "\n"));
  };
  const std::string sizes = "hierarchical_context_parallel_sizes:";
  for (const char* const list : {" [2, 4]", "\n    - 2\n    - 4", "\n  - 2\n  - 4"}) {
    EXPECT_THAT(
        words_of(absl::StrCat("cp_comm_type: a2a+p2p\n  ", sizes, list)),
        ElementsAre("--cp-comm-type", "a2a+p2p", "--hierarchical-context-parallel-sizes", "2", "4"))
        << list;
  }
  EXPECT_THAT(words_of("cp_comm_type: [p2p, p2p]\n  " + sizes + " null"),
              ElementsAre("--cp-comm-type", "p2p", "p2p"));
  // Only selective recomputation reads its modules.
  const std::string modules = "recompute_modules: [core_attn, mlp]";
  EXPECT_THAT(words_of(modules), IsEmpty());
  EXPECT_THAT(words_of("recompute_granularity: selective\n  " + modules),
              ElementsAre("--recompute-granularity", "selective", "--recompute-modules",
                          "core_attn", "mlp"));
  EXPECT_THAT(words_of("cuda_graph_impl: local\n  cuda_graph_scope: []\n  "
                       "external_cuda_graph: false\n  moe_pad_expert_input_to_capacity: true"),
              ElementsAre("--cuda-graph-impl", "local", "--moe-pad-expert-input-to-capacity"));
  // Other maps than the model say something of parallelism too.
  EXPECT_THAT(words_of("bf16: true\ndist:\n  use_megatron_fsdp: true\n  local_rank: 0\n"
                       "optimizer:\n  use_distributed_optimizer: true\npeft: null"),
              ElementsAre("--bf16", "--use-megatron-fsdp", "--use-distributed-optimizer"));
  EXPECT_THAT(words_of("bf16: true\ndist:\n  use_tp_pp_dp_mapping: true"),
              ElementsAre("--bf16", "--use-tp-pp-dp-mapping"));
  EXPECT_THAT(
      ReadMegatronYaml({"a.yaml", "model:\n  bf16: true\npeft:\n  dim: 32\n"}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a.yaml: peft.dim: trains adapters")));
  // Scopes may be objects of an enumeration.
  EXPECT_THAT(words_of("cuda_graph_scope:\n    - _target_: a.Scope\n      _args_: [1]"), IsEmpty());
}

}  // namespace
}  // namespace parplan
