#include "clients/calibrate/row_runtime.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace parplan::accuracy {
namespace {

// A phrase of `notes`, and the setting that it stands for.
struct NotePhrase {
  absl::string_view phrase;
  std::optional<bool> PublishedRuntime::*setting;
  bool value;
};
constexpr NotePhrase kNotePhrases[] = {
    {"no overlap of tensor-parallel", &PublishedRuntime::overlap_tensor_parallel, false},
    {"tp comm overlap", &PublishedRuntime::overlap_tensor_parallel, true},
    // Graphs of whole passes or of whole layers; those of single modules leave the rest to the
    // host.
    {"full_iteration", &PublishedRuntime::cuda_graphs, true},
    // Megatron Core's own graphs are of whole layers, Transformer Engine's of modules.
    {"cuda graphs: local", &PublishedRuntime::cuda_graphs, true},
    {"FULL_CUDA_GRAPH", &PublishedRuntime::cuda_graphs, true},
    {"LAYER_CUDA_GRAPH", &PublishedRuntime::cuda_graphs, true},
    {"MCORE_CUDA_GRAPH", &PublishedRuntime::cuda_graphs, true},
    // Padded or cut to a capacity, experts get equal numbers of tokens, which the host knows
    // (Megatron-Bridge, training/utils/moe_token_drop.py: `moe_pad_expert_input_to_capacity`).
    {"tokens dropped at capacity", &PublishedRuntime::fixed_expert_counts, true},
    {"tokens padded to a capacity", &PublishedRuntime::fixed_expert_counts, true},
    {"fp8 parameters gathered", &PublishedRuntime::narrow_parameters, true},
    {"expert all-to-all overlapped", &PublishedRuntime::hides_expert_exchange, true},
    {"fp8 attention", &PublishedRuntime::narrow_attention, true},
    {"precision-aware optimizer", &PublishedRuntime::narrow_optimizer_states, true},
    {"gradients summed in fp32", &PublishedRuntime::fp32_gradients, true},
    // `--cross-entropy-fusion-impl te`.
    {"cross-entropy fusion", &PublishedRuntime::in_place_loss, true},
    {"expandable segments", &PublishedRuntime::expandable_segments, true},
};

struct ViewName {
  absl::string_view name;
  MemoryView view;
};
// The names that `parplan-study accuracy --format json` prints.
constexpr ViewName kViewNames[] = {{"allocated_last_rank", MemoryView::kAllocatedLastRank},
                                   {"allocated_max", MemoryView::kAllocatedMax},
                                   {"reserved_max", MemoryView::kReservedMax},
                                   {"reserved_first_rank", MemoryView::kReservedFirstRank},
                                   {"allocated_first_rank", MemoryView::kAllocatedFirstRank},
                                   {"device_total", MemoryView::kDeviceTotal}};

void ReadAdapters(const RowFields& fields, PublishedRun* run) {
  const RowFields peft = fields.Section("peft");
  const auto kind = peft.Text({"kind"});
  if (!kind.has_value()) return;
  if (*kind != "lora") {
    run->beyond.push_back(absl::StrCat("fine-tuning by `", *kind, "` is not modelled"));
    return;
  }
  // Not said: that of MLPerf's benchmark, which is the usual one.
  constexpr int kUsualRank = 16;
  const int rank = peft.Count({"rank"}, 1).value_or(kUsualRank);
  run->model.frozen = true;
  run->model.attention_adapter_rank = rank;
  // Adapters of attention only, unless the row lists others.
  if (absl::StrContains(peft.Text({"targets"}).value_or(""), "mlp")) {
    run->model.feed_forward_adapter_rank = rank;
  }
}

}  // namespace

