#include "exports/exported_files.h"

#include "absl/strings/str_cat.h"

namespace parplan {

std::string CommonVariables(const UniformPlan& plan) {
  return absl::StrCat("PARPLAN_DEVICE_COUNT=", plan.device_count,
                      "\nPARPLAN_GLOBAL_BATCH_SIZE=", plan.global_batch_size,
                      "\nPARPLAN_MICRO_BATCH_SIZE_PER_RANK=", plan.micro_batch_size_per_rank(),
                      "\nPARPLAN_GRADIENT_ACCUMULATION_STEPS=", plan.micro_batch_count, "\n");
}

}  // namespace parplan
