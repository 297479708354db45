#include "clients/import/torchtitan_settings.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

using nlohmann::json;

// Classes and names of Python and the section that they hold. A name stands for itself behind
// modules: `torchtitan.config.TrainingConfig`.
struct SectionName {
  absl::string_view name;
  absl::string_view section;
};
constexpr SectionName kSectionNames[] = {
    {"ParallelismConfig", "parallelism"},
    {"PARALLELISM", "parallelism"},
    {"parallelism", "parallelism"},
    {"TrainingConfig", "training"},
    {"TRAINING", "training"},
    {"training", "training"},
    {"MODEL", "model"},
    {"TransformerModelArgs", "model"},
    {"model", "model"},
    {"ActivationCheckpointConfig", "activation_checkpoint"},
    {"activation_checkpoint", "activation_checkpoint"},
};

// Settings of parallelism that are read, and those that change neither shape nor parallelism.
constexpr absl::string_view kParallelismNames[] = {
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "fsdp_reshard_after_forward",
    "tensor_parallel_degree",
    "enable_sequence_parallel",
    "pipeline_parallel_degree",
    "module_fqns_per_model_part",
    "pipeline_parallel_module_fqns_per_model_part",
    "pipeline_parallel_first_stage_less_layers",
    "pipeline_parallel_last_stage_less_layers",
    "pipeline_parallel_layers_per_stage",
    "pipeline_parallel_schedule",
    "pipeline_parallel_schedule_csv",
    "pipeline_parallel_microbatch_size",
    "num_pp_microbatches",
    "context_parallel_degree",
    "context_parallel_rotate_method",
    "expert_parallel_degree",
    "expert_tensor_parallel_degree",
    // Neither.
    "context_parallel_load_balancer",
    "context_parallel_ptrr_mask_key",
    "disable_loss_parallel",
    "enable_async_tensor_parallel",
    "enable_compiled_autograd",
    "enable_fsdp_symm_mem",
    "fsdp_symm_mem_scope",
    "pp_num_unshard_lookahead_factor",
    "spmd_backend",
};

// Settings of training that a plan is made from; releases behind 0.3.0 count tokens.
constexpr absl::string_view kBatchNames[] = {"batch_size", "local_batch_size", "global_batch_size",
                                             "num_tokens_per_microbatch_per_dp_rank",
                                             "num_tokens_per_train_step"};

// The other settings of training: they are compared with the model, or describe the run.
constexpr absl::string_view kTrainingNames[] = {
    "compile",     "dataset",  "dataset_path",           "deterministic",
    "dtype",       "gc_debug", "disable_cuda_graphs",    "enable_cpu_offload",
    "gc_freq",     "max_norm", "max_context_length",     "mixed_precision_param",
    "seed",        "seq_len",  "mixed_precision_reduce", "steps",
    "warmup_steps"};

// Sections and classes that are not of the plan.
constexpr absl::string_view kOtherSections[] = {
    "job",          "profiling",    "profiler",        "metrics",           "optimizer",
    "lr_scheduler", "comm",         "checkpoint",      "compile",           "debug",
    "validation",   "validator",    "dataloader",      "tokenizer",         "loss",
    "quantize",     "experimental", "fault_tolerance", "memory_estimation", "float8",
    "mx",           "override",
};

// Words by which classes of torchtitan say that they are no part of the plan.
constexpr absl::string_view kOtherClasses[] = {
    "Trainer.Config",   "CompileConfig", "CommConfig",   "DebugConfig", "Profiler",
    "MetricsProcessor", "Optimizer",     "LRSchedulers", "Checkpoint",  "Validator",
    "DataLoader",       "Tokenizer",     "Loss",         "Override",
};

// The beginning of the line by which an exported module is known (exports/torchtitan_plan_export).
constexpr absl::string_view kExportedLine = "\"\"\"A plan of parplan for torchtitan ";

