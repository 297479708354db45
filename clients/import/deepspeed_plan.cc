#include "clients/import/deepspeed_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/config_fields.h"
#include "clients/import/deepspeed_section.h"
#include "clients/import/script_plan.h"
#include "clients/import/unread_names.h"
#include "exports/deepspeed_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr char kProgram[] = "DeepSpeed";

// Keys of the whole file whose objects change what a step computes, unless they are switched off.
constexpr const char* kOtherSteps[] = {"amp",
                                       "autotuning",
                                       "compile",
                                       "compression_training",
                                       "curriculum_learning",
                                       "data_efficiency",
                                       "eigenvalue",
                                       "elasticity",
                                       "hybrid_engine",
                                       "progressive_layer_drop",
                                       "quantize_training",
                                       "sparse_attention",
                                       "torch_autocast",
                                       "weight_quantization"};

class DeepSpeedReader {
 public:
  DeepSpeedReader(const NamedText& file, const json& object, const ModelSpec& model,
                  const DeepSpeedPlanOptions& options)
      : file_(file),
        model_(model),
        options_(options),
        whole_(&object, file.name, ""),
        zero_(Inner("zero_optimization")),
        bf16_(Inner("bf16")),
        fp16_(Inner("fp16")),
        optimizer_(Inner("optimizer")),
        tensor_(Inner("tensor_parallel")),
        expert_(Inner("expert_parallel")),
        pipeline_(Inner("pipeline")),
        checkpoints_(Inner("activation_checkpointing")) {}

  absl::StatusOr<DeepSpeedPlanImport> Read() {
    facts_.device_count = options_.device_count;
    RefuseOtherPrograms();
    ReadPrecision();
    ReadOptimizer();
    ReadDegrees();
    ReadSharding();
    ReadRecomputation();
    ReadStages();
    ReadBatch();
    PARPLAN_RETURN_IF_ERROR(Settle());
    DeepSpeedPlanImport import;
    PARPLAN_ASSIGN_OR_RETURN(import.plan,
                             RunnablePlanOf(file_, facts_, model_, &ExportDeepSpeedPlan));
    import.notes = std::move(notes_);
    return import;
  }

 private:
  DeepSpeedSection Inner(const char* key) {
    return DeepSpeedSection(whole_.fields().Object(key), file_.name, key);
  }
  std::vector<DeepSpeedSection*> Sections() {
    return {&whole_,  &zero_,   &bf16_,     &fp16_,       &optimizer_,
            &tensor_, &expert_, &pipeline_, &checkpoints_};
  }
  // Remembers an error of the whole file's `field`.
  void Fail(absl::string_view field, absl::string_view rule) { whole_.fields().Fail(field, rule); }

  void RefuseOtherPrograms() {
    for (const char* const key : kOtherSteps) {
      whole_.fields().MarkRead(key);
      const json* const object = whole_.Has(key) ? whole_.fields().Object(key) : nullptr;
      if (object == nullptr) continue;
      const auto enabled = object->find("enabled");
      const bool is_off = object->empty() || (enabled != object->end() && enabled->is_boolean() &&
                                              !enabled->get<bool>());
      if (!is_off) Fail(key, "changes what a step computes, which plans do not describe");
    }
    const char* const elsewhere = "moves states away from the devices, which plans do not describe";
    for (const char* const key : {"offload_param", "offload_optimizer"}) {
      const json* const object = zero_.fields().Object(key);
      if (object == nullptr) continue;
      const auto device = object->find("device");
      if (device == object->end() || *device != "none") zero_.fields().Fail(key, elsewhere);
    }
    for (const char* const key : {"cpu_offload", "cpu_offload_param", "cpu_offload_use_pin_memory",
                                  "super_offload", "zenflow"}) {
      zero_.fields().Refuse(key, elsewhere);
    }
    for (const char* const key : {"zero_quantized_weights", "zero_quantized_gradients",
                                  "zero_quantized_nontrainable_weights"}) {
      zero_.fields().Refuse(key, "quantizes messages, which plans do not describe");
    }
    for (const char* const key : {"zero_hpz_partition_size", "mics_shard_size"}) {
      if (zero_.fields().Count({key}, 1) > 1) {
        zero_.fields().Fail(key, "shards over some replicas, which no plan for DeepSpeed says");
      }
    }
    for (DeepSpeedSection* const section : {&bf16_, &fp16_}) {
      for (const char* const key : {"fp16_master_weights_and_grads",
                                    "bf16_master_weights_and_grads", "bf16_optimizer_states"}) {
        section->fields().Refuse(key, "keeps optimizer states in 16 bits, and plans in 32");
      }
    }
    const char* const held = "moves or divides checkpoints, which plans do not describe";
    checkpoints_.fields().Refuse("partition_activations", held);
    checkpoints_.fields().Refuse("cpu_checkpointing", held);
  }

