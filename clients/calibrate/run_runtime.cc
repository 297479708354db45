#include "clients/calibrate/run_runtime.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "clients/calibrate/run_error.h"
#include "clients/calibrate/run_system.h"

namespace parplan::accuracy {
namespace {

// Programs by a word in `framework`; the first that occurs counts.
struct KnownFramework {
  absl::string_view word;
  absl::string_view runtime_id;
  int default_zero_level;
  bool megatron_family;
  // Trains without dropout unless the row says otherwise.
  bool without_dropout;
  // Uses sequence parallelism with tensor parallelism unless the row says otherwise.
  bool sequence_parallel = false;
  // Its models have neither attention dropout nor the fused kernels of Megatron-LM.
  bool plain_models = false;
  // The precision of a run that names none.
  absl::string_view precision = "bf16";
  // The kind of peak that it writes itself, if it is known.
  std::optional<MemoryView> memory_view = std::nullopt;
};
constexpr KnownFramework kFrameworks[] = {
    // A fork of Megatron-DeepSpeed. Its models (third_party/Megatron-DeepSpeed: gpt_neo_model.py,
    // opt_model.py) use neither attention dropout nor the fused kernels, which need 16 bits. Its
    // launch script (ae_scripts/clariden_scripts/run_opt.slurm) passes neither --fp16 nor --bf16,
    // without which Megatron-LM computes in fp32.
    {"sailor", "megatron-deepspeed", 0, true, false, false, true, "fp32"},
    {"deepspeed", "megatron-deepspeed", 0, true, false},
    {"automodel", "nemo-automodel", 3, false, true},
    {"bridge", "megatron-bridge", 1, true, true, true},
    {"nemo", "megatron-bridge", 1, true, true, true},
    // Its benchmark writes the table on rank 0 (helpers.py, log_throughput).
    {"nanotron", "nanotron", 0, false, true, true, false, "bf16", MemoryView::kReservedFirstRank},
    {"megatron-lm main", "megatron-core", 0, true, false},
    {"megatron core", "megatron-core", 0, true, false},
    {"megatron-core", "megatron-core", 0, true, false},
    {"mcore", "megatron-core", 0, true, false},
    {"megatron", "megatron-2021", 0, true, false},
    {"foundry", "llm-foundry", 3, false, true},
    {"mosaic", "llm-foundry", 3, false, true},
    {"composer", "llm-foundry", 3, false, true},
    {"torchtitan", "torchtitan", 3, false, true, true},
    {"fsdp", "fsdp", 3, false, true},
};

// Megatron-LM on devices younger than Megatron Core, which it runs on since (H100: 2023).
// Sequence parallelism is what `--tp-comm-overlap` of its published runs needs.
constexpr KnownFramework kLaterMegatron = {"megatron", "megatron-core", 0, true, false, true};
// The families of the library that Megatron ran on before; a family that is new is a later one.
constexpr absl::string_view kEarlierFamilies[] = {"volta", "turing", "ampere",
                                                  "ada",   "cdna2",  "cdna3"};

// Megatron-LM 3.0, which brought sequence parallelism, is of May 2022: what a paper of that month
// or a later one measured ran on it.
constexpr KnownFramework kThirdMegatron = {"megatron", "megatron-2022", 0, true, false};
constexpr int kMonthOfThirdMegatron = 2205;

// The year and month of the paper that a row cites by its arXiv number (`arXiv:2205.05198`), as in
// that number; 0: none.
int MonthOfPaper(absl::string_view cite) {
  constexpr absl::string_view kPrefix = "arxiv:";
  constexpr size_t kMonthDigits = 4;
  const std::string lower = absl::AsciiStrToLower(cite);
  const size_t place = absl::string_view(lower).find(kPrefix);
  if (place == std::string::npos) return 0;
  int month = 0;
  const bool is_number = absl::SimpleAtoi(
      absl::string_view(lower).substr(place + kPrefix.size(), kMonthDigits), &month);
  return is_number ? month : 0;
}

// Returns whether the device of a run is younger than Megatron Core. A device that the library does
// not have is not.
bool IsLaterDevice(const PublishedHardware& hardware) {
  const absl::StatusOr<DeviceDescription> device = DeviceOf(hardware);
  return device.ok() && std::find(std::begin(kEarlierFamilies), std::end(kEarlierFamilies),
                                  device->device_family) == std::end(kEarlierFamilies);
}

const KnownFramework* FindFramework(const PublishedRun& run) {
  const std::string text = absl::AsciiStrToLower(run.framework);
  for (const KnownFramework& known : kFrameworks) {
    if (!absl::StrContains(text, known.word)) continue;
    if (known.word != kLaterMegatron.word) return &known;
    if (IsLaterDevice(run.hardware)) return &kLaterMegatron;
    return MonthOfPaper(run.cite) >= kMonthOfThirdMegatron ? &kThirdMegatron : &known;
  }
  return nullptr;
}

// Whether a peak known to the byte is a whole number of mebibytes, as the device's tools print it.
// PyTorch allocates multiples of 512 bytes, so one in 2,048 of its peaks is taken for another kind.
bool IsWholeMebibytes(const PublishedRun& run) {
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  return run.peak_memory.has_value() && run.peak_memory_to_the_byte &&
         run.peak_memory->count() % kMebibyte == 0;
}

// The kind of peak that the row names, or else that the program writes, or else that the figure is
// of by its shape.
MemoryView ViewOf(const PublishedRun& run, const KnownFramework* known) {
  if (run.memory_view.has_value()) return *run.memory_view;
  const std::string note = absl::AsciiStrToLower(run.note);
  if (absl::StrContains(note, "nvidia-smi") || absl::StrContains(note, "nvml") ||
      absl::StrContains(note, "as read from")) {
    return MemoryView::kDeviceTotal;
  }
  if (absl::StrContains(note, "last rank")) return MemoryView::kAllocatedLastRank;
  // Loggers write on rank 0 only (`get_rank() == 0` in the callbacks of MLPerf's reference
  // implementation of Llama 3.1).
  if (absl::StrContains(note, "logging rank")) return MemoryView::kAllocatedFirstRank;
  if (known != nullptr && known->memory_view.has_value()) return *known->memory_view;
  if (absl::StrContains(note, "reserved")) return MemoryView::kReservedMax;
  return IsWholeMebibytes(run) ? MemoryView::kDeviceTotal : MemoryView::kAllocatedMax;
}

// Whether a text says that nothing is known.
bool SaysNothing(const std::string& lower) {
  return lower.empty() || absl::StartsWith(lower, "unknown") || absl::StartsWith(lower, "see ") ||
         absl::StartsWith(lower, "not ") || lower == "default";
}

std::string Filled(const std::string& text, const char* field, absl::string_view usual,
                   std::vector<std::string>* assumptions) {
  const std::string lower = absl::AsciiStrToLower(text);
  if (!SaysNothing(lower)) return lower;
  assumptions->push_back(absl::StrCat(field, " is not said; taken as ", usual));
  return std::string(usual);
}

absl::StatusOr<Precision> PrecisionOf(const std::string& text) {
  if (const std::optional<Precision> named = FindPrecision(text)) return *named;
  for (const char* word : {"fp8", "float8", "mxfp", "nvfp", "fp4", "int8"}) {
    if (absl::StrContains(text, word)) {
      return RunFieldError(
          "precision", absl::StrCat("`", text, "` is no recipe of 8 or 4 bits that is known here"));
    }
  }
  if (const std::optional<Precision> found = FindPrecisionIn(text)) return *found;
  return RunFieldError("precision",
                       absl::StrCat("`", text, "` is no precision that is known here"));
}

// The first whole number in `text` that no letter or digit precedes, so that `fp8` has none; absent
// for none.
std::optional<int> NumberIn(absl::string_view text) {
  char before = ' ';
  auto digit = text.begin();
  for (; digit != text.end(); before = *digit++) {
    if (absl::ascii_isdigit(*digit) && !absl::ascii_isalnum(before)) break;
  }
  if (digit == text.end()) return std::nullopt;
  int number = 0;
  for (auto at = digit; at != text.end() && absl::ascii_isdigit(*at) && number < 1000; ++at) {
    number = 10 * number + (*at - '0');
  }
  return number;
}

// Words for every n-th layer.
struct OrdinalWord {
  absl::string_view word;
  int interval;
};
constexpr OrdinalWord kOrdinalWords[] = {
    {"other", 2}, {"second", 2}, {"third", 3}, {"fourth", 4}, {"every layer", 1}};

// The interval of layers that recompute all they do, if the text says that only some do:
// torchtitan's `selective_ac_option` with a number (`selective 3` is every third layer), or words
// (`every third layer`). Its `selective layer` without a number has the option's default, 2. Absent
// if the text speaks of no layers.
std::optional<int> LayerInterval(const std::string& text) {
  const bool of_layers = absl::StrContains(text, "every") || absl::StrContains(text, "layer");
  const bool selective = absl::StartsWith(text, "sel") || absl::StartsWith(text, "sac") ||
                         absl::StartsWith(text, "per");
  const bool of_attention = absl::StrContains(text, "attention") || absl::StrContains(text, "core");
  if (of_attention || (!of_layers && !selective)) return std::nullopt;
  if (const std::optional<int> number = NumberIn(text)) return number;
  if (!of_layers) return std::nullopt;
  for (const OrdinalWord& known : kOrdinalWords) {
    if (absl::StrContains(text, known.word)) return known.interval;
  }
  constexpr int kDefaultOfTorchtitan = 2;
  return kDefaultOfTorchtitan;
}

// Whether the runtime is a trainer on PyTorch's FSDP.
bool IsOnFsdp(const RuntimeTraits& traits) {
  for (const char* id : {"fsdp", "torchtitan", "nemo-automodel", "llm-foundry"}) {
    if (traits.runtime_id == id) return true;
  }
  return false;
}

absl::Status SetInterval(const std::string& text, int interval, RunRuntime* runtime) {
  if (interval < 1) {
    return RunFieldError("recompute", absl::StrCat("`", text, "` names no interval of layers"));
  }
  runtime->recompute_interval = interval;
  return absl::OkStatus();
}

absl::Status SetRecompute(const std::string& text, RunRuntime* runtime) {
  if (text == "no" || text == "off" || text == "false" || absl::StartsWith(text, "none")) {
    runtime->recomputation = RecomputeLevel::kNone;
  } else if (absl::StartsWith(text, "full")) {
    runtime->recomputation = RecomputeLevel::kFull;
    if (absl::StrContains(text, "every")) {
      return SetInterval(text, LayerInterval(text).value_or(1), runtime);
    }
  } else if (const std::optional<int> interval = LayerInterval(text)) {
    runtime->recomputation = RecomputeLevel::kFull;
    return SetInterval(text, *interval, runtime);
  } else if (absl::StartsWith(text, "sel") || absl::StartsWith(text, "attention") ||
             absl::StartsWith(text, "core") || absl::StartsWith(text, "op") ||
             absl::StartsWith(text, "sac") || absl::StartsWith(text, "per")) {
    runtime->recomputation = RecomputeLevel::kSelective;
    // Trainers on PyTorch's FSDP recompute by operator if selective, Megatron attention only.
    if (IsOnFsdp(runtime->traits)) {
      const bool is_of_attention =
          absl::StrContains(text, "attention") || absl::StrContains(text, "core");
      runtime->traits.selective_recompute =
          is_of_attention ? SelectiveRecompute::kAttention : SelectiveRecompute::kOperators;
    }
  } else {
    return RunFieldError("recompute",
                         absl::StrCat("`", text, "` is no recomputation that is known here"));
  }
  return absl::OkStatus();
}

// Sets the modules that a run recomputes by name. None, and attention alone, are selective
// recomputation without modules.
absl::Status SetModules(const std::vector<std::string>& names, Recomputation* recomputation) {
  std::vector<RecomputeModule> modules;
  for (const std::string& name : names) {
    const std::optional<RecomputeModule> module = FindRecomputeModule(name);
    if (!module.has_value()) {
      return RunFieldError("recompute_modules",
                           absl::StrCat("`", name, "` is no module that is known here"));
    }
    modules.push_back(*module);
  }
  if (modules.empty() || modules == std::vector{RecomputeModule::kCoreAttention}) {
    return absl::OkStatus();
  }
  PARPLAN_ASSIGN_OR_RETURN(const RecomputeModules set,
                           RecomputeModules::Create(modules, "recompute_modules"));
  *recomputation = Recomputation(set);
  return absl::OkStatus();
}

// Sets what recipes of 8 and 4 bits leave to the runtime. `precision` is the name of one, or
// another description.
void RefineQuantisation(const PublishedRuntime& said, const std::string& precision,
                        RuntimeTraits* traits) {
  const std::optional<Precision> named = FindPrecision(precision);
  const bool has_parameters = named.has_value() && TraitsOf(*named).quantisation.has_value() &&
                              TraitsOf(*named).quantisation->has_parameters;
  traits->quantised_parameters =
      has_parameters && said.narrow_parameters.value_or(traits->quantised_parameters);
  traits->quantised_attention = said.narrow_attention.value_or(false);
  if (said.narrow_optimizer_states.value_or(false)) traits->moment_bytes = 2;
}

// Replaces values of the preset by those of the row.
void Refine(const PublishedRun& run, const std::string& precision, bool megatron_family,
            RuntimeTraits* traits) {
  const PublishedRuntime& said = run.runtime;
  if (said.blocking_launches.has_value()) traits->blocking_launches = *said.blocking_launches;
  if (said.cuda_graphs.value_or(false)) traits->eager = false;
  if (said.in_place_loss.value_or(false)) traits->loss_bytes_per_logit = 2;
  if (said.expandable_segments.has_value()) traits->expandable_segments = *said.expandable_segments;
  RefineQuantisation(said, precision, traits);
  if (run.expert_dispatcher == "deepep" || run.expert_dispatcher == "hybridep") {
    traits->expert_exchange = ExpertExchange::kOnceARank;
  }
  if (said.fixed_expert_counts.value_or(false)) traits->reads_expert_counts = false;
  if (said.hides_expert_exchange.has_value()) {
    traits->overlap_expert_exchange = *said.hides_expert_exchange;
  }
  if (said.attention_kernel.has_value()) traits->attention_kernel = *said.attention_kernel;
  if (said.flash_kernel.has_value()) traits->flash_kernel = *said.flash_kernel;
  if (said.compiled.value_or(false)) traits->fused_elementwise = true;
  if (said.overlap_tensor_parallel.has_value()) {
    // Rows of Megatron Core and its kin mean Transformer Engine's user buffers. PyTorch's
    // asynchronous tensor parallelism is taken to hide exchanges of the backward pass only.
    traits->tensor_parallel_overlap = !*said.overlap_tensor_parallel ? TensorParallelOverlap::kNone
                                      : megatron_family ? TensorParallelOverlap::kProducts
                                                        : TensorParallelOverlap::kWeightGradients;
  }
  if (said.dropout.has_value()) {
    traits->attention_dropout = *said.dropout;
    traits->hidden_dropout = *said.dropout;
  }
  if (said.overlap_gradient_sync.has_value()) {
    traits->overlap_gradient_sync = *said.overlap_gradient_sync;
  }
  if (said.overlap_parameter_gather.has_value()) {
    traits->overlap_parameter_gather = *said.overlap_parameter_gather;
  }
  // Megatron sums gradients in the precision of the parameters unless that is bf16
  // or --accumulate-allreduce-grads-in-fp32 is given.
  const bool fp16 = absl::StrContains(precision, "fp16") && !absl::StrContains(precision, "bf16");
  std::optional<bool> fp32_gradients = said.fp32_gradients;
  if (!fp32_gradients.has_value() && megatron_family) {
    const bool has_own =
        traits->runtime_id == "megatron-deepspeed" || traits->runtime_id == "megatron-bridge";
    if (fp16 || !has_own) fp32_gradients = !fp16;
  }
  if (absl::StrContains(precision, "fp32 grad")) {
    fp32_gradients = true;
    // DeepSpeed's BF16_Optimizer adds the 16-bit gradients of all layers to a buffer of
    // its own after a micro-batch, and clears them before the next
    // (update_hp_grads(clear_lp_grads=False) in its pipeline engine).
    if (traits->runtime_id == "megatron-deepspeed") traits->separate_gradient_buffer = true;
  }
  if (fp32_gradients.has_value()) {
    traits->gradient_bytes = *fp32_gradients ? 4 : 2;
    traits->gradient_message_bytes = *fp32_gradients ? 4 : 2;
  }
}

}  // namespace

absl::StatusOr<RunRuntime> RuntimeOf(const PublishedRun& run,
                                     std::vector<std::string>* assumptions) {
  RunRuntime runtime;
  const KnownFramework* known = FindFramework(run);
  bool megatron_family = false;
  if (known == nullptr) {
    assumptions->push_back("framework is not known; taken as parplan's own executor");
  } else {
    const RuntimeTraits* preset = FindRuntime(known->runtime_id);
    PARPLAN_CHECK(preset != nullptr);
    runtime.traits = *preset;
    runtime.default_zero_level = known->default_zero_level;
    runtime.default_sequence_parallel = known->sequence_parallel;
    megatron_family = known->megatron_family;
    if (known->without_dropout) {
      runtime.traits.attention_dropout = false;
      runtime.traits.hidden_dropout = false;
    }
    if (known->plain_models) {
      runtime.traits.attention_dropout = false;
      runtime.traits.fused_softmax = false;
      runtime.traits.fused_elementwise = false;
    }
  }
  runtime.pads_vocabulary = megatron_family;
  if (runtime.traits.runtime_id == "megatron-deepspeed") {
    runtime.stage_split = StageSplit::kFromFront;
  } else if (runtime.traits.runtime_id == "nanotron") {
    runtime.stage_split = StageSplit::kByCost;
  }
  runtime.memory_view = ViewOf(run, known);

  const std::string precision =
      Filled(run.precision, "precision", known == nullptr ? "bf16" : known->precision, assumptions);
  const absl::StatusOr<Precision> parsed_precision = PrecisionOf(precision);
  if (!parsed_precision.ok()) return parsed_precision.status();
  runtime.precision = *parsed_precision;

  const std::string recompute = Filled(run.recompute, "recompute", "none", assumptions);
  PARPLAN_RETURN_IF_ERROR(SetRecompute(recompute, &runtime));
  if (runtime.recomputation.level == RecomputeLevel::kSelective) {
    PARPLAN_RETURN_IF_ERROR(SetModules(run.recompute_modules, &runtime.recomputation));
  }

  Refine(run, precision, megatron_family, &runtime.traits);
  return runtime;
}

}  // namespace parplan::accuracy
