#include "exports/exported_files.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

std::string Variables(int device_count, int64_t batch, int64_t micro_batch, int64_t steps) {
  return absl::StrCat("PARPLAN_DEVICE_COUNT=", device_count, "\nPARPLAN_GLOBAL_BATCH_SIZE=", batch,
                      "\nPARPLAN_MICRO_BATCH_SIZE_PER_RANK=", micro_batch,
                      "\nPARPLAN_GRADIENT_ACCUMULATION_STEPS=", steps, "\n");
}

}  // namespace

std::string CommonVariables(const UniformPlan& plan) {
  return Variables(plan.device_count, plan.global_batch_size, plan.micro_batch_size_per_rank(),
                   plan.micro_batch_count);
}

std::string CommonVariables(const Plan& plan) {
  const Strategy& reads_samples = plan.stages.front().layer_runs.front().strategy;
  return Variables(plan.device_count, plan.global_batch_size,
                   plan.micro_batch_size() / reads_samples.data_parallel_degree,
                   plan.micro_batch_count);
}

}  // namespace parplan