  // Returns whether the section's precision is on; nothing if a trainer decides.
  static std::optional<bool> IsOn(DeepSpeedSection& section) {
    if (section.IsAuto("enabled")) {
      section.fields().MarkRead("enabled");
      return std::nullopt;
    }
    return section.fields().Flag({"enabled"}, false);
  }

  void ReadPrecision() {
    const std::optional<bool> bf16 = IsOn(bf16_);
    const std::optional<bool> fp16 = IsOn(fp16_);
    if (!bf16.has_value() || !fp16.has_value()) return;
    if (*bf16 && *fp16) return Fail("bf16", "is on, and so is fp16");
    const Precision given = *bf16 ? Precision::kBf16 : *fp16 ? Precision::kFp16 : Precision::kFp32;
    if (given == model_.precision()) return;
    Fail(*fp16 ? "fp16" : "bf16",
         absl::StrCat("makes the precision ", TraitsOf(given).name, ", and the model's is ",
                      TraitsOf(model_.precision()).name));
  }

  void ReadOptimizer() {
    const std::string type = absl::AsciiStrToLower(optimizer_.fields().Text("type"));
    if (type.empty()) return;
    const bool is_adam = type == "adam" || type == "adamw" || type == "fusedadam";
    if (is_adam && model_.optimizer() == Optimizer::kAdam) return;
    if (type == "sgd" && model_.optimizer() == Optimizer::kSgd) return;
    optimizer_.fields().Fail(
        "type", absl::StrCat("is `", type, "`, and the model's is ",
                             model_.optimizer() == Optimizer::kAdam ? "Adam or AdamW" : "SGD"));
  }

  void ReadDegrees() {
    Strategy& strategy = facts_.strategy;
    strategy.tensor_parallel_degree = std::max(1, tensor_.Number("autotp_size", 0).value_or(1));
    if (strategy.tensor_parallel_degree > 1 && !tensor_.Is("vocab_parallel_lm_head", true)) {
      notes_.push_back(
          "tensor_parallel.vocab_parallel_lm_head is not on, and the prediction splits the head's "
          "table.");
    }
    strategy.context_parallel_degree = whole_.Number("sequence_parallel_size", 1).value_or(1);
    if (strategy.context_parallel_degree > 1) strategy.context_kind = ContextKind::kUlysses;
    const bool has_stages = pipeline_.Has("stages") && !pipeline_.IsAuto("stages");
    if (!has_stages) pipeline_.fields().MarkRead("stages");
    const int in_file = has_stages ? pipeline_.Number("stages", 1).value_or(1) : 0;
    stages_ =
        options_.pipeline_stage_count > 0 ? options_.pipeline_stage_count : std::max(1, in_file);
    if (in_file > 0 && in_file != stages_) {
      pipeline_.fields().Fail("stages",
                              absl::StrCat("is ", in_file, ", and the script's are ", stages_));
    }
    const int64_t inner =
        int64_t{strategy.tensor_parallel_degree} * strategy.context_parallel_degree;
    // Two factors of at most 2^24 each, so that the third cannot overflow behind this test.
    if (inner > facts_.device_count || facts_.device_count % (inner * stages_) != 0) {
      Fail("", absl::StrCat("divides ", facts_.device_count, " devices by tensor degree ",
                            strategy.tensor_parallel_degree, ", sequence degree ",
                            strategy.context_parallel_degree, " and ", stages_,
                            " stages, which leaves a rest"));
      return;
    }
    strategy.data_parallel_degree = static_cast<int>(facts_.device_count / (inner * stages_));
    const std::optional<int> data = whole_.Number("data_parallel_size", 1);
    if (data.has_value() && *data != strategy.data_parallel_degree) {
      Fail("data_parallel_size",
           absl::StrCat("is ", *data, ", and the devices leave ", strategy.data_parallel_degree));
    }
    ReadExperts();
  }

