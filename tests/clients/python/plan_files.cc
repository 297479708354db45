// Writes the plans that the executor's tests run as signed files, with the program of every rank,
// for tests of the Python package:
//
//   plan_files FOLDER
//
//   FOLDER/trust.json                 the bundle of the one key that signs
//   FOLDER/NAME/envelope.json         and model.json and topology.json, as a job gets them
//   FOLDER/NAME/programs.json         [rank] the members of RankProgram; blocks are
//                                     [first sample, end, first token, end]
//   FOLDER/NAME/collectives.json      [rank] what CollectivesOfStep lists for the runtime `torch`:
//                                     [purpose, collective, ranks, count]
//   FOLDER/models.json                see model_digests.h
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/step_collectives.h"
#include "planner/model/runtime_traits.h"
#include "planner/program/rank_program.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"
#include "tests/clients/python/model_digests.h"
#include "tests/executor/apply/apply_cases.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/proto/envelope/plan_fixture.h"
#include "tests/support/estimated_problem.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr int kRandomCaseCount = 200;

void WriteText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  PARPLAN_CHECK(file.good());
}

json JsonOf(const ActivationBlock& block) {
  return {block.samples.begin, block.samples.end, block.tokens.begin, block.tokens.end};
}

json JsonOf(const std::vector<Transfer>& transfers) {
  json list = json::array();
  for (const Transfer& transfer : transfers) {
    list.push_back({transfer.peer, JsonOf(transfer.block)});
  }
  return list;
}

json JsonOf(const ReshardProgram& reshard) {
  json copies = json::array();
  for (const ActivationBlock& block : reshard.copies) copies.push_back(JsonOf(block));
  return {
      {"sends", JsonOf(reshard.sends)}, {"receives", JsonOf(reshard.receives)}, {"copies", copies}};
}

json JsonOf(const LayerProgram& layer) {
  return {{"layer", layer.layer_index},
          {"place", {layer.place.tensor, layer.place.context, layer.place.data}},
          {"tensor", layer.tensor_group},
          {"context", layer.context_group},
          {"gradient", layer.gradient_group},
          {"enter", JsonOf(layer.enter)},
          {"leave_backward", JsonOf(layer.leave_backward)}};
}

json JsonOf(const StageProgram& stage) {
  json layers = json::array();
  for (const LayerProgram& layer : stage.layers) layers.push_back(JsonOf(layer));
  return {{"stage", stage.stage_index},
          {"layers", layers},
          {"stage_group", stage.stage_group},
          {"receive_forward", JsonOf(stage.receive_forward)},
          {"send_forward", JsonOf(stage.send_forward)},
          {"receive_backward", JsonOf(stage.receive_backward)},
          {"send_backward", JsonOf(stage.send_backward)},
          {"receive_forward_group", stage.receive_forward_group},
          {"send_forward_group", stage.send_forward_group},
          {"receive_backward_group", stage.receive_backward_group},
          {"send_backward_group", stage.send_backward_group}};
}

json JsonOf(const RankProgram& program) {
  json groups = json::array();
  for (const GroupSpec& group : program.groups) groups.push_back({group.purpose, group.ranks});
  json stages = json::array();
  for (const StageProgram& stage : program.stages) stages.push_back(JsonOf(stage));
  json passes = json::array();
  for (const PipelinePass& pass : program.passes) {
    passes.push_back({pass.stage_index, pass.micro_batch, pass.is_backward()});
  }
  return {{"rank", program.rank}, {"pipeline_place", program.pipeline_place},
          {"groups", groups},     {"stages", stages},
          {"passes", passes},     {"tied", program.tied_group}};
}

// Returns what each rank of a plan exchanges under the runtime `torch`. Counts do not depend on the
// device.
json CollectivesOf(const Plan& plan, const ModelSpec& model) {
  NodeGroup group{.node_group_id = "node",
                  .device_kind = "a100-sxm-80gb",
                  .node_count = 1,
                  .devices_per_node = plan.device_count,
                  .device_memory = Bytes::Of(int64_t{80} << 30)};
  const absl::StatusOr<PlanningProblem> problem = PlanningProblem::Create(
      std::make_shared<const ModelSpec>(model),
      std::make_shared<const Topology>(
          *Topology::Create("here", {std::move(group)}, {{"node", plan.device_count}})),
      {{{nullptr, std::make_shared<const Hardware>(EightA100Nodes())}}}, plan.global_batch_size,
      {.allow_estimates = true, .runtime = *FindRuntime("torch")});
  PARPLAN_CHECK(problem.ok());
  const absl::StatusOr<CostModel> costs = CostModel::Create(*problem);
  PARPLAN_CHECK(costs.ok());
  json ranks = json::array();
  for (int rank = 0; rank < plan.device_count; ++rank) {
    json rows = json::array();
    for (const StepCollective& one : CollectivesOfStep(*problem, *costs, plan, rank)) {
      rows.push_back({std::string(CollectivePurposeName(one.purpose)),
                      CollectiveName(one.collective), one.ranks, one.count});
    }
    ranks.push_back(std::move(rows));
  }
  return ranks;
}

void WriteCase(const std::filesystem::path& folder, const PlanCase& c) {
  std::filesystem::create_directories(folder);
  const ModelSpec model = c.Model();
  const Topology topology = NodeOf(c.plan.device_count);
  v1::PlanPayload payload = PayloadOf(c.plan, model, topology);
  payload.mutable_issue_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  payload.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 86400);
  const PrivateKey key = FirstKey();
  WriteText(folder / "envelope.json", EnvelopeToJson(Sign(payload, {&key})));
  WriteText(folder / "model.json", ToReadableJson(ModelToProto(model)));
  WriteText(folder / "topology.json", ToReadableJson(TopologyToProto(topology)));
  json programs = json::array();
  for (int rank = 0; rank < c.plan.device_count; ++rank) {
    const absl::StatusOr<RankProgram> program = RankProgram::Create(c.plan, model, rank);
    PARPLAN_CHECK(program.ok());
    programs.push_back(JsonOf(*program));
  }
  WriteText(folder / "programs.json", programs.dump());
  WriteText(folder / "collectives.json", CollectivesOf(c.plan, model).dump());
}

void WriteFiles(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const PrivateKey key = FirstKey();
  const absl::StatusOr<TrustBundle> trust =
      TrustBundle::Create({{.public_key = key.public_key(),
                            .not_before = absl::Now() - absl::Hours(24),
                            .not_after = absl::Now() + absl::Hours(48)}});
  PARPLAN_CHECK(trust.ok());
  WriteText(folder / "trust.json", trust->ToJson());
  WriteText(folder / "models.json", ModelDigestsJson());
  for (const PlanCase& c : PlanCases()) WriteCase(folder / c.name, c);
  for (const PlanCase& c : RandomPlanCases(kRandomCaseCount)) WriteCase(folder / c.name, c);
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: plan_files FOLDER\n");
    return 2;
  }
  parplan::WriteFiles(argv[1]);
  return 0;
}
