#include "planner/model/runtime_traits.h"

#include <gtest/gtest.h>

namespace parplan {
namespace {

TEST(TraitsOn, ProcessorsHaveNoAllocatorOfGpus) {
  const RuntimeTraits& torch = *FindRuntime("torch");
  EXPECT_GT(torch.free_block_share, 0.0);
  EXPECT_EQ(TraitsOn(torch, "NVIDIA H100 80GB HBM3"), torch);
  RuntimeTraits expected = torch;
  expected.free_block_share = 0.0;
  EXPECT_EQ(TraitsOn(torch, "CPU AMD EPYC"), expected);
}

TEST(TraitsOn, TheExecutorKnowsItsArraysOnProcessors) {
  EXPECT_EQ(TraitsOn(RuntimeTraits(), "CPU AMD EPYC"), ExecutorTraits());
  EXPECT_EQ(TraitsOn(RuntimeTraits(), "NVIDIA H100 80GB HBM3"), RuntimeTraits());
  const RuntimeTraits& exec = *FindRuntime("parplan-exec");
  EXPECT_EQ(exec.gradient_bytes, 4);
  EXPECT_EQ(TraitsOn(exec, "NVIDIA H100 80GB HBM3"), exec);
  RuntimeTraits on_processors = ExecutorTraits();
  on_processors.runtime_id = "parplan-exec";
  EXPECT_EQ(TraitsOn(exec, "CPU AMD EPYC"), on_processors);
  RuntimeTraits changed;
  changed.eager = false;
  EXPECT_EQ(TraitsOn(changed, "CPU AMD EPYC"), changed);
}

}  // namespace
}  // namespace parplan