  void ReadExperts() {
    const bool is_on = expert_.fields().Flag({"enabled"}, false);
    const int degree = expert_.Number("autoep_size", 1).value_or(1);
    if (expert_.Number("expert_tensor_parallel_size", 1).value_or(1) > 1) {
      expert_.fields().Fail("expert_tensor_parallel_size", "must be 1, as DeepSpeed demands");
    }
    if (!is_on || degree == 1) return;
    facts_.strategy.expert_parallel_degree = degree;
    const int replicas =
        facts_.strategy.data_parallel_degree * facts_.strategy.context_parallel_degree;
    if (!HasExperts(model_)) return expert_.fields().Fail("enabled", "needs a model with experts");
    for (int layer = 1; layer + 1 < model_.layer_count(); ++layer) {
      const int experts = model_.layer(layer).expert_count;
      if (replicas % degree == 0 && experts % degree == 0) continue;
      return expert_.fields().Fail(
          "autoep_size", absl::StrCat("is ", degree, ", which divides not both ", replicas,
                                      " ranks and the ", experts, " experts of layer ", layer));
    }
  }

  void ReadSharding() {
    const int stage = zero_.Number("stage", 0).value_or(0);
    if (stage > 3) return zero_.fields().Fail("stage", "must be 0, 1, 2 or 3");
    facts_.strategy.sharding_level = static_cast<ShardingLevel>(stage + 1);
    if (stages_ > 1 && stage == 0 && model_.precision() == Precision::kBf16 &&
        facts_.strategy.data_parallel_degree > 1) {
      facts_.strategy.sharding_level = ShardingLevel::kOptimizer;
      notes_.push_back(
          "The pipeline engine shards optimizer states in bf16, whatever zero_optimization.stage "
          "says: ZeRO-1.");
    }
    if (stage != 1 && stage != 2) return;
    if (stages_ == 1 && !zero_.Is("overlap_comm", true)) {
      notes_.push_back(
          "zero_optimization.overlap_comm is off, and the runtime `deepspeed` is predicted with "
          "it.");
    }
    if (!zero_.Is("use_multi_rank_bucket_allreduce", false)) {
      notes_.push_back(
          "zero_optimization.use_multi_rank_bucket_allreduce is on, and the runtime `deepspeed` is "
          "predicted without it: gradients are then reduced to the ranks that own them.");
    }
  }

  void ReadRecomputation() {
    std::optional<bool> in_file;
    const std::optional<int> interval = pipeline_.Number("activation_checkpoint_interval", 0);
    if (interval.has_value() && *interval > 1) {
      pipeline_.fields().Fail("activation_checkpoint_interval",
                              "must be 0 or 1: plans keep the input of each recomputed layer");
    }
    if (stages_ > 1 && interval.has_value()) in_file = *interval == 1;
    const int decoders = model_.layer_count() - 2;
    const std::optional<int> count = checkpoints_.Number("number_checkpoints", 1);
    if (stages_ == 1 && count.has_value()) {
      in_file = true;
      if (*count != decoders) {
        checkpoints_.fields().Fail("number_checkpoints",
                                   absl::StrCat("is ", *count, ", and plans recompute all ",
                                                decoders, " decoder layers or none"));
      }
    }
    const auto fail = [this](absl::string_view rule) {
      Fail(stages_ > 1 ? "pipeline.activation_checkpoint_interval"
                       : "activation_checkpointing.number_checkpoints",
           rule);
    };
    facts_.strategy.recompute_level =
        AgreedRecomputation(options_.recompute, in_file, fail, &notes_);
  }

  void ReadStages() {
    const int decoders = model_.layer_count() - 2;
    if (decoders % stages_ != 0) {
      return Fail("pipeline.stages", absl::StrCat("is ", stages_, ", which does not divide ",
                                                  decoders, " decoder layers"));
    }
    facts_.stage_layer_counts.assign(static_cast<size_t>(stages_), decoders / stages_);
    ++facts_.stage_layer_counts.front();
    ++facts_.stage_layer_counts.back();
  }

