#include "studies/table2/table_plans.h"

#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/predict_plan.h"
#include "planner/find_plan.h"
#include "planner/ilp_searches.h"
#include "proto/wire/hardware_library.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/published_calibration.h"

namespace parplan::table2 {
namespace {

// Shapes of the Megatron family (Narayanan et al., SC'21, table 1) and BERT-Large (Devlin et al.):
// inferred from the names, whose parameter counts they have (docs/papers.md 3.2).
struct ModelShape {
  const char* name;
  LayerKind kind;
  int layer_count;
  int hidden_size;
  int head_count;
  int sequence_length;
  int vocabulary_size;
};
constexpr ModelShape kShapes[] = {
    {"BERT-Large", LayerKind::kEncoder, 24, 1024, 16, 512, 30522},
    {"1.7B", LayerKind::kDecoder, 24, 2304, 24, 2048, 51200},
    {"3.6B", LayerKind::kDecoder, 30, 3072, 32, 2048, 51200},
    {"7.5B", LayerKind::kDecoder, 36, 4096, 32, 2048, 51200},
};

absl::StatusOr<LayerDefinition> Define(const ModelShape& shape, const char* id, LayerKind kind) {
  LayerDefinition raw;
  raw.layer_definition_id = id;
  raw.kind = kind;
  raw.hidden_size = shape.hidden_size;
  raw.sequence_length = shape.sequence_length;
  if (IsTransformer(kind)) {
    raw.attention_head_count = shape.head_count;
    raw.feed_forward_size = 4 * shape.hidden_size;
    raw.feed_forward_kind = FeedForwardKind::kGelu;
  } else {
    raw.vocabulary_size = shape.vocabulary_size;
    raw.tied_embedding = kind == LayerKind::kHead;
  }
  return LayerDefinition::Create(std::move(raw), absl::StrCat("model.", id));
}

absl::StatusOr<ModelSpec> ModelOf(const RowSetting& setting) {
  for (const ModelShape& shape : kShapes) {
    if (shape.name != setting.model) continue;
    PARPLAN_ASSIGN_OR_RETURN(LayerDefinition embedding,
                             Define(shape, "embedding", LayerKind::kEmbedding));
    PARPLAN_ASSIGN_OR_RETURN(LayerDefinition block, Define(shape, "block", shape.kind));
    PARPLAN_ASSIGN_OR_RETURN(LayerDefinition head, Define(shape, "head", LayerKind::kHead));
    return ModelSpec::Create(shape.name, {std::move(embedding), std::move(block), std::move(head)},
                             {{0, 1}, {1, shape.layer_count}, {2, 1}}, setting.precision,
                             setting.optimizer);
  }
  return FieldError(Reason::kSpecInvalid, "model",
                    absl::StrCat("`", setting.model, "` is no model of the table"));
}

// Returns an even share of one copy of all states and all kept tensors of the batch.
Bytes EvenShareOf(const PlanningProblem& problem, const CostModel& costs) {
  double bytes = 0.0;
  for (const int definition : problem.model().definition_of_layer()) {
    const LayerMemory memory = costs.searched_group()
                                   .CostOfLayer(definition, Strategy(), problem.global_batch_size(),
                                                /*pipeline_parallel_degree=*/1)
                                   .memory;
    bytes += memory.states().as_double() + memory.kept.as_double();
  }
  return Bytes::Of(static_cast<int64_t>(bytes / problem.device_count()));
}

TableMemory MemoryOf(const PlanningProblem& problem, const CostModel& costs,
                     const Prediction& prediction) {
  const MemoryItems& items = prediction.stages.front().memory;
  TableMemory memory;
  memory.step = prediction.step;
  memory.needed = prediction.peak_memory_upper;
  memory.peak = prediction.peak_memory;
  memory.weights = items[MemoryItemKind::kParameters];
  memory.persistent = memory.weights + items[MemoryItemKind::kGradients] +
                      items[MemoryItemKind::kOptimizerStates] +
                      items[MemoryItemKind::kMasterParameters];
  memory.activations = items[MemoryItemKind::kActivations] + items[MemoryItemKind::kCheckpoints];
  memory.temporary = items[MemoryItemKind::kTransient] +
                     items[MemoryItemKind::kGatheredParameters] + items[MemoryItemKind::kLogits];
  memory.redundant = memory.persistent + memory.activations - EvenShareOf(problem, costs);
  memory.program_memory = memory.persistent + memory.activations;
  memory.program_activations = memory.activations;
  memory.program_redundant = memory.redundant;
  return memory;
}

// Sets the memory of the program's solution, for the planners that have one.
absl::Status AddProgram(const PlanningProblem& problem, const CostModel& costs, Column column,
                        TableMemory& memory) {
  if (column != Column::kTheirs && column != Column::kAlpa) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(
      const AuxiliaryGraph graph,
      IlpSearchesOfBuild().draw_graph(problem, costs,
                                      {.micro_batch_size = problem.global_batch_size(),
                                       .wants_least_time = column == Column::kAlpa}));
  const auto whole = [](double bytes) { return Bytes::Of(std::llround(bytes)); };
  memory.program_memory = whole(graph.memory_bytes);
  memory.program_activations = whole(graph.memory_bytes - graph.state_bytes);
  memory.program_redundant = whole(graph.memory_bytes - graph.even_share_bytes);
  return absl::OkStatus();
}

}  // namespace

absl::string_view PlannerOf(Column column) {
  switch (column) {
    case Column::kMegatronLm:
      return "megatron";
    case Column::kAlpa:
      return "alpa-like";
    case Column::kColossalAuto:
      return "colossal-auto-like";
    case Column::kTheirs:
      return "min-memory-ilp";
  }
  PARPLAN_CHECK(false);
}

absl::StatusOr<PlanningProblem> ProblemOf(const RowSetting& setting, Column column) {
  const DeviceDescription* const device = HardwareLibrary::BuiltIn().FindDevice(setting.device);
  if (device == nullptr) {
    return FieldError(Reason::kSpecInvalid, "--device",
                      absl::StrCat("`", setting.device,
                                   "` is no device of the library; `planctl hardware list` names "
                                   "those there are"));
  }
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelOf(setting));
  NodeGroup group;
  group.node_group_id = "node";
  group.device_kind = device->device_id;
  group.node_count = 1;
  group.devices_per_node = setting.device_count;
  group.device_memory = device->memory;
  PARPLAN_ASSIGN_OR_RETURN(Topology topology,
                           Topology::Create("table2", {group}, {{"node", setting.device_count}}));
  Knowledge knowledge;
  GroupKnowledge& known = knowledge.groups.emplace_back();
  PARPLAN_ASSIGN_OR_RETURN(known.hardware, KnownHardware(topology));
  knowledge.calibration = PublishedCalibration();
  // The program of the authors knows one micro-batch and no pipeline. So that only the choice of
  // strategies differs, their rivals are held to the same.
  PlanningRules rules;
  rules.micro_batch_count = 1;
  rules.max_pipeline_parallel_degree = 1;
  rules.allow_recompute = setting.allow_recompute || column == Column::kColossalAuto;
  rules.allow_estimates = true;
  rules.dimensions =
      rules.dimensions.Without(SearchDimension::kContext).Without(SearchDimension::kUlysses);
  if (!setting.allow_zero) {
    rules.dimensions = rules.dimensions.Without(SearchDimension::kOptimizerSharding)
                           .Without(SearchDimension::kGradientSharding)
                           .Without(SearchDimension::kParameterSharding);
  }
  return PlanningProblem::Create(std::make_shared<const ModelSpec>(std::move(model)),
                                 std::make_shared<const Topology>(std::move(topology)),
                                 std::move(knowledge), setting.global_batch_size, std::move(rules));
}

