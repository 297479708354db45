#include "planner/model/measured_runtime.h"

namespace parplan {

absl::string_view MeasuredRuntime(absl::string_view runtime_id) {
  // Megatron's layers are its own kernels, those of these three are the user's modules.
  if (runtime_id == "fsdp" || runtime_id == "deepspeed" || runtime_id == "accelerate") {
    return "torch";
  }
  if (runtime_id == "parplan-exec") return "parplan";
  return runtime_id;
}

}  // namespace parplan
