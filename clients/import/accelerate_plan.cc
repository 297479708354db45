#include "clients/import/accelerate_plan.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/accelerate_deepspeed.h"
#include "clients/import/accelerate_settings.h"
#include "clients/import/script_plan.h"
#include "clients/import/unread_names.h"
#include "exports/accelerate_plan_export.h"
#include "exports/uniform_plan.h"
#include "planner/model/precision.h"

namespace parplan {
namespace {

constexpr char kLibrary[] = "Accelerate";

class AccelerateReader {
 public:
  AccelerateReader(const NamedText& file, AccelerateSettings settings, const ModelSpec& model,
                   const AcceleratePlanOptions& options)
      : file_(file), settings_(std::move(settings)), model_(model), options_(options) {}

  absl::StatusOr<AcceleratePlanImport> Read() {
    facts_.device_count = options_.device_count;
    facts_.stage_layer_counts = {model_.layer_count()};
    ReadProgram();
    ReadPrecision();
    ReadSizes();
    ReadSharding();
    ReadRecomputation();
    ReadBatch();
    PARPLAN_RETURN_IF_ERROR(Settle());
    AcceleratePlanImport import;
    PARPLAN_ASSIGN_OR_RETURN(import.plan,
                             RunnablePlanOf(file_, facts_, model_, &ExportAcceleratePlan));
    import.notes = std::move(notes_);
    return import;
  }

 private:
  // Decides whether FSDP is on, and in which version.
  void ReadProgram() {
    if (settings_.Flag("ACCELERATE_USE_MEGATRON_LM", false)) {
      settings_.Fail("ACCELERATE_USE_MEGATRON_LM",
                     "hands training over; import the files of that program");
    }
    // Read by accelerate_deepspeed.h if it is true.
    settings_.Flag("ACCELERATE_USE_DEEPSPEED", false);
    for (const char* const name : {"ACCELERATE_USE_CPU", "use_cpu"}) {
      if (settings_.Flag(name, false)) settings_.Fail(name, "trains on processors");
    }
    has_fsdp_ = settings_.Flag("ACCELERATE_USE_FSDP", false);
    const std::string type = absl::AsciiStrToUpper(settings_.Text("distributed_type").value_or(""));
    if (type == "FSDP") {
      has_fsdp_ = true;
    } else if (!type.empty() && type != "MULTI_GPU" && type != "NO") {
      settings_.Fail("distributed_type",
                     absl::StrCat("is ", type,
                                  ", and must be FSDP, DEEPSPEED, MULTI_GPU or NO; "
                                  "import the files of other programs"));
    }
    const bool has_section = settings_.Has("section fsdp_config");
    (void)settings_.Text("section fsdp_config");
    if (has_section && !has_fsdp_) {
      settings_.Fail("section fsdp_config", "is not read without `distributed_type: FSDP`");
    }
    version_ = settings_.Count("FSDP_VERSION").value_or(1);
    if (has_fsdp_ && version_ > 2) settings_.Fail("FSDP_VERSION", "must be 1 or 2");
    const std::optional<int> processes = settings_.Count("num_processes");
    if (processes.has_value() && *processes != facts_.device_count) {
      settings_.Fail("num_processes", absl::StrCat("is ", *processes, ", and there are ",
                                                   facts_.device_count, " devices"));
    }
    const std::optional<int> devices = settings_.Count("PARPLAN_DEVICE_COUNT");
    if (devices.has_value() && *devices != facts_.device_count) {
      settings_.Fail("PARPLAN_DEVICE_COUNT", absl::StrCat("is ", *devices, ", and there are ",
                                                          facts_.device_count, " devices"));
    }
  }

