#include "clients/import/galvatron_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_names.h"
#include "planner/model/stage_layers.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr Reason kPlanReason = Reason::kSpecInvalid;
// Longest quotation in an error, in bytes; longer texts are cut.
constexpr size_t kMaxQuoted = 40;
constexpr char kExpertDegrees[] = "tp_of_ep_sizes_enc";

bool IsEmbedding(LayerKind kind) {
  return kind == LayerKind::kEmbedding || kind == LayerKind::kPatchEmbedding;
}

// Returns the name of one entry of a list.
std::string EntryField(const char* key, size_t index) { return absl::StrCat(key, "[", index, "]"); }

absl::Status CheckModelEnds(const ModelSpec& model) {
  if (model.layer_count() >= 3 && IsEmbedding(model.layer(0).kind) &&
      model.layer(model.layer_count() - 1).kind == LayerKind::kHead) {
    return absl::OkStatus();
  }
  return FieldError(kPlanReason, "model.layer_runs",
                    "must start with one embedding and end with one head for Galvatron's format");
}

// Reads the keys of one file.
class PlanReader {
 public:
  PlanReader(const NamedText& file, const ModelSpec& model, const GalvatronPlanOptions& options)
      : file_(file), model_(model), options_(options) {}

  absl::StatusOr<GalvatronPlanImport> Read();

 private:
  // A whole number; `otherwise` when absent.
  absl::StatusOr<int> Number(const char* key, int minimum, std::optional<int> otherwise) const;
  // Reads one number for each of `size` owners, `layer` or `stage` in the error; as text with
  // commas or a JSON list. `otherwise` for each when absent.
  absl::StatusOr<std::vector<int>> List(const char* key, absl::string_view owner, int size,
                                        int minimum, int maximum,
                                        std::optional<int> otherwise) const;
  // Reads one number a transformer layer.
  absl::StatusOr<std::vector<int>> LayerList(const char* key, int minimum, int maximum,
                                             std::optional<int> otherwise) const {
    return List(key, "transformer layer of the model", layer_count(), minimum, maximum, otherwise);
  }
  absl::StatusOr<int> DeviceCount() const;
  // Refuses experts that are spread over ranks.
  absl::Status CheckExpertRanks() const;
  // Refuses a transformer layer, counted from 0, whose experts are divided over another number of
  // ranks than the rest of the layer, `degree`. Layers without experts pass, as do all if the file
  // does not say how experts are divided.
  absl::Status CheckExpertDegree(int layer, int expert_degree, int degree);
  absl::StatusOr<std::vector<int>> StageSizes(int stage_count) const;
  // The values of one layer in the file, and the fields that have its degrees.
  struct LayerEntry {
    std::string degree_field;
    std::string context_field;
    std::string ulysses_field;
    int degree = 1;
    int context = 1;
    bool ulysses = false;
    bool consecutive = true;
    bool sharded = false;
    bool recompute = false;
  };
  absl::StatusOr<Strategy> MakeStrategy(const LayerEntry& entry);
  absl::Status Error(absl::string_view field, absl::string_view rule) const {
    return ImportError(kPlanReason, file_.name, field, rule);
  }

  // Transformer layers of the model.
  int layer_count() const { return model_.layer_count() - 2; }

  const NamedText& file_;
  const ModelSpec& model_;
  const GalvatronPlanOptions& options_;
  json object_;
  // Ranks of a stage.
  int width_ = 1;
  // Level of layers that do not shard parameters, at data-parallel degree > 1.
  ShardingLevel default_level_ = ShardingLevel::kNone;
  bool sequence_parallel_ = false;
  bool approximated_ = false;
  // Whether experts are divided and the file does not say how.
  bool lacks_expert_degrees_ = false;
};

absl::StatusOr<int> PlanReader::Number(const char* key, int minimum,
                                       std::optional<int> otherwise) const {
  const auto found = object_.find(key);
  if (found != object_.end()) return ReadCount(*found, minimum, kPlanReason, file_.name, key);
  if (otherwise.has_value()) return *otherwise;
  return Error(key, "is missing");
}

