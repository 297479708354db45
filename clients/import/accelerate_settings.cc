#include "clients/import/accelerate_settings.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/import/yaml_text.h"

namespace parplan {
namespace {

// Settings that change neither the shape of the model nor how it is divided over ranks, as the file
// has them. Those that end in a star are beginnings of names.
constexpr const char* kIgnoredSettings[] = {
    "ACCELERATE_CPU_AFFINITY",
    "ACCELERATE_DEBUG_MODE",
    "ACCELERATE_DYNAMO_*",
    "ACCELERATE_DEEPSPEED_ZERO3_*",
    "ACCELERATE_GRADIENT_CLIPPING",
    "FSDP_BACKWARD_PREFETCH",
    "FSDP_CPU_RAM_EFFICIENT_LOADING",
    "FSDP_FORWARD_PREFETCH",
    "FSDP_IGNORED_MODULES",
    "FSDP_MIN_NUM_PARAMS",
    "FSDP_SHARDING_STRATEGY",
    "FSDP_STATE_DICT_TYPE",
    "FSDP_SYNC_MODULE_STATES",
    "FSDP_TRANSFORMER_CLS_TO_WRAP",
    "FSDP_USE_ORIG_PARAMS",
    "PARALLELISM_CONFIG_CP_*",
    "PARALLELISM_CONFIG_SP_*",
    "compute_environment",
    "debug",
    "deepspeed_config.deepspeed_hostfile",
    "deepspeed_config.deepspeed_multinode_launcher",
    "deepspeed_config.gradient_clipping",
    "deepspeed_config.zero3_init_flag",
    "deepspeed_config.zero3_save_16bit_model",
    "downcast_bf16",
    "dynamo_config*",
    "enable_cpu_affinity",
    "fsdp_config.fsdp_backward_prefetch*",
    "fsdp_config.fsdp_cpu_ram_efficient_loading",
    "fsdp_config.fsdp_forward_prefetch",
    "fsdp_config.fsdp_min_num_params",
    "fsdp_config.fsdp_sharding_strategy",
    "fsdp_config.fsdp_state_dict_type",
    "fsdp_config.fsdp_sync_module_states",
    "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
    "fsdp_config.fsdp_use_orig_params",
    "gpu_ids",
    "machine_rank",
    "main_process_ip",
    "main_process_port",
    "main_training_function",
    "num_machines",
    "parallelism_config.parallelism_config_cp_*",
    "parallelism_config.parallelism_config_sp_*",
    "rdzv_backend",
    "same_network",
    "tpu_env",
    "tpu_use_cluster",
    "tpu_use_sudo",
};

bool IsVariableLetter(char letter) { return absl::ascii_isalnum(letter) || letter == '_'; }

bool IsVariableName(absl::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(text[0]) &&
         std::all_of(text.begin(), text.end(), IsVariableLetter);
}

// Cuts off a comment: `#` at the beginning or after a blank, outside quotes.
absl::string_view WithoutLineComment(absl::string_view line) {
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    if (quote != '\0') {
      if (line[i] == quote) quote = '\0';
    } else if (line[i] == '\'' || line[i] == '"') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || absl::ascii_isspace(line[i - 1]))) {
      return line.substr(0, i);
    }
  }
  return line;
}

// Removes one pair of quotes around the text; nothing if only one of them is there.
std::optional<std::string> UnquotedValue(absl::string_view text) {
  for (const absl::string_view quote : {"'", "\""}) {
    const bool begins = absl::StartsWith(text, quote);
    if (begins != absl::EndsWith(text, quote) || (begins && text.size() < 2)) return std::nullopt;
    if (begins) return std::string(text.substr(1, text.size() - 2));
  }
  return std::string(text);
}

// Returns whether the first line with a setting is `NAME=value`.
bool BeginsWithVariable(absl::string_view file) {
  for (const absl::string_view line : absl::StrSplit(file, '\n')) {
    absl::string_view text = absl::StripAsciiWhitespace(WithoutLineComment(line));
    if (text.empty()) continue;
    absl::ConsumePrefix(&text, "export ");
    return IsVariableName(absl::StripLeadingAsciiWhitespace(text.substr(0, text.find('=')))) &&
           absl::StrContains(text, '=');
  }
  return false;
}

// Returns the variable that `accelerate launch` sets for a key of a section.
std::string VariableOf(absl::string_view section, absl::string_view key) {
  if (section == "fsdp_config" && key == "fsdp_transformer_layer_cls_to_wrap") {
    return "FSDP_TRANSFORMER_CLS_TO_WRAP";
  }
  if (section == "deepspeed_config") {
    if (key == "gradient_accumulation_steps") return "ACCELERATE_GRADIENT_ACCUMULATION_STEPS";
    if (key == "deepspeed_config_file") return "ACCELERATE_DEEPSPEED_CONFIG_FILE";
    if (key == "zero_stage" || key == "offload_optimizer_device" || key == "offload_param_device") {
      return absl::StrCat("ACCELERATE_DEEPSPEED_", absl::AsciiStrToUpper(key));
    }
  }
  if (section == "fsdp_config" || section == "parallelism_config") {
    return absl::AsciiStrToUpper(key);
  }
  if (section.empty() && (key == "mixed_precision" || key == "gradient_accumulation_steps")) {
    return absl::StrCat("ACCELERATE_", absl::AsciiStrToUpper(key));
  }
  return section.empty() ? std::string(key) : absl::StrCat(section, ".", key);
}

}  // namespace

