// `parplan-study ilp`: the integer program's planner on the models its authors used, next to Alpa's
// goal on the same graph, the best uniform plan, and some figures of the authors' table.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/view/text_layout.h"
#include "planner/find_plan.h"
#include "planner/model/planning_problem.h"
#include "proto/wire/hardware_library.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/published_calibration.h"
#include "studies/main/command.h"

namespace parplan::study {
namespace {

using planctl::Wrap;
// Shapes of the Megatron family (Narayanan et al., SC'21, table 1), and BERT-Large
// (Devlin et al.); parameter counts agree with the names.
struct TableModel {
  const char* name;
  LayerKind kind;
  int layer_count;
  int hidden_size;
  int head_count;
  int sequence_length;
  int vocabulary_size;
};
constexpr TableModel kModels[] = {
    {"BERT-Large", LayerKind::kEncoder, 24, 1024, 16, 512, 30522},
    {"1.7B", LayerKind::kDecoder, 24, 2304, 24, 2048, 51200},
    {"3.6B", LayerKind::kDecoder, 30, 3072, 32, 2048, 51200},
    {"7.5B", LayerKind::kDecoder, 36, 4096, 32, 2048, 51200},
};
constexpr int kDeviceCounts[] = {2, 4, 8};

// Some figures of table 2 of Shi et al. (FITEE 26(1), 2025), which docs/papers.md 3.2 has whole:
// memory of the authors' plan, and its ratio to that of another planner's.
struct Published {
  const char* model;
  int device_count;
  const char* text;
};
constexpr Published kPublished[] = {
    {"BERT-Large", 2, "1.244 of Alpa"},
    {"1.7B", 2, "18.8 GB; 1.198 of Colossal-Auto"},
    {"1.7B", 4, "10.6 GB"},
    {"1.7B", 8, "21.5 GB"},
    {"3.6B", 2, "1.713 of Colossal-Auto"},
    {"3.6B", 4, "13.6 GB, Megatron 41.4 GB (0.328)"},
    {"3.6B", 8, "1.095 of Colossal-Auto"},
};
constexpr char kPublishedMeans[] =
    "Published: some figures of table 2 of Shi et al., FITEE 26(1), 2025; docs/papers.md 3.2 has "
    "the whole table. It states no batch, mesh, devices or step times. Geometric means of memory "
    "over its 12 rows: 0.578 of Megatron, 0.598 of Alpa, 0.714 of Colossal-Auto.";

struct TableFlags {
  std::string device = "a100-sxm-80gb";
  int64_t batch = 8;
};

struct IlpCell {
  bool fits = false;
  // Peak memory of the plan or, if nothing fits, the smallest that would suffice.
  Bytes memory;
  Seconds step;
  std::string gist;
};

struct Row {
  const TableModel* model = nullptr;
  int device_count = 0;
  std::vector<IlpCell> cells;  // by planner
  std::string published;
};

const std::vector<std::string>& Planners() {
  static const auto& names =
      *new std::vector<std::string>{"min-memory-ilp", "alpa-like", "megatron"};
  return names;
}

absl::StatusOr<LayerDefinition> Define(const TableModel& shape, const char* id, LayerKind kind) {
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

absl::StatusOr<PlanningProblem> ProblemOf(const TableModel& shape, int device_count,
                                          const TableFlags& flags) {
  const DeviceDescription* const device = HardwareLibrary::BuiltIn().FindDevice(flags.device);
  if (device == nullptr) {
    return FieldError(Reason::kSpecInvalid, "--device",
                      absl::StrCat("`", flags.device,
                                   "` is no device of the library; `planctl hardware list` names "
                                   "those there are"));
  }
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition embedding,
                           Define(shape, "embedding", LayerKind::kEmbedding));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition block, Define(shape, "block", shape.kind));
  PARPLAN_ASSIGN_OR_RETURN(LayerDefinition head, Define(shape, "head", LayerKind::kHead));
  PARPLAN_ASSIGN_OR_RETURN(
      ModelSpec model,
      ModelSpec::Create(shape.name, {std::move(embedding), std::move(block), std::move(head)},
                        {{0, 1}, {1, shape.layer_count}, {2, 1}}, Precision::kBf16,
                        Optimizer::kAdam));
  NodeGroup group;
  group.node_group_id = "node";
  group.device_kind = device->device_id;
  group.node_count = 1;
  group.devices_per_node = device_count;
  group.device_memory = device->memory;
  PARPLAN_ASSIGN_OR_RETURN(Topology topology,
                           Topology::Create("ilp-table", {group}, {{"node", device_count}}));
  Knowledge knowledge;
  PARPLAN_ASSIGN_OR_RETURN(knowledge.hardware, KnownHardware(topology));
  knowledge.calibration = PublishedCalibration();
  // The program knows one micro-batch, no pipeline and no recomputation; so that only the
  // choice of degrees differs, the rival is held to the same.
  PlanningRules rules;
  rules.micro_batch_count = 1;
  rules.max_pipeline_parallel_degree = 1;
  rules.allow_recompute = false;
  rules.allow_estimates = true;
  return PlanningProblem::Create(std::make_shared<const ModelSpec>(std::move(model)),
                                 std::make_shared<const Topology>(std::move(topology)),
                                 std::move(knowledge), flags.batch, std::move(rules));
}

absl::StatusOr<IlpCell> Ask(const PlanningProblem& problem, const std::string& planner) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanningResult result, FindPlan(problem, planner));
  IlpCell cell;
  if (const auto* found = std::get_if<PlanFound>(&result)) {
    cell.fits = true;
    cell.memory = found->prediction.peak_memory;
    cell.step = found->prediction.step;
    cell.gist = PlanGist(found->plan);
  } else if (const auto* nothing = std::get_if<NothingFits>(&result)) {
    cell.memory = nothing->smallest_usable_memory;
  }
  return cell;
}