absl::StatusOr<TableMemory> MemoryOfPlan(const RowSetting& setting, Column column) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem, ProblemOf(setting, column));
  PARPLAN_ASSIGN_OR_RETURN(const CostModel costs, CostModel::Create(problem));
  PARPLAN_ASSIGN_OR_RETURN(const PlanningResult result, FindPlan(problem, PlannerOf(column)));
  const auto* const found = std::get_if<PlanFound>(&result);
  const auto* const nothing = std::get_if<NothingFits>(&result);
  PARPLAN_CHECK(found != nullptr || (nothing != nullptr && nothing->smallest_plan.has_value()));
  const Plan& plan = found != nullptr ? found->plan : *nothing->smallest_plan;
  TableMemory memory = MemoryOf(problem, costs, PredictPlan(problem, costs, plan));
  memory.fits = found != nullptr;
  memory.gist = PlanGist(plan);
  PARPLAN_RETURN_IF_ERROR(AddProgram(problem, costs, column, memory));
  return memory;
}

absl::StatusOr<ProductRows> PlanRows(const PublishedTable& table, const std::string& device,
                                     int64_t global_batch_size) {
  ProductRows rows{.device = device, .global_batch_size = global_batch_size};
  for (const PublishedRow& row : table.rows) {
    RowSetting setting{.model = row.model,
                       .device_count = row.device_count,
                       .global_batch_size = global_batch_size,
                       .device = device,
                       .allow_zero = true};
    std::array<TableMemory, kColumnCount>& cells = rows.cells.emplace_back();
    for (int column = 0; column < kColumnCount; ++column) {
      PARPLAN_ASSIGN_OR_RETURN(cells[column], MemoryOfPlan(setting, static_cast<Column>(column)));
    }
    setting.allow_recompute = true;
    PARPLAN_ASSIGN_OR_RETURN(rows.recomputing.emplace_back(),
                             MemoryOfPlan(setting, Column::kTheirs));
  }
  return rows;
}

}  // namespace parplan::table2