absl::StatusOr<std::vector<int>> PlanReader::List(const char* key, absl::string_view owner,
                                                  int size, int minimum, int maximum,
                                                  std::optional<int> otherwise) const {
  const auto found = object_.find(key);
  if (found == object_.end()) {
    if (otherwise.has_value()) return std::vector<int>(size, *otherwise);
    return Error(key, "is missing");
  }
  std::vector<int> values;
  if (found->is_string()) {
    const std::string text = found->get<std::string>();
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      int value = 0;
      if (!absl::SimpleAtoi(part, &value)) {
        return Error(EntryField(key, values.size()),
                     absl::StrCat("is `", part.substr(0, kMaxQuoted),
                                  "`; the text must be whole numbers with commas between them"));
      }
      values.push_back(value);
    }
  } else if (found->is_array()) {
    for (const json& entry : *found) {
      PARPLAN_ASSIGN_OR_RETURN(const int value, ReadCount(entry, 0, kPlanReason, file_.name,
                                                          EntryField(key, values.size())));
      values.push_back(value);
    }
  } else {
    return Error(key, "must be a text of numbers with commas, or a list");
  }
  if (values.size() != static_cast<size_t>(size)) {
    return Error(key, absl::StrCat("must have ", size, " entries, one for each ", owner,
                                   "; it has ", values.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < minimum || values[i] > maximum) {
      return Error(EntryField(key, i),
                   absl::StrCat("is ", values[i], "; must be from ", minimum, " to ", maximum));
    }
  }
  return values;
}

absl::StatusOr<int> PlanReader::DeviceCount() const {
  if (options_.device_count > 0) return options_.device_count;
  PARPLAN_ASSIGN_OR_RETURN(const int world_size, Number("world_size", 1, 0));
  if (world_size > 0) return world_size;
  const int named = ParseGalvatronFileName(file_.name).device_count;
  if (named > 0) return named;
  return Error("world_size",
               "is missing, and the file name does not say the number of devices; "
               "give the cluster");
}

absl::StatusOr<std::vector<int>> PlanReader::StageSizes(int stage_count) const {
  if (stage_count > layer_count()) {
    return Error("pp_deg", absl::StrCat("must be at most the ", layer_count(),
                                        " transformer layers of the model"));
  }
  if (!object_.contains("pp_division")) {
    std::vector<int> sizes(stage_count, layer_count() / stage_count);
    sizes.back() += layer_count() % stage_count;
    return sizes;
  }
  PARPLAN_ASSIGN_OR_RETURN(std::vector<int> sizes, List("pp_division", "stage", stage_count, 1,
                                                        layer_count(), std::nullopt));
  int64_t sum = 0;
  for (int size : sizes) sum += size;
  if (sum != layer_count()) {
    return Error("pp_division", absl::StrCat("must add up to the ", layer_count(),
                                             " transformer layers of the model, not to ", sum));
  }
  return sizes;
}

absl::StatusOr<Strategy> PlanReader::MakeStrategy(const LayerEntry& entry) {
  if (width_ % entry.degree != 0) {
    return Error(entry.degree_field,
                 absl::StrCat("is ", entry.degree, ", which does not divide the ", width_,
                              " devices of a stage"));
  }
  if (width_ / entry.degree % entry.context != 0) {
    return Error(entry.context_field,
                 absl::StrCat("is ", entry.context, ", which does not divide the ",
                              width_ / entry.degree, " devices that ", entry.degree_field, " ",
                              entry.degree, " leaves of the ", width_, " of a stage"));
  }
  const bool ulysses = entry.ulysses && entry.degree > 1;
  if (ulysses && entry.context > 1) {
    return Error(entry.ulysses_field,
                 absl::StrCat("is Ulysses beside context parallelism (", entry.context_field, " ",
                              entry.context, "), which parplan does not have"));
  }
  if (ulysses && !entry.consecutive) {
    return Error(entry.ulysses_field,
                 "is Ulysses over strided devices, which parplan does not have");
  }
  Strategy strategy;
  strategy.context_parallel_degree = entry.context;
  if (!ulysses) {
    strategy.tensor_parallel_degree = entry.degree;
  } else if (options_.ulysses_as_data_parallel) {
    approximated_ = true;
  } else {
    strategy.context_parallel_degree = entry.degree;
    strategy.context_kind = ContextKind::kUlysses;
  }
  const int tensor = strategy.tensor_parallel_degree;
  strategy.data_parallel_degree = width_ / tensor / strategy.context_parallel_degree;
  if (tensor > 1 && width_ > tensor && !entry.consecutive) {
    strategy.rank_order = RankOrder::kDataInnermost;
  }
  // Without data parallelism the engine reads its own files as replicated, also where
  // Ulysses groups hold copies of the parameters.
  if (strategy.data_parallel_degree > 1) {
    strategy.sharding_level = entry.sharded ? ShardingLevel::kParameters : default_level_;
  }
  strategy.recompute_level = entry.recompute ? RecomputeLevel::kFull : RecomputeLevel::kNone;
  strategy.sequence_parallel = sequence_parallel_ && tensor > 1;
  return strategy;
}

