// The kernels under test here: the emulated ones, in both orders of threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/executor/device/cuda/emulated_subject.h"

namespace parplan {

std::vector<SubjectChoice> SubjectChoices() {
  return {{ElementType::kFloat32, 0},
          {ElementType::kFloat32, 1},
          {ElementType::kBfloat16, 0},
          {ElementType::kBfloat16, 1}};
}

std::string SubjectName(const SubjectChoice& choice) {
  return std::string(choice.type == ElementType::kFloat32 ? "Fp32" : "Bf16") +
         (choice.variant == 0 ? "" : "LastThreadFirst");
}

std::unique_ptr<KernelSubject> MakeSubject(const SubjectChoice& choice, std::string&) {
  return MakeEmulatedKernels(choice.type, choice.variant != 0);
}

namespace {

TEST(Emulation, HeadsThatAreTooLargeAreRefusedWhereTheyAreAskedFor) {
  const auto subject = MakeEmulatedKernels(ElementType::kBfloat16, false);
  AttentionShape shape = {.sample_count = 1,
                          .query_count = 1,
                          .key_count = 1,
                          .head_count = 1,
                          .key_value_head_count = 1,
                          .head_size = 128};
  EXPECT_OK(subject->kernels().CheckAttention(shape));
  shape.head_size = 129;
  EXPECT_THAT(subject->kernels().CheckAttention(shape),
              StatusIs(absl::StatusCode::kUnimplemented,
                       testing::AllOf(testing::HasSubstr("head_size: is 129"),
                                      testing::HasSubstr("cuDNN"))));
  // Who does not ask is told in the end.
  float number = 0.0f;
  subject->kernels().Attention(shape, &number, &number, &number, &number, &number);
  EXPECT_THAT(subject->kernels().Synchronize(),
              StatusIs(absl::StatusCode::kUnimplemented, testing::HasSubstr("head_size")));
}

// What decides whether a GPU uses kernels that are several operations in one.
TEST(Emulation, OperationsInOneKernelHaveTheBitsOfTheirParts) {
  for (const SubjectChoice& choice : SubjectChoices()) {
    SCOPED_TRACE(SubjectName(choice));
    EXPECT_TRUE(FusedEmulatedKernelsAreTheSame(choice.type, choice.variant != 0));
    for (const int wrong : {0, 1, 2}) {
      EXPECT_FALSE(FusedEmulatedKernelsAreTheSame(choice.type, choice.variant != 0, wrong))
          << "operation " << wrong;
    }
  }
}

// The rehearsal before a job's first step sees one micro-batch. Any other must neither need more
// memory nor a kernel that was not launched then.
TEST(Emulation, TheBackwardPassOfAnEmbeddingNeedsTheSameForAllTokens) {
  std::vector<float> gradient(4, 0.5f);
  const QueueUse equal = UseOfEmbedBackward({11, 11, 11, 11}, 10, gradient);
  EXPECT_THAT(gradient, testing::ElementsAre(0.5f, 4.5f, 0.5f, 0.5f));
  EXPECT_EQ(equal.launch_count, 1);
  EXPECT_EQ(UseOfEmbedBackward({10, 11, 12, 13}, 10, gradient), equal);
  EXPECT_THAT(gradient, testing::ElementsAre(1.5f, 5.5f, 1.5f, 1.5f));
  // None of this rank's rows.
  EXPECT_EQ(UseOfEmbedBackward({1, 2, 3, 14}, 10, gradient), equal);
  EXPECT_THAT(gradient, testing::ElementsAre(1.5f, 5.5f, 1.5f, 1.5f));
}

}  // namespace
}  // namespace parplan