bool IsIgnoredAccelerateSetting(const std::string& name) {
  return std::any_of(
      std::begin(kIgnoredSettings), std::end(kIgnoredSettings), [&name](absl::string_view known) {
        return absl::ConsumeSuffix(&known, "*") ? absl::StartsWith(name, known) : name == known;
      });
}

absl::Status AccelerateSettings::Add(std::string variable, const std::string& shown,
                                     std::string value) {
  if (!values_.try_emplace(std::move(variable), Setting{shown, std::move(value)}).second) {
    return ImportError(Reason::kSpecInvalid, file_name_, shown, "is given twice");
  }
  return absl::OkStatus();
}

absl::Status AccelerateSettings::AddVariables(const NamedText& file) {
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(file.text, '\n')) {
    ++number;
    const auto fault = [&](absl::string_view rule) {
      return ImportError(Reason::kSpecInvalid, file.name, absl::StrCat("line ", number), rule);
    };
    absl::string_view text = absl::StripAsciiWhitespace(WithoutLineComment(line));
    if (text.empty()) continue;
    if (absl::ConsumePrefix(&text, "export ")) text = absl::StripLeadingAsciiWhitespace(text);
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos || !IsVariableName(text.substr(0, equals))) {
      return fault("must be `NAME=value`, as the lines before");
    }
    const std::optional<std::string> value = UnquotedValue(text.substr(equals + 1));
    if (!value.has_value()) return fault("has a quotation that is not closed");
    const std::string name(text.substr(0, equals));
    PARPLAN_RETURN_IF_ERROR(Add(name, name, *value));
  }
  return absl::OkStatus();
}

absl::Status AccelerateSettings::AddConfiguration(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<YamlScalar> scalars, ReadYamlScalars(file));
  for (const YamlScalar& scalar : scalars) {
    if (scalar.value == "{}") continue;
    const std::string shown = absl::StrJoin(scalar.path, ".");
    const bool is_inner = scalar.path.size() == 2;
    if (is_inner) {
      const std::string section = absl::StrCat("section ", scalar.path[0]);
      if (!Has(section)) PARPLAN_RETURN_IF_ERROR(Add(section, scalar.path[0], ""));
    }
    const std::string variable = scalar.path.size() > 2 ? shown
                                 : is_inner             ? VariableOf(scalar.path[0], scalar.path[1])
                                                        : VariableOf("", shown);
    PARPLAN_RETURN_IF_ERROR(Add(variable, shown, scalar.value));
  }
  return absl::OkStatus();
}

absl::StatusOr<AccelerateSettings> AccelerateSettings::Read(const NamedText& file) {
  if (file.text.size() > kMaxImportBytes) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  AccelerateSettings settings;
  settings.file_name_ = file.name;
  PARPLAN_RETURN_IF_ERROR(BeginsWithVariable(file.text) ? settings.AddVariables(file)
                                                        : settings.AddConfiguration(file));
  if (settings.values_.empty()) {
    return ImportError(Reason::kSpecInvalid, file.name, "", "has no settings");
  }
  return settings;
}

std::optional<std::string> AccelerateSettings::Text(const std::string& name) {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  found->second.is_read = true;
  const std::string& value = found->second.value;
  if (value.empty() || value == "None" || value == "null") return std::nullopt;
  return value;
}

std::optional<int> AccelerateSettings::Count(const std::string& name) {
  const std::optional<std::string> text = Text(name);
  if (!text.has_value()) return std::nullopt;
  int count = 0;
  if (absl::SimpleAtoi(*text, &count) && count >= 1 && count <= kMaxImportCount) return count;
  Fail(name, absl::StrCat("must be a whole number from 1 to ", kMaxImportCount, ", and is `", *text,
                          "`"));
  return std::nullopt;
}

bool AccelerateSettings::Flag(const std::string& name, bool otherwise) {
  const std::optional<std::string> text = Text(name);
  if (!text.has_value()) return otherwise;
  const std::string value = absl::AsciiStrToLower(*text);
  for (const char* const yes : {"true", "1", "yes", "y", "t", "on"}) {
    if (value == yes) return true;
  }
  for (const char* const no : {"false", "0", "no", "n", "f", "off"}) {
    if (value == no) return false;
  }
  Fail(name, absl::StrCat("must be true or false, and is `", *text, "`"));
  return otherwise;
}

void AccelerateSettings::Fail(absl::string_view name, absl::string_view rule) {
  if (!status_.ok()) return;
  const auto found = values_.find(std::string(name));
  status_ =
      ImportError(Reason::kSpecInvalid, file_name_,
                  found == values_.end() ? name : absl::string_view(found->second.shown), rule);
}

std::vector<std::string> AccelerateSettings::Unread() const {
  std::vector<std::string> names;
  for (const auto& [variable, setting] : values_) {
    if (!setting.is_read) names.push_back(setting.shown);
  }
  return names;
}

}  // namespace parplan