void ReadRuntimeWords(PublishedRun* run) {
  for (const std::string& text : {run->framework, run->note}) {
    const std::string lower = absl::AsciiStrToLower(text);
    if (absl::StrContains(lower, "no torch.compile") ||
        absl::StrContains(lower, "without torch.compile")) {
      run->runtime.compiled = false;
    } else if (absl::StrContains(lower, "torch.compile") || absl::StrContains(lower, "compiled")) {
      run->runtime.compiled = true;
    }
    if (absl::StrContains(lower, "async tp") || absl::StrContains(lower, "asynctp")) {
      run->runtime.overlap_tensor_parallel = true;
    }
  }
}

void ReadRuntime(const RowFields& fields, PublishedRun* run) {
  if (const auto kernel = fields.Text({"attention", "attn", "attn_impl", "attention_backend"})) {
    const std::string lower = absl::AsciiStrToLower(*kernel);
    if (absl::StrContains(lower, "flash") || absl::StrContains(lower, "fused") ||
        absl::StrContains(lower, "sdpa") || absl::StrContains(lower, "triton") ||
        absl::StrContains(lower, "cudnn")) {
      run->runtime.attention_kernel = AttentionKernel::kFlash;
    }
    if (absl::StrContains(lower, "cudnn") || absl::StrContains(lower, "3")) {
      run->runtime.flash_kernel = FlashKernel::kNative;
    } else if (absl::StrContains(lower, "sdpa") || absl::StrContains(lower, "2")) {
      run->runtime.flash_kernel = FlashKernel::kSecond;
    } else if (absl::StrContains(lower, "triton")) {
      run->runtime.flash_kernel = FlashKernel::kFirst;
    }
    if (absl::StrContains(lower, "unfused") || lower == "torch" || lower == "local" ||
        lower == "eager") {
      run->runtime.attention_kernel = AttentionKernel::kUnfused;
    }
  }
  if (const auto flash = fields.Flag({"flash_attention", "flash_attn"})) {
    run->runtime.attention_kernel = *flash ? AttentionKernel::kFlash : AttentionKernel::kUnfused;
  }
  if (const auto compiled = fields.Flag({"compile", "torch_compile"})) {
    run->runtime.compiled = *compiled;
  }
  if (const auto overlap = fields.Flag({"async_tp", "tp_overlap", "tp_comm_overlap"})) {
    run->runtime.overlap_tensor_parallel = *overlap;
  }
}

void ReadNotes(const RowFields& fields, PublishedRun* run) {
  const nlohmann::json* notes = fields.Any({"notes"});
  if (notes == nullptr) return;
  if (!notes->is_array()) return fields.Fault("notes", "must be a list of texts");
  for (const nlohmann::json& note : *notes) {
    if (!note.is_string()) return fields.Fault("notes", "must be a list of texts");
    const std::string text = note.get<std::string>();
    for (const NotePhrase& known : kNotePhrases) {
      if (absl::StrContains(text, known.phrase)) run->runtime.*known.setting = known.value;
    }
  }
}

void ReadConditions(const RowFields& fields, PublishedRun* run) {
  run->cluster = fields.Text({"cluster"}).value_or("");
  run->repository = fields.Section("source_ref").Text({"repository"}).value_or("");
  if (const auto blocking = fields.Flag({"blocking_launches"})) {
    run->runtime.blocking_launches = *blocking;
  }
  if (const nlohmann::json* dropout = fields.Any({"dropout"})) {
    if (dropout->is_boolean()) {
      run->runtime.dropout = dropout->get<bool>();
    } else if (dropout->is_number()) {
      run->runtime.dropout = dropout->get<double>() > 0.0;
    } else {
      fields.Fault("dropout", "must be a rate, true or false");
    }
  }
  if (const auto name = fields.Text({"memory_view"})) {
    for (const ViewName& known : kViewNames) {
      if (known.name == *name) run->memory_view = known.view;
    }
    if (!run->memory_view.has_value()) {
      fields.Fault("memory_view",
                   absl::StrCat("`", *name, "` is no kind of peak (docs/accuracy.md)"));
    }
  }
  ReadAdapters(fields, run);
  run->failed = fields.Flag({"failed"}).value_or(false);
}

}  // namespace parplan::accuracy