absl::Status PlanReader::CheckExpertRanks() const {
  PARPLAN_ASSIGN_OR_RETURN(const auto degrees, LayerList("ep_sizes_enc", 1, kMaxImportCount, 1));
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] == 1) continue;
    return Error(EntryField("ep_sizes_enc", i),
                 absl::StrCat("spreads the experts of layer ", i, " over ", degrees[i],
                              " ranks, which is not read here"));
  }
  return absl::OkStatus();
}

absl::Status PlanReader::CheckExpertDegree(int layer, int expert_degree, int degree) {
  if (!model_.layer(layer + 1).has_experts() || expert_degree == degree) return absl::OkStatus();
  if (!object_.contains(kExpertDegrees)) {
    lacks_expert_degrees_ = true;
    return absl::OkStatus();
  }
  return Error(EntryField(kExpertDegrees, layer),
               absl::StrCat("divides experts over ", expert_degree,
                            " ranks, where tensor parallelism divides the rest of the layer over ",
                            degree, "; this is not read here"));
}

absl::StatusOr<GalvatronPlanImport> PlanReader::Read() {
  PARPLAN_RETURN_IF_ERROR(CheckModelEnds(model_));
  PARPLAN_ASSIGN_OR_RETURN(object_, ParseJsonObject(file_, kPlanReason));
  static constexpr const char* kKnownKeys[] = {
      "pp_deg",     "tp_sizes_enc", "tp_consecutive_flags", "dp_types_enc",
      "global_bsz", "chunks",       "pp_division",          "checkpoint",
      "vsp",        "vtp",          "pipeline_type",        "default_dp_type",
      "use_sp",     "embed_sdp",    "world_size",           "cp_sizes_enc",
      "vcp",        "vocab_sdp",    "ep_sizes_enc",         kExpertDegrees};
  GalvatronPlanImport result;
  for (const auto& [key, value] : object_.items()) {
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), key) == std::end(kKnownKeys)) {
      result.notes.push_back(
          absl::StrCat(file_.name, ": `", key, "` is not known and was ignored"));
    }
  }
  Plan& plan = result.plan;
  PARPLAN_ASSIGN_OR_RETURN(plan.device_count, DeviceCount());
  PARPLAN_ASSIGN_OR_RETURN(const int stage_count, Number("pp_deg", 1, std::nullopt));
  if (plan.device_count % stage_count != 0) {
    return Error("pp_deg", absl::StrCat("is ", stage_count, ", which does not divide ",
                                        plan.device_count, " devices"));
  }
  width_ = plan.device_count / stage_count;
  PARPLAN_ASSIGN_OR_RETURN(plan.global_batch_size, Number("global_bsz", 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(const int chunks, Number("chunks", 1, std::nullopt));
  plan.micro_batch_count = options_.micro_batch_count > 0 ? options_.micro_batch_count : chunks;
  if (plan.global_batch_size % plan.micro_batch_count != 0) {
    const std::string rule =
        absl::StrCat("is ", plan.micro_batch_count, ", which does not divide global_bsz ",
                     plan.global_batch_size, "; micro-batches must be equal, ");
    if (options_.micro_batch_count > 0) {
      return FieldError(kPlanReason, "--galvatron-micro-batches",
                        absl::StrCat(rule, "give a number that divides it"));
    }
    return Error("chunks",
                 absl::StrCat(rule, "give another number with --galvatron-micro-batches"));
  }

  const std::string schedule =
      object_.value("pipeline_type", json("pipedream_flush")).is_string()
          ? object_.value("pipeline_type", json("pipedream_flush")).get<std::string>()
          : "";
  if (schedule == "gpipe") {
    plan.schedule = Schedule::kGpipe;
  } else if (schedule != "pipedream_flush") {
    return Error("pipeline_type", "must be `gpipe` or `pipedream_flush`");
  }
  if (object_.contains("default_dp_type")) {
    if (object_["default_dp_type"] == "zero2") {
      default_level_ = ShardingLevel::kGradients;
    } else if (object_["default_dp_type"] != "ddp") {
      return Error("default_dp_type", "must be `ddp` or `zero2`");
    }
  }
  sequence_parallel_ = options_.sequence_parallel.value_or(object_.contains("use_sp"));

  PARPLAN_ASSIGN_OR_RETURN(const auto degrees,
                           LayerList("tp_sizes_enc", 1, plan.device_count, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(const auto consecutive, LayerList("tp_consecutive_flags", 0, 1, 1));
  PARPLAN_ASSIGN_OR_RETURN(const auto sharded, LayerList("dp_types_enc", 0, 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(const auto recompute, LayerList("checkpoint", 0, 1, 0));
  PARPLAN_ASSIGN_OR_RETURN(const auto ulysses, LayerList("use_sp", 0, 1, 0));
  PARPLAN_ASSIGN_OR_RETURN(const auto context, LayerList("cp_sizes_enc", 1, 1 << 16, 1));
  PARPLAN_ASSIGN_OR_RETURN(const int vocabulary_context, Number("vcp", 1, 1));
  PARPLAN_ASSIGN_OR_RETURN(const int vocabulary_degree, Number("vtp", 1, 1));
  PARPLAN_ASSIGN_OR_RETURN(const int vocabulary_ulysses, Number("vsp", 0, 0));
  // Version 2.4.0 reads the first key, the runtime of 2026 only the second.
  PARPLAN_ASSIGN_OR_RETURN(const int embedding_sharded, Number("embed_sdp", 0, 0));
  PARPLAN_ASSIGN_OR_RETURN(const int vocabulary_sharded, Number("vocab_sdp", 0, embedding_sharded));
  if (object_.contains("embed_sdp") && (embedding_sharded != 0) != (vocabulary_sharded != 0)) {
    return Error("vocab_sdp", "contradicts embed_sdp");
  }
  PARPLAN_RETURN_IF_ERROR(CheckExpertRanks());
  PARPLAN_ASSIGN_OR_RETURN(const auto expert_degrees,
                           LayerList(kExpertDegrees, 1, kMaxImportCount, 1));
  PARPLAN_ASSIGN_OR_RETURN(const Strategy ends, MakeStrategy({.degree_field = "vtp",
                                                              .context_field = "vcp",
                                                              .ulysses_field = "vsp",
                                                              .degree = vocabulary_degree,
                                                              .context = vocabulary_context,
                                                              .ulysses = vocabulary_ulysses != 0,
                                                              .sharded = vocabulary_sharded != 0}));

  PARPLAN_ASSIGN_OR_RETURN(const std::vector<int> sizes, StageSizes(stage_count));
  int layer = 0;  // of the transformer layers
  for (int i = 0; i < stage_count; ++i) {
    StagePlan stage;
    stage.first_rank = i * width_;
    stage.rank_count = width_;
    if (i == 0) AppendLayer(model_, 0, ends, &stage);
    for (int end = layer + sizes[i]; layer < end; ++layer) {
      PARPLAN_ASSIGN_OR_RETURN(const Strategy strategy,
                               MakeStrategy({.degree_field = EntryField("tp_sizes_enc", layer),
                                             .context_field = EntryField("cp_sizes_enc", layer),
                                             .ulysses_field = EntryField("use_sp", layer),
                                             .degree = degrees[layer],
                                             .context = context[layer],
                                             .ulysses = ulysses[layer] != 0,
                                             .consecutive = consecutive[layer] != 0,
                                             .sharded = sharded[layer] != 0,
                                             .recompute = recompute[layer] != 0}));
      PARPLAN_RETURN_IF_ERROR(
          CheckExpertDegree(layer, expert_degrees[layer], strategy.tensor_parallel_degree));
      AppendLayer(model_, layer + 1, strategy, &stage);
    }
    if (i == stage_count - 1) AppendLayer(model_, model_.layer_count() - 1, ends, &stage);
    plan.stages.push_back(std::move(stage));
  }
  if (lacks_expert_degrees_) {
    result.notes.push_back(absl::StrCat(file_.name, ": ", kExpertDegrees,
                                        " is missing; experts are taken as divided like the rest "
                                        "of their layers, which Galvatron would leave whole"));
  }
  if (approximated_) {
    result.notes.push_back(
        "Ulysses groups are taken as data-parallel groups of the same width; their all-to-alls are "
        "left out");
  }
  return result;
}

}  // namespace

absl::StatusOr<GalvatronPlanImport> ImportGalvatronPlan(const NamedText& file,
                                                        const ModelSpec& model,
                                                        const GalvatronPlanOptions& options) {
  return PlanReader(file, model, options).Read();
}

}  // namespace parplan
