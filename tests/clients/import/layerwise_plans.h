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

// Returns a random plan of `model`, one of `DecoderModel`, that Galvatron can run: any stages with
// a decoder layer, one strategy of embedding and head, and in each decoder layer tensor
// parallelism, rings or Ulysses, full recomputation, and either sharded parameters or what the plan
// has for other layers. Layers with tensor parallelism have sequence parallelism.
Plan RandomGalvatronPlan(std::mt19937_64& random, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_LAYERWISE_PLANS_H_