std::string MemoryText(const IlpCell& cell) {
  const std::string size = absl::StrFormat("%.1f", cell.memory.as_double() * 1e-9);
  return cell.fits ? size : absl::StrCat("> ", size);
}

std::string StepText(const IlpCell& cell) {
  return cell.fits ? absl::StrFormat("%.0f", cell.step.milliseconds()) : "-";
}

std::string IlpText(const std::vector<Row>& rows, const TableFlags& flags) {
  std::string text = absl::StrFormat(
      "One node of %s, batch %d, one micro-batch, GB at the peak and ms a step:\n\n", flags.device,
      flags.batch);
  absl::StrAppendFormat(&text, "  %-10s %7s  %15s %15s %15s  %s\n", "model", "devices",
                        "min-memory-ilp", "alpa-like", "megatron", "published memory");
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "  %-10s %7d ", row.model->name, row.device_count);
    for (const IlpCell& cell : row.cells) {
      absl::StrAppendFormat(&text, " %8s %6s", MemoryText(cell), StepText(cell));
    }
    absl::StrAppend(&text, row.published.empty() ? "" : absl::StrCat("  ", row.published), "\n");
  }
  absl::StrAppend(&text, "\n", Wrap("`> x`: nothing fits, and x is what it takes.", 0), "\n",
                  Wrap(kPublishedMeans, 0), "\n");
  return text;
}

std::string IlpJson(const std::vector<Row>& rows, const TableFlags& flags) {
  nlohmann::ordered_json object;
  object["device"] = flags.device;
  object["global_batch_size"] = flags.batch;
  object["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json line;
    line["model"] = row.model->name;
    line["device_count"] = row.device_count;
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const IlpCell& cell = row.cells[i];
      nlohmann::ordered_json& entry = line[Planners()[i]];
      entry["fits"] = cell.fits;
      if (!cell.fits) {
        entry["smallest_usable_memory_bytes"] = cell.memory.count();
        continue;
      }
      entry["peak_memory_bytes"] = cell.memory.count();
      entry["step_seconds"] = cell.step.value();
      entry["gist"] = cell.gist;
    }
    if (!row.published.empty()) line["published"] = row.published;
    object["rows"].push_back(std::move(line));
  }
  object["published_means"] = kPublishedMeans;
  return object.dump(2) + "\n";
}

absl::Status Table(const Session& session, const TableFlags& flags) {
  std::vector<Row> rows;
  for (const TableModel& model : kModels) {
    for (const int device_count : kDeviceCounts) {
      Row row{.model = &model, .device_count = device_count, .cells = {}, .published = {}};
      PARPLAN_ASSIGN_OR_RETURN(const PlanningProblem problem,
                               ProblemOf(model, device_count, flags));
      for (const std::string& planner : Planners()) {
        PARPLAN_ASSIGN_OR_RETURN(IlpCell cell, Ask(problem, planner));
        row.cells.push_back(std::move(cell));
      }
      for (const Published& cell : kPublished) {
        if (model.name == std::string(cell.model) && device_count == cell.device_count) {
          row.published = cell.text;
        }
      }
      rows.push_back(std::move(row));
    }
  }
  return Print(session, session.json ? IlpJson(rows, flags) : IlpText(rows, flags));
}

}  // namespace

void AddIlpCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<TableFlags>();
  Command command = app.AddCommand(
      "ilp", "Memory and step time of the minimal-memory planner on its authors' models");
  command.Footer("Example:\n  parplan-study ilp --device a100-sxm-80gb --batch 8");
  command.AddOption("--device", flags->device, "Device of the library [a100-sxm-80gb]");
  command.AddOption("--batch", flags->batch, "Samples a step [8]").Check(shell::Positive());
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Table(session, *flags); };
  });
}

}  // namespace parplan::study
