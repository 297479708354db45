#include "clients/import/megatron_states.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_rules.h"
#include "clients/import/megatron_yaml.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::vector<std::string>> StatesOf(const std::string& text) {
  const absl::StatusOr<ArgumentList> list = ArgumentList::Read({"run.args", text}, MegatronRules());
  if (!list.ok()) return list.status();
  return NotesOnMegatronStates(*list);
}

constexpr char kPrecisionAware[] =
    "--use-precision-aware-optimizer --use-distributed-optimizer --bf16 ";

// Core 0.16.1 keeps the lower half of a master beside parameters in bf16: 2 bytes and moments.
TEST(NotesOnMegatronStates, SayWhatIsKeptAndWhatIsPriced) {
  EXPECT_THAT(*StatesOf("--bf16"), IsEmpty());
  EXPECT_THAT(*StatesOf("--bf16 --main-grads-dtype fp32 --exp-avg-dtype fp32"), IsEmpty());
  EXPECT_THAT(*StatesOf(kPrecisionAware),
              ElementsAre(HasSubstr("10 bytes of states for a parameter")));
  EXPECT_THAT(
      *StatesOf(absl::StrCat(kPrecisionAware, "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16")),
      ElementsAre(HasSubstr("6 bytes of states for a parameter (master 2, with "
                            "Transformer Engine 2.1 or later, moments 2 and 2); the "
                            "prediction has 12 and 4")));
  EXPECT_THAT(
      *StatesOf(absl::StrCat(kPrecisionAware, "--main-params-dtype fp16 --exp-avg-dtype fp8 ",
                             "--main-grads-dtype bf16")),
      ElementsAre(HasSubstr("7 bytes of states for a parameter (master 2, moments 1 and "
                            "4) and 2 of its gradient")));
  // Whole masters beside products in 8 bits, but for delayed scales.
  EXPECT_THAT(
      *StatesOf(absl::StrCat(kPrecisionAware, "--fp8-format hybrid --fp8-recipe blockwise")),
      IsEmpty());
  EXPECT_THAT(*StatesOf(absl::StrCat(kPrecisionAware, "--fp8-format hybrid")),
              ElementsAre(HasSubstr("10 bytes")));
}

TEST(NotesOnMegatronStates, RefusesWhatTheProgramRefuses) {
  const auto error = [](const std::string& text) { return StatesOf(text).status().ToString(); };
  EXPECT_THAT(error("--exp-avg-dtype bf16"),
              HasSubstr("--exp-avg-dtype: must be fp32 without --use-precision-aware-optimizer"));
  EXPECT_THAT(error("--use-precision-aware-optimizer"),
              HasSubstr("needs --use-distributed-optimizer"));
  EXPECT_THAT(error(absl::StrCat(kPrecisionAware, "--optimizer sgd")),
              HasSubstr("needs --optimizer adam"));
  EXPECT_THAT(error(absl::StrCat(kPrecisionAware, "--main-grads-dtype fp8")),
              HasSubstr("--main-grads-dtype: must be one of fp32, bf16"));
  EXPECT_THAT(error(absl::StrCat(kPrecisionAware, "--exp-avg-sq-dtype int4")),
              HasSubstr("--exp-avg-sq-dtype: must be one of"));
}

TEST(NotesOnMegatronStates, ReadsThemFromAConfigurationOfTheBridge) {
  ASSERT_OK_AND_ASSIGN(const MegatronYaml yaml,
                       ReadMegatronYaml({"run.yaml",
                                         "model:\n  num_layers: 2\noptimizer:\n"
                                         "  use_precision_aware_optimizer: true\n"
                                         "  main_grads_dtype: torch.bfloat16\n"
                                         "  exp_avg_dtype:\n    _target_: torch.bfloat16\n"
                                         "  optimizer_cpu_offload: false\n"
                                         "ddp:\n  num_distributed_optimizer_instances: 1\n"}));
  EXPECT_THAT(yaml.arguments, ElementsAre("--num-layers", "2", "--use-precision-aware-optimizer",
                                          "--main-grads-dtype", "bf16", "--exp-avg-dtype", "bf16"));
  ASSERT_OK_AND_ASSIGN(const MegatronYaml other,
                       ReadMegatronYaml({"run.yaml",
                                         "model:\n  num_layers: 2\noptimizer:\n"
                                         "  optimizer_cpu_offload: true\n"
                                         "ddp:\n  num_distributed_optimizer_instances: 2\n"}));
  EXPECT_THAT(other.arguments, ElementsAre("--num-layers", "2", "--optimizer-cpu-offload",
                                           "--num-distributed-optimizer-instances", "2"));
}

}  // namespace
}  // namespace parplan