  // Returns the number of the script or of the file, which may not differ; 0 if neither has one.
  // The script fills in what is `auto` in the file.
  int64_t AgreedNumber(const char* key, int of_script) {
    if (of_script > 0 && whole_.IsAuto(key)) {
      whole_.fields().MarkRead(key);
      return of_script;
    }
    const int in_file = whole_.Number(key, 1).value_or(0);
    if (of_script > 0 && in_file > 0 && in_file != of_script) {
      Fail(key, absl::StrCat("is ", in_file, ", and the script's is ", of_script));
    }
    return in_file > 0 ? in_file : of_script;
  }

  void ReadBatch() {
    const char* const kBatch = "train_batch_size";
    const char* const kMicro = "train_micro_batch_size_per_gpu";
    // The product of the other numbers, if the script fills it in.
    const bool is_product = options_.micro_batch_size > 0 && whole_.IsAuto(kBatch);
    if (is_product) whole_.fields().MarkRead(kBatch);
    // 0: absent.
    const int64_t batch = is_product ? 0 : whole_.Number(kBatch, 1).value_or(0);
    int64_t micro = AgreedNumber(kMicro, options_.micro_batch_size);
    int64_t steps = AgreedNumber("gradient_accumulation_steps", options_.accumulation_step_count);
    if (batch == 0 && micro == 0) return Fail(kMicro, "is missing, and so is train_batch_size");
    // With AutoTP DeepSpeed counts the ranks that share samples as well.
    const int data = facts_.strategy.data_parallel_degree;
    const int64_t ranks = int64_t{data} * facts_.strategy.tensor_parallel_degree;
    if (steps == 0) steps = batch == 0 || micro == 0 ? 1 : batch / ranks / micro;
    if (micro == 0) micro = batch / ranks / steps;
    // Three factors of at most 2^24 and 2^24 ranks; the first product is compared before the last.
    const int64_t of_rank = micro * steps;
    if (of_rank < 1 || of_rank > kMaxImportCount || of_rank * data > kMaxImportCount ||
        (batch > 0 && of_rank * ranks != batch)) {
      return Fail(
          batch > 0 ? kBatch : kMicro,
          absl::StrCat("makes ", micro, " samples, ", steps, " accumulation steps and ", ranks,
                       " ranks, whose product is not the batch or exceeds ", kMaxImportCount));
    }
    facts_.micro_batch_count = steps;
    facts_.global_batch_size = of_rank * data;
  }

  // Returns the first error; else sorts the keys that nothing has read.
  absl::Status Settle() {
    std::vector<std::string> ignored;
    std::vector<std::string> unknown;
    // Errors of the whole file may follow from those inside its objects.
    const std::vector<DeepSpeedSection*> sections = Sections();
    for (size_t i = sections.size(); i > 0; --i) {
      PARPLAN_RETURN_IF_ERROR(sections[i - 1]->fields().status());
    }
    for (const DeepSpeedSection* const section : sections) section->Sort(&ignored, &unknown);
    return SettleUnread(file_.name, "keys", unknown, ignored, &notes_);
  }

  const NamedText& file_;
  const ModelSpec& model_;
  const DeepSpeedPlanOptions& options_;
  DeepSpeedSection whole_;
  DeepSpeedSection zero_;
  DeepSpeedSection bf16_;
  DeepSpeedSection fp16_;
  DeepSpeedSection optimizer_;
  DeepSpeedSection tensor_;
  DeepSpeedSection expert_;
  DeepSpeedSection pipeline_;
  DeepSpeedSection checkpoints_;
  UniformPlan facts_;
  int stages_ = 1;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<DeepSpeedPlanImport> ImportDeepSpeedPlan(const NamedText& file,
                                                        const ModelSpec& model,
                                                        const DeepSpeedPlanOptions& options) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, kProgram));
  if (options.device_count < 1 || options.device_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       "needs the number of devices, which it does not have");
  }
  if (options.pipeline_stage_count < 0 || options.pipeline_stage_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, file.name, "", "needs the number of stages above 0");
  }
  for (const int count : {options.micro_batch_size, options.accumulation_step_count}) {
    if (count < 0 || count > kMaxImportCount) {
      return ImportError(Reason::kSpecInvalid, file.name, "",
                         absl::StrCat("needs counts from 1 to ", kMaxImportCount));
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file, Reason::kSpecInvalid));
  return DeepSpeedReader(file, object, model, options).Read();
}

}  // namespace parplan
