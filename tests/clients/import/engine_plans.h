// Random plans that DeepSpeed and Accelerate can run.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_ENGINE_PLANS_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_ENGINE_PLANS_H_

#include <random>

#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns a random plan of `model` (decoder_models.h) that DeepSpeed can run: any pipeline, degree,
// sharding and recomputation that docs/exports.md lists.
UniformPlan RandomDeepSpeedPlan(std::mt19937_64& random, const ModelSpec& model);

// The same for Accelerate.
UniformPlan RandomAcceleratePlan(std::mt19937_64& random, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_ENGINE_PLANS_H_
