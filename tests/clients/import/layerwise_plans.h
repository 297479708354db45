// Random plans whose layers differ, for tests of programs that run such plans.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_LAYERWISE_PLANS_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_LAYERWISE_PLANS_H_

#include <random>

#include "exports/torch_plan_json.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Returns a random plan of `model`, one of `DecoderModel`, that the program of the format can run
// (docs/exports.md): any stages and schedule, and in each layer any degrees, order of ranks,
// sharding and recomputation.
Plan RandomTorchPlan(std::mt19937_64& random, const ModelSpec& model, TorchPlanFormat format);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_LAYERWISE_PLANS_H_
