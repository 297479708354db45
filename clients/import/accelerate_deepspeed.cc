#include "clients/import/accelerate_deepspeed.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/deepspeed_plan.h"
#include "clients/import/unread_names.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr char kFile[] = "ACCELERATE_DEEPSPEED_CONFIG_FILE";
constexpr char kStage[] = "ACCELERATE_DEEPSPEED_ZERO_STAGE";
constexpr char kSteps[] = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS";
constexpr char kPrecision[] = "ACCELERATE_MIXED_PRECISION";
constexpr const char* kOffloads[] = {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
                                     "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"};

// Compares the number of devices with those that the settings name.
void CheckDevices(int device_count, AccelerateSettings& settings) {
  for (const char* const name : {"num_processes", "PARPLAN_DEVICE_COUNT"}) {
    const std::optional<int> given = settings.Count(name);
    if (!given.has_value() || *given == device_count) continue;
    settings.Fail(name, absl::StrCat("is ", *given, ", and there are ", device_count, " devices"));
  }
}

// Returns the ranks of Ulysses. Other axes are DeepSpeed's own or none.
int ReadUlysses(AccelerateSettings& settings) {
  (void)settings.Text("section parallelism_config");
  settings.Flag("ACCELERATE_USE_PARALLELISM_CONFIG", false);
  for (const char* const axis : {"DP_REPLICATE", "DP_SHARD", "TP", "CP"}) {
    const std::string name = absl::StrCat("PARALLELISM_CONFIG_", axis, "_SIZE");
    if (settings.Count(name).value_or(1) == 1) continue;
    settings.Fail(name, "must be 1 where DeepSpeed trains: its stage shards over all replicas");
  }
  return settings.Count("PARALLELISM_CONFIG_SP_SIZE").value_or(1);
}

// Refuses what Accelerate forbids or leaves unread beside a file of DeepSpeed.
void CheckBesideFile(const AcceleratePlanOptions& options, AccelerateSettings& settings) {
  const std::string path = settings.Text(kFile).value_or("");
  if (!options.deepspeed_config.has_value()) {
    settings.Fail(
        kFile, absl::StrCat("is `", path, "`, which is not given: add --deepspeed-config ", path));
  }
  for (const char* const name : {kStage, kSteps, kPrecision, kOffloads[0], kOffloads[1]}) {
    if (!settings.Text(name).has_value()) continue;
    settings.Fail(name, "must be absent beside deepspeed_config_file, as Accelerate demands");
  }
  if (const int ulysses = ReadUlysses(settings); ulysses > 1) {
    settings.Fail("PARALLELISM_CONFIG_SP_SIZE",
                  absl::StrCat("is ", ulysses,
                               " beside deepspeed_config_file; write it into that file as "
                               "sequence_parallel_size and leave it out here"));
  }
}

// Returns the configuration that DeepSpeedPlugin makes of the settings.
json ConfigOfPlugin(AccelerateSettings& settings, std::vector<std::string>* notes) {
  for (const char* const name : kOffloads) {
    const std::string device = absl::AsciiStrToLower(settings.Text(name).value_or("none"));
    if (device == "none") continue;
    settings.Fail(name, absl::StrCat("is ", device,
                                     ", which keeps states outside the devices, and plans do not "
                                     "describe that"));
  }
  const std::optional<std::string> stage = settings.Text(kStage);
  if (!stage.has_value()) {
    notes->push_back("zero_stage is not said; the default of Accelerate is 2");
  }
  const bool is_stage =
      !stage.has_value() || *stage == "0" || *stage == "1" || *stage == "2" || *stage == "3";
  if (!is_stage) settings.Fail(kStage, absl::StrCat("must be 0, 1, 2 or 3, and is `", *stage, "`"));
  const std::string precision = absl::AsciiStrToLower(settings.Text(kPrecision).value_or("no"));
  if (precision != "no" && precision != "bf16" && precision != "fp16") {
    settings.Fail(kPrecision, absl::StrCat("must be no, bf16 or fp16, and is `", precision, "`"));
  }
  const bool has_steps = settings.Text(kSteps).value_or("auto") != "auto";
  const int steps = has_steps ? settings.Count(kSteps).value_or(1) : 0;
  json config = {{"train_batch_size", "auto"},
                 {"train_micro_batch_size_per_gpu", "auto"},
                 {"gradient_accumulation_steps", steps > 0 ? json(steps) : json("auto")},
                 {"zero_optimization", {{"stage", is_stage ? (stage.value_or("2")[0] - '0') : 0}}},
                 {"bf16", {{"enabled", precision == "bf16"}}},
                 {"fp16", {{"enabled", precision == "fp16"}}}};
  const int ulysses = ReadUlysses(settings);
  if (ulysses > 1) config["sequence_parallel_size"] = ulysses;
  return config;
}

// Returns the first error; else sorts the settings that nothing has read.
absl::Status SettleSettings(const NamedText& file, const AccelerateSettings& settings,
                            std::vector<std::string>* notes) {
  PARPLAN_RETURN_IF_ERROR(settings.status());
  std::vector<std::string> ignored;
  std::vector<std::string> unknown;
  for (const std::string& name : settings.Unread()) {
    (IsIgnoredAccelerateSetting(name) ? ignored : unknown).push_back(name);
  }
  return SettleUnread(file.name, "settings", unknown, ignored, notes);
}

}  // namespace

bool UsesDeepSpeed(AccelerateSettings& settings) {
  const std::string type = absl::AsciiStrToUpper(settings.Text("distributed_type").value_or(""));
  return settings.Flag("ACCELERATE_USE_DEEPSPEED", false) || type == "DEEPSPEED";
}

absl::StatusOr<AcceleratePlanImport> ImportAccelerateDeepSpeed(
    const NamedText& file, AccelerateSettings settings, const ModelSpec& model,
    const AcceleratePlanOptions& options) {
  for (const char* const name : {"section deepspeed_config", "ACCELERATE_USE_CPU", "use_cpu"}) {
    (void)settings.Text(name);
  }
  CheckDevices(options.device_count, settings);
  AcceleratePlanImport import;
  import.is_of_deepspeed = true;
  DeepSpeedPlanOptions inner{.device_count = options.device_count,
                             .micro_batch_size = options.micro_batch_size,
                             .accumulation_step_count = options.accumulation_step_count,
                             .recompute = options.recompute};
  NamedText config{file.name, ""};
  if (settings.Text(kFile).has_value()) {
    CheckBesideFile(options, settings);
    if (options.deepspeed_config.has_value()) config = *options.deepspeed_config;
  } else {
    if (options.deepspeed_config.has_value()) {
      settings.Fail(kFile, "is absent, and a configuration of DeepSpeed is given");
    }
    const json made = ConfigOfPlugin(settings, &import.notes);
    if (made["gradient_accumulation_steps"] == "auto" && inner.accumulation_step_count == 0) {
      inner.accumulation_step_count = 1;
    }
    if (inner.micro_batch_size == 0) {
      settings.Fail("--micro-batch-size",
                    "is needed: samples of a batch of the data loader, which the file does not "
                    "have");
    }
    config.text = made.dump();
  }
  PARPLAN_RETURN_IF_ERROR(SettleSettings(file, settings, &import.notes));
  PARPLAN_ASSIGN_OR_RETURN(DeepSpeedPlanImport read, ImportDeepSpeedPlan(config, model, inner));
  import.plan = std::move(read.plan);
  for (std::string& note : read.notes) import.notes.push_back(std::move(note));
  return import;
}

}  // namespace parplan