  void ReadPrecision() {
    const std::string name =
        absl::AsciiStrToLower(settings_.Text("ACCELERATE_MIXED_PRECISION").value_or("no"));
    const std::optional<Precision> given =
        name == "no" ? std::optional(Precision::kFp32) : FindPrecision(name);
    if (given == model_.precision()) return;
    settings_.Fail("ACCELERATE_MIXED_PRECISION",
                   absl::StrCat("is ", name, ", and the model's precision is ",
                                TraitsOf(model_.precision()).name));
  }

  void ReadSizes() {
    Strategy& strategy = facts_.strategy;
    const bool has_section = settings_.Has("section parallelism_config");
    (void)settings_.Text("section parallelism_config");
    const bool is_used = settings_.Flag("ACCELERATE_USE_PARALLELISM_CONFIG", has_section);
    const auto size = [this, is_used](const char* axis) {
      const std::string name = absl::StrCat("PARALLELISM_CONFIG_", axis, "_SIZE");
      const std::optional<int> value = settings_.Count(name);
      if (value.has_value() && !is_used) {
        settings_.Fail(name, "is not read without ACCELERATE_USE_PARALLELISM_CONFIG=true");
      }
      return value.value_or(1);
    };
    int replicas = size("DP_REPLICATE");
    int shards = size("DP_SHARD");
    strategy.tensor_parallel_degree = size("TP");
    strategy.context_parallel_degree = size("CP");
    if (size("SP") > 1) {
      settings_.Fail("PARALLELISM_CONFIG_SP_SIZE", "needs DeepSpeed; import its ds_config.json");
    }
    const int tensor = strategy.tensor_parallel_degree;
    const int context = strategy.context_parallel_degree;
    // Sizes that are all 1 stand for the devices, as in Accelerate.
    if (replicas == 1 && shards == 1 && tensor == 1 && context == 1) {
      (has_fsdp_ ? shards : replicas) = facts_.device_count;
    }
    // Each factor is at most 2^24 and compared before the next.
    int64_t product = int64_t{replicas} * shards;
    if (product <= facts_.device_count) product *= tensor;
    if (product <= facts_.device_count) product *= context;
    if (product != facts_.device_count) {
      return settings_.Fail("PARALLELISM_CONFIG_DP_SHARD_SIZE",
                            absl::StrCat("times the other sizes (", replicas, ", ", tensor, ", ",
                                         context, ") is not ", facts_.device_count, " devices"));
    }
    if (replicas > 1 && shards == 1 && (tensor > 1 || context > 1)) {
      return settings_.Fail("PARALLELISM_CONFIG_DP_REPLICATE_SIZE",
                            "must be 1 beside tensor or context parallelism that shards nothing");
    }
    if (shards > 1 && !has_fsdp_) {
      return settings_.Fail("PARALLELISM_CONFIG_DP_SHARD_SIZE", "needs FSDP");
    }
    if (has_fsdp_ && version_ == 1 && (tensor > 1 || context > 1 || replicas > 1)) {
      return settings_.Fail("FSDP_VERSION",
                            "must be 2 beside replicas of shards and tensor or context "
                            "parallelism");
    }
    if (has_fsdp_ && replicas > 1 && shards == 1) {
      return settings_.Fail("PARALLELISM_CONFIG_DP_REPLICATE_SIZE",
                            "leaves FSDP no ranks to shard over");
    }
    strategy.data_parallel_degree = replicas * shards;
    // Context-parallel ranks are within a group that shards (`dp_shard_cp`).
    if (replicas > 1 && shards > 1) strategy.sharding_degree = shards * context;
    if (context == 1) return;
    if (settings_.Text("PARALLELISM_CONFIG_CP_BACKEND").value_or("torch") != "torch") {
      settings_.Fail("PARALLELISM_CONFIG_CP_BACKEND", "must be torch");
    }
    if (settings_.Text("PARALLELISM_CONFIG_CP_COMM_STRATEGY").value_or("allgather") != "alltoall") {
      settings_.Fail(
          "PARALLELISM_CONFIG_CP_COMM_STRATEGY",
          "must be alltoall: with `allgather`, the default, ranks gather keys and values "
          "and send their gradients from rank to rank, and a plan has one kind for "
          "both");
    }
  }