template <typename List>
bool IsIn(const List& list, absl::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// Splits the last name off: `a.b.c` into `a.b` and `c`.
std::pair<absl::string_view, absl::string_view> SplitLast(absl::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == absl::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// Returns the section that a class or the target of an assignment names by its last part, or
// nothing.
absl::string_view NamedSection(absl::string_view owner) {
  const absl::string_view last = SplitLast(owner).second;
  for (const SectionName& known : kSectionNames) {
    if (last == known.name) return known.section;
  }
  return "";
}

bool IsRecomputationChoice(absl::string_view name) {
  return name == "activation_checkpoint" || name == "ACTIVATION_CHECKPOINT";
}

// Returns whether the name is that of a degree of parallelism, of any release.
bool IsDegree(absl::string_view name) {
  return absl::EndsWith(name, "_degree") && absl::StrContains(name, "_parallel_");
}

bool IsConfigClass(absl::string_view owner) {
  return absl::EndsWith(owner, "Config") || absl::EndsWith(owner, "Args");
}

bool IsOtherClass(absl::string_view owner) {
  return std::any_of(std::begin(kOtherClasses), std::end(kOtherClasses),
                     [owner](absl::string_view word) { return absl::StrContains(owner, word); });
}

}  // namespace

absl::StatusOr<TorchtitanSettings> TorchtitanSettings::Read(const NamedText& file,
                                                            absl::string_view function) {
  TorchtitanSettings result;
  result.file_name_ = file.name;
  const bool is_toml = absl::EndsWith(file.name, ".toml");
  if (is_toml && !function.empty()) {
    return result.Fault("", "is TOML, which has no functions");
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<LiteralSetting> settings,
                           is_toml ? ReadTomlSettings(file) : ReadPythonSettings(file, function));
  for (const LiteralSetting& setting : settings) {
    result.roots_.insert(setting.path.substr(0, setting.path.find('.')));
  }
  std::set<std::string> unknown;
  for (const LiteralSetting& setting : settings) {
    PARPLAN_RETURN_IF_ERROR(result.CheckDegree(setting));
    if (!is_toml) PARPLAN_RETURN_IF_ERROR(result.CheckOwner(setting));
    PARPLAN_RETURN_IF_ERROR(result.Take(setting, !function.empty()));
    if (!is_toml) result.NoteAlias(setting);
    result.NoteSection(setting, is_toml);
    const absl::string_view owner = SplitLast(setting.path).first;
    if (is_toml) {
      const absl::string_view section = owner.substr(0, owner.find('.'));
      if (NamedSection(section).empty() && !IsIn(kOtherSections, section)) {
        unknown.emplace(section);
      }
    } else if (IsConfigClass(owner) && result.SectionOf(owner).empty() && !IsOtherClass(owner) &&
               !absl::EndsWith(owner, "AC.Config")) {
      unknown.emplace(owner);
    }
  }
  for (const auto& [path, value] : result.values_) {
    absl::string_view name = path;
    const bool is_of_training = absl::ConsumePrefix(&name, "training.");
    if (is_of_training && !IsIn(kBatchNames, name) && !IsIn(kTrainingNames, name) &&
        !IsDegree(name)) {
      unknown.insert(path);
    }
  }
  PARPLAN_RETURN_IF_ERROR(result.CheckIsWhole(absl::StrContains(file.text, kExportedLine)));
  result.unknown_ = absl::StrJoin(unknown, ", ");
  PARPLAN_RETURN_IF_ERROR(result.SettleSelective(is_toml));
  PARPLAN_RETURN_IF_ERROR(result.CheckParallelismNames());
  return result;
}

absl::string_view TorchtitanSettings::SectionOf(absl::string_view owner) const {
  const absl::string_view section = NamedSection(owner);
  if (!section.empty()) return section;
  const auto alias = aliases_.find(std::string(owner));
  return alias == aliases_.end() ? absl::string_view() : absl::string_view(alias->second);
}

void TorchtitanSettings::NoteAlias(const LiteralSetting& setting) {
  if (!NamedSection(setting.path).empty()) return;
  const std::string section(SectionOf(setting.reference));
  if (section.empty()) {
    aliases_.erase(setting.path);
  } else {
    aliases_[setting.path] = section;
  }
}

absl::Status TorchtitanSettings::CheckOwner(const LiteralSetting& setting) const {
  const auto [owner, name] = SplitLast(setting.path);
  if (setting.has_unknown_name && !IsIn(kOtherSections, name)) {
    return Fault(absl::StrCat("line ", setting.line),
                 "changes a setting whose name is an expression; write the name itself");
  }
  if (owner.empty() || !SectionOf(owner).empty()) return absl::OkStatus();
  const bool is_other = IsIn(kOtherSections, SplitLast(owner).second) || IsOtherClass(owner) ||
                        absl::StrContains(owner, "Validat");
  // Data loaders have a `batch_size` of their own.
  const bool is_batch = name != "batch_size" && IsIn(kBatchNames, name);
  if (!IsIn(kParallelismNames, name) && (is_other || !is_batch)) return absl::OkStatus();
  return Fault(absl::StrCat("line ", setting.line),
               absl::StrCat("gives `", setting.path, "` a value, and what `", owner,
                            "` is does not stand in the file; write ",
                            is_batch ? "TrainingConfig" : "ParallelismConfig", "(", name, "=...)"));
}

absl::Status TorchtitanSettings::CheckDegree(const LiteralSetting& setting) const {
  const auto [owner, name] = SplitLast(setting.path);
  const bool is_elsewhere =
      SectionOf(owner) == "training" || SplitLast(owner).second == "experimental";
  if (!IsDegree(name) || !is_elsewhere) return absl::OkStatus();
  if (setting.value == 1 || setting.value == -1) return absl::OkStatus();
  return Fault(setting.path,
               "stands where releases before [parallelism] had it, whose pipelines divided layers "
               "and batches otherwise; write the section [parallelism] of a later release");
}

absl::Status TorchtitanSettings::Take(const LiteralSetting& setting, bool last_wins) {
  const auto [owner, name] = SplitLast(setting.path);
  absl::string_view section = SectionOf(owner);
  // A dictionary, or `None` where a class could be.
  if (section.empty() && NamedSection(name) == "activation_checkpoint") {
    section = "activation_checkpoint";
  }
  if (section == "activation_checkpoint" || absl::StrContains(setting.path, "AC.Config") ||
      setting.path == "ACTIVATION_CHECKPOINT") {
    return TakeRecomputation(setting, std::string(name));
  }
  if (section.empty()) {
    return TakeWhole(setting, last_wins);
  }
  const std::string path = absl::StrCat(section, ".", name);
  if (!setting.is_literal) {
    // Exported files set the table of passes where they have one.
    if (setting.is_conditional && setting.path == "parallelism.pipeline_parallel_schedule_csv") {
      return absl::OkStatus();
    }
    const bool is_of_plan = section == "parallelism" || IsIn(kBatchNames, name);
    return is_of_plan ? NoLiteral(setting.line, path) : absl::OkStatus();
  }
  const auto [entry, is_new] = values_.emplace(path, setting.value);
  if (is_new || entry->second == setting.value) return absl::OkStatus();
  if (!last_wins) {
    return Fault(absl::StrCat("line ", setting.line),
                 absl::StrCat("gives `", path,
                              "` another value than before; name the function "
                              "that makes the configuration"));
  }
  entry->second = setting.value;
  return absl::OkStatus();
}

absl::Status TorchtitanSettings::TakeWhole(const LiteralSetting& setting, bool last_wins) {
  const absl::string_view section = SectionOf(setting.path);
  if (section.empty()) return absl::OkStatus();
  if (setting.value.is_object()) {
    for (const auto& [key, value] : setting.value.items()) {
      PARPLAN_RETURN_IF_ERROR(
          Take({absl::StrCat(section, ".", key), value, true, setting.line}, last_wins));
    }
    return absl::OkStatus();
  }
  // Names of the section and calls of its class were read where they got their value. A variable
  // that has none in the file comes from elsewhere.
  const std::string& reference = setting.reference;
  const bool is_from_elsewhere = !IsConfigClass(reference) && !absl::StrContains(reference, ".") &&
                                 !roots_.contains(reference);
  if (setting.is_literal || (SectionOf(reference) == section && !is_from_elsewhere)) {
    return absl::OkStatus();
  }
  return section == "model" ? absl::OkStatus() : NoLiteral(setting.line, section);
}

absl::Status TorchtitanSettings::NoLiteral(int line, absl::string_view path) const {
  return Fault(absl::StrCat("line ", line),
               absl::StrCat("gives `", path, "` no literal value; write the value itself"));
}

absl::Status TorchtitanSettings::SetRecomputation(TorchtitanRecomputation value, int line) {
  if (recomputation_ != TorchtitanRecomputation::kDefault && recomputation_ != value) {
    return Fault(absl::StrCat("line ", line),
                 "chooses another activation checkpointing than before");
  }
  recomputation_ = value;
  return absl::OkStatus();
}

absl::Status TorchtitanSettings::TakeRecomputation(const LiteralSetting& setting,
                                                   const std::string& name) {
  const std::string& path = setting.path;
  const int line = setting.line;
  const bool is_choice = IsRecomputationChoice(name);
  if (setting.is_conditional && (is_choice || absl::StrContains(path, "AC.Config"))) {
    return Fault(absl::StrCat("line ", line),
                 "chooses activation checkpointing on a line that not every run reaches; write the "
                 "one that runs use");
  }
  if (absl::StrContains(path, "FullAC.Config")) {
    return SetRecomputation(TorchtitanRecomputation::kFull, line);
  }
  if (absl::StrContains(path, "SelectiveAC.Config")) {
    return SetRecomputation(TorchtitanRecomputation::kSelective, line);
  }
  if (absl::StrContains(path, "AC.Config")) {
    return Fault(absl::StrCat("line ", line),
                 absl::StrCat("`", path, "` is no recomputation of a plan"));
  }
  // `**` unpacks what does not stand here.
  if (name == "ActivationCheckpointConfig" && !setting.is_literal) {
    return NoLiteral(line, "activation_checkpoint");
  }
  if (name == "mode") {
    has_mode_ = true;
    const std::string mode = setting.value.is_string() ? setting.value.get<std::string>() : "";
    if (mode == "none") return SetRecomputation(TorchtitanRecomputation::kNone, line);
    if (mode == "full") return SetRecomputation(TorchtitanRecomputation::kFull, line);
    if (mode == "selective") return SetRecomputation(TorchtitanRecomputation::kSelective, line);
    return Fault(absl::StrCat("line ", line), "must name the mode none, full or selective");
  }
  if (name == "selective_ac_option") {
    has_mode_ = true;
    selective_option_ = setting.value;
    selective_option_line_ = line;
  }
  return is_choice ? TakeRecomputationChoice(setting) : absl::OkStatus();
}

// Takes the value of `activation_checkpoint`: a class, a dictionary, None, or a variable of the
// same name that was read where it got its value.
absl::Status TorchtitanSettings::TakeRecomputationChoice(const LiteralSetting& setting) {
  if (setting.value.is_object()) {
    for (const auto& [key, value] : setting.value.items()) {
      PARPLAN_RETURN_IF_ERROR(TakeRecomputation(
          {absl::StrCat("activation_checkpoint.", key), value, true, setting.line}, key));
    }
    return absl::OkStatus();
  }
  if (setting.is_literal && setting.value.is_null()) {
    return SetRecomputation(TorchtitanRecomputation::kNone, setting.line);
  }
  if (absl::StrContains(setting.reference, "AC.Config")) {
    return TakeRecomputation({setting.reference, json(), true, setting.line}, "Config");
  }
  // A call of the class that has a mode, which was read with its arguments.
  if (SectionOf(setting.reference) == "activation_checkpoint") {
    if (absl::EndsWith(setting.reference, "ActivationCheckpointConfig")) has_mode_ = true;
    return absl::OkStatus();
  }
  if (IsRecomputationChoice(SplitLast(setting.reference).second)) return absl::OkStatus();
  return Fault(absl::StrCat("line ", setting.line),
               "chooses activation checkpointing by an expression; write the class itself");
}

void TorchtitanSettings::NoteSection(const LiteralSetting& setting, bool is_toml) {
  const absl::string_view path = setting.path;
  const absl::string_view owner = SplitLast(path).first;
  const auto is_section = [this](absl::string_view name) {
    return !SectionOf(name).empty() || IsIn(kOtherSections, SplitLast(name).second);
  };
  if (is_toml) {
    has_section_ = has_section_ || is_section(owner.substr(0, owner.find('.')));
    return;
  }
  has_section_ = has_section_ || is_section(owner) || IsOtherClass(path) ||
                 (SectionOf(path) != "model" && !SectionOf(path).empty());
}

absl::Status TorchtitanSettings::CheckIsWhole(bool is_export) const {
  const bool says_something = has_section_ || !values_.empty();
  if (!says_something && recomputation_ == TorchtitanRecomputation::kDefault) {
    return Fault("",
                 "has no setting of torchtitan; give the whole file, with the configuration that "
                 "runs use");
  }
  if (!is_export) return absl::OkStatus();
  // The names that an exported module gives values, in their order
  // (exports/torchtitan_plan_export).
  for (const char* name : {"RELEASE", "MODEL", "PARALLELISM", "TRAINING", "ACTIVATION_CHECKPOINT",
                           "COMPILE", "SCHEDULE"}) {
    if (roots_.contains(name)) continue;
    return Fault(name,
                 "is missing: the module that parplan exported is not whole; export it again");
  }
  return absl::OkStatus();
}

absl::Status TorchtitanSettings::SettleSelective(bool is_toml) {
  // The other modes do not look at it.
  if (recomputation_ != TorchtitanRecomputation::kSelective &&
      recomputation_ != TorchtitanRecomputation::kDefault) {
    return absl::OkStatus();
  }
  if (selective_option_line_ == 0) {
    // `selective_ac_option: str = "2"` in config/job_config.py and config/configs.py.
    recomputed_interval_ = is_toml || has_mode_ ? 2 : 0;
    return absl::OkStatus();
  }
  if (selective_option_ == "op") return absl::OkStatus();
  const bool is_number =
      selective_option_.is_string() &&
      absl::SimpleAtoi(selective_option_.get<std::string>(), &recomputed_interval_) &&
      recomputed_interval_ >= 1 && recomputed_interval_ <= kMaxImportCount;
  if (is_number) return absl::OkStatus();
  return Fault(absl::StrCat("line ", selective_option_line_),
               "must have the text op or a number of layers as selective_ac_option");
}

absl::Status TorchtitanSettings::CheckParallelismNames() const {
  std::vector<absl::string_view> unknown;
  for (const auto& [path, value] : values_) {
    absl::string_view name = path;
    if (absl::ConsumePrefix(&name, "parallelism.") && !IsIn(kParallelismNames, name)) {
      unknown.push_back(name);
    }
  }
  if (unknown.empty()) return absl::OkStatus();
  return Fault("parallelism",
               absl::StrCat("has settings that are not known: ", absl::StrJoin(unknown, ", ")));
}

absl::Status TorchtitanSettings::Fault(absl::string_view path, absl::string_view rule) const {
  return ImportError(Reason::kSpecInvalid, file_name_, path, rule);
}

const json* TorchtitanSettings::Find(const std::string& path) const {
  const auto found = values_.find(path);
  return found == values_.end() || found->second.is_null() ? nullptr : &found->second;
}

void TorchtitanSettings::Remember(const std::string& path, absl::string_view rule) {
  if (status_.ok()) status_ = Fault(path, rule);
}

int TorchtitanSettings::Count(const std::string& path, int minimum, int fallback) {
  const json* const value = Find(path);
  if (value == nullptr) return fallback;
  const absl::StatusOr<int> count =
      ReadCount(*value, minimum, Reason::kSpecInvalid, file_name_, path);
  if (!count.ok() && status_.ok()) status_ = count.status();
  return count.ok() ? *count : fallback;
}

std::string TorchtitanSettings::Text(const std::string& path, const std::string& fallback) {
  const json* const value = Find(path);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  Remember(path, "must be a text");
  return fallback;
}

bool TorchtitanSettings::Flag(const std::string& path, bool fallback) {
  const json* const value = Find(path);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Remember(path, "must be true or false");
  return fallback;
}

std::vector<std::string> TorchtitanSettings::Texts(const std::string& path) {
  const json* const value = Find(path);
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<std::string> texts;
  for (const json& entry : list) {
    if (!entry.is_string()) {
      Remember(path, "must be a text or a list of texts");
      return {};
    }
    if (!entry.get<std::string>().empty()) texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::vector<std::vector<std::string>> TorchtitanSettings::TextLists(const std::string& path) {
  std::vector<std::vector<std::string>> lists;
  const json* const value = Find(path);
  if (value == nullptr) return lists;
  const auto is_text = [](const json& entry) { return entry.is_string(); };
  if (!value->is_array()) {
    Remember(path, "must be a list of lists of names");
    return lists;
  }
  for (const json& entry : *value) {
    if (!entry.is_array() || !std::all_of(entry.begin(), entry.end(), is_text)) {
      Remember(path, "must be a list of lists of names");
      return {};
    }
    lists.push_back(entry.get<std::vector<std::string>>());
  }
  return lists;
}

}  // namespace parplan
