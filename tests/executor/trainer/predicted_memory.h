// The memory that the planner predicts for plans of small models, item by item.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_PREDICTED_MEMORY_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_PREDICTED_MEMORY_H_

#include <memory>
#include <vector>

#include "executor/device/kernels/array_pool.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

enum class MemoryKnowledge {
  // Layers as the executor's probe measured them.
  kProfile,
  // Nothing but the model and a data sheet.
  kTheory,
};

// [device of the pipeline] the prediction for a plan of the runtime `parplan`.
std::vector<MemoryItems> PredictMemory(const ModelSpec& model, const Plan& plan,
                                       MemoryKnowledge knowledge);

// The peak's items as the executor counts them, in the planner's kinds.
MemoryItems ItemsOf(const ArrayUsage& usage);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_PREDICTED_MEMORY_H_