  void ReadSharding() {
    if (!has_fsdp_) return;
    const std::string policy =
        absl::AsciiStrToUpper(settings_.Text("FSDP_AUTO_WRAP_POLICY").value_or("NO_WRAP"));
    if (policy != "TRANSFORMER_BASED_WRAP") {
      settings_.Fail("FSDP_AUTO_WRAP_POLICY",
                     absl::StrCat("is ", policy,
                                  ", and plans gather parameters layer by layer: "
                                  "TRANSFORMER_BASED_WRAP"));
    }
    if (settings_.Flag("FSDP_OFFLOAD_PARAMS", false)) {
      settings_.Fail("FSDP_OFFLOAD_PARAMS", "keeps parameters outside the devices");
    }
    constexpr const char* kReshard = "FSDP_RESHARD_AFTER_FORWARD";
    ShardingLevel& level = facts_.strategy.sharding_level;
    if (version_ == 2) {
      level =
          settings_.Flag(kReshard, true) ? ShardingLevel::kParameters : ShardingLevel::kGradients;
      return;
    }
    // The first version has names of strategies, in either of two variables.
    const char* const name =
        settings_.Text(kReshard).has_value() ? kReshard : "FSDP_SHARDING_STRATEGY";
    const std::string strategy = absl::AsciiStrToUpper(settings_.Text(name).value_or("FULL_SHARD"));
    if (strategy == "FULL_SHARD" || strategy == "1") {
      level = ShardingLevel::kParameters;
    } else if (strategy == "SHARD_GRAD_OP" || strategy == "2") {
      level = ShardingLevel::kGradients;
    } else if (strategy == "NO_SHARD" || strategy == "3") {
      level = ShardingLevel::kNone;
    } else {
      settings_.Fail(name, absl::StrCat("is ", strategy,
                                        ", and must be FULL_SHARD, SHARD_GRAD_OP or NO_SHARD; "
                                        "groups that shard are those of version 2, with "
                                        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE"));
    }
    notes_.push_back("Version 1 of FSDP is predicted as version 2.");
  }

  void ReadRecomputation() {
    std::optional<bool> in_file;
    constexpr const char* kFsdp = "FSDP_ACTIVATION_CHECKPOINTING";
    const bool is_given = settings_.Has(kFsdp);
    const bool is_on = settings_.Flag(kFsdp, false);
    if (is_given && has_fsdp_) in_file = is_on;
    if (settings_.Flag("FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", false)) {
      settings_.Fail("FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD",
                     "keeps checkpoints outside the devices");
    }
    const std::optional<std::string> ours = settings_.Text("PARPLAN_RECOMPUTE");
    if (ours.has_value()) {
      if (*ours != "full" && *ours != "none") {
        settings_.Fail("PARPLAN_RECOMPUTE",
                       absl::StrCat("must be full or none, and is `", *ours, "`"));
      }
      if (in_file.has_value() && *in_file != (*ours == "full")) {
        settings_.Fail("PARPLAN_RECOMPUTE", absl::StrCat("contradicts ", kFsdp));
      }
      in_file = *ours == "full";
    }
    const auto fail = [this, &ours](absl::string_view rule) {
      settings_.Fail(ours.has_value() ? "PARPLAN_RECOMPUTE" : kFsdp, rule);
    };
    facts_.strategy.recompute_level =
        AgreedRecomputation(options_.recompute, in_file, fail, &notes_);
  }

  // Returns the number of the script, or else of the first variable; they may not differ.
  int Agreed(int of_script, const char* first, const char* second, int otherwise) {
    int agreed = of_script;
    for (const char* const name : {first, second}) {
      const std::optional<int> value = name == nullptr ? std::nullopt : settings_.Count(name);
      if (!value.has_value()) continue;
      if (agreed > 0 && agreed != *value) {
        settings_.Fail(name, absl::StrCat("is ", *value, ", and elsewhere it is ", agreed));
      }
      agreed = *value;
    }
    return agreed > 0 ? agreed : otherwise;
  }

  void ReadBatch() {
    constexpr const char* kMicro = "PARPLAN_MICRO_BATCH_SIZE_PER_RANK";
    const int micro = Agreed(options_.micro_batch_size, kMicro, nullptr, 0);
    const int steps =
        Agreed(options_.accumulation_step_count, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
               "PARPLAN_GRADIENT_ACCUMULATION_STEPS", 1);
    if (micro == 0) {
      return settings_.Fail(kMicro,
                            "is missing, and so is the micro-batch size of the script: the file "
                            "does not have it. Give --micro-batch-size, and --accumulation-steps "
                            "if there are several");
    }
    // Two factors of at most 2^24 each, compared before the third.
    int64_t batch = int64_t{micro} * steps;
    if (batch <= kMaxImportCount) batch *= facts_.strategy.data_parallel_degree;
    if (batch > kMaxImportCount) {
      return settings_.Fail(kMicro, absl::StrCat("makes a batch above ", kMaxImportCount));
    }
    const std::optional<int> given = settings_.Count("PARPLAN_GLOBAL_BATCH_SIZE");
    if (given.has_value() && *given != batch) {
      settings_.Fail("PARPLAN_GLOBAL_BATCH_SIZE",
                     absl::StrCat("is ", *given, ", and the other settings make ", batch));
    }
    facts_.micro_batch_count = steps;
    facts_.global_batch_size = batch;
    if (has_fsdp_ && steps > 1) {
      notes_.push_back(
          "Gradients are taken to be scattered after each micro-batch: "
          "GradientAccumulationPlugin(sync_each_batch=True).");
    }
  }

  // Returns the first error; else sorts the settings that nothing has read.
  absl::Status Settle() {
    PARPLAN_RETURN_IF_ERROR(settings_.status());
    std::vector<std::string> ignored;
    std::vector<std::string> unknown;
    for (const std::string& name : settings_.Unread()) {
      (IsIgnoredAccelerateSetting(name) ? ignored : unknown).push_back(name);
    }
    return SettleUnread(file_.name, "settings", unknown, ignored, &notes_);
  }

  const NamedText& file_;
  AccelerateSettings settings_;
  const ModelSpec& model_;
  const AcceleratePlanOptions& options_;
  UniformPlan facts_;
  bool has_fsdp_ = false;
  int version_ = 1;
  std::vector<std::string> notes_;
};

}  // namespace

absl::StatusOr<AcceleratePlanImport> ImportAcceleratePlan(const NamedText& file,
                                                          const ModelSpec& model,
                                                          const AcceleratePlanOptions& options) {
  PARPLAN_RETURN_IF_ERROR(RequireDecoderModel(model, kLibrary));
  if (options.device_count < 1 || options.device_count > kMaxImportCount) {
    return ImportError(Reason::kSpecInvalid, file.name, "", "needs the number of devices");
  }
  for (const int count : {options.micro_batch_size, options.accumulation_step_count}) {
    if (count < 0 || count > kMaxImportCount) {
      return ImportError(Reason::kSpecInvalid, file.name, "",
                         absl::StrCat("needs counts from 1 to ", kMaxImportCount));
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(AccelerateSettings settings, AccelerateSettings::Read(file));
  if (UsesDeepSpeed(settings)) {
    return ImportAccelerateDeepSpeed(file, std::move(settings), model, options);
  }
  if (options.deepspeed_config.has_value()) {
    return ImportError(Reason::kSpecInvalid, file.name, "distributed_type",
                       "is not DEEPSPEED, and a configuration of DeepSpeed is given");
  }
  return AccelerateReader(file, std::move(settings), model, options).Read();
}

}  // namespace parplan
