#include "executor/device/cuda/device_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace parplan::cuda {
namespace {

TEST(DeviceCode, MachineCodeServesItsMajorVersionAndPtxEveryLaterOne) {
  EXPECT_TRUE(HasCodeFor("80-real;90-real", 80));
  EXPECT_TRUE(HasCodeFor("80-real;90-real", 86));
  EXPECT_TRUE(HasCodeFor("80-real;90-real", 90));
  EXPECT_FALSE(HasCodeFor("80-real;90-real", 75));
  EXPECT_FALSE(HasCodeFor("86-real", 80));
  EXPECT_FALSE(HasCodeFor("80-real;90-real", 100));
  EXPECT_TRUE(HasCodeFor("90-real;90-virtual", 120));
  EXPECT_FALSE(HasCodeFor("90-real;90-virtual", 80));
  EXPECT_TRUE(HasCodeFor("80", 90));
  EXPECT_FALSE(HasCodeFor("native", 90));
}

TEST(DeviceCode, AMissingOneIsOneLineWithBothSides) {
  const std::string text = NoCodeText("GPU 0 (0000:01:00.0)", 80, "90-real;90-virtual");
  EXPECT_THAT(text, testing::AllOf(testing::HasSubstr("GPU 0"), testing::HasSubstr("8.0"),
                                   testing::HasSubstr("90-real;90-virtual"),
                                   testing::HasSubstr("CMAKE_CUDA_ARCHITECTURES=80")));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  // Kept whole by PluginFindings.
  EXPECT_LT(text.size(), 256);
}

}  // namespace
}  // namespace parplan::cuda
