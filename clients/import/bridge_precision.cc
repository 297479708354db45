#include "clients/import/bridge_precision.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "clients/import/yaml_arguments.h"

namespace parplan {
namespace {

// The fields of a `MixedPrecisionConfig` that say how layers multiply and store parameters, with
// its defaults.
struct PrecisionFields {
  bool bf16 = false;
  bool fp16 = false;
  // Formats of products; empty for none.
  std::string fp8;
  std::string fp8_recipe = "tensorwise";
  std::string fp4;
  std::string fp4_recipe = "nvfp4";
  // Parameters are stored and gathered in so many bits.
  bool fp8_parameters = false;
  bool fp4_parameters = false;
  // So many layers at either end multiply in 16 bits, if `has_wide_ends`.
  bool has_wide_ends = false;
  std::string wide_at_start = "0";
  std::string wide_at_end = "0";
};

// A name that stands for fields. Every one has bf16 or fp16 as its first word, or behind the model
// that it was made for.
struct PrecisionName {
  absl::string_view name;
  absl::string_view fp8 = "";
  absl::string_view recipe = "";
  bool fp8_parameters = false;
  absl::string_view fp4 = "";
  // Layers at either end that multiply in 16 bits; both 0 for none.
  int wide_at_start = 0;
  int wide_at_end = 0;
};
constexpr PrecisionName kNames[] = {
    {"bf16_mixed"},
    {"fp16_mixed"},
    {"bf16_with_fp8_delayed_scaling_mixed", "hybrid", "delayed", true},
    {"fp16_with_fp8_delayed_scaling_mixed", "hybrid", "delayed", true},
    {"bf16_with_mxfp8_mixed", "e4m3", "mxfp8", true},
    {"fp16_with_mxfp8_mixed", "e4m3", "mxfp8", true},
    {"bf16_with_fp8_current_scaling_mixed", "hybrid", "tensorwise", true, "", 1, 1},
    {"fp16_with_fp8_current_scaling_mixed", "hybrid", "tensorwise", true, "", 1, 1},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", "hybrid", "tensorwise", true, "", 2, 2},
    // Its products have scales of blocks, whatever its name says.
    {"nanov2_bf16_with_fp8_current_scaling_mixed", "hybrid", "blockwise", true, "", 2, 2},
    {"bf16_with_fp8_subchannel_scaling_mixed", "hybrid", "blockwise", false},
    {"fp16_with_fp8_subchannel_scaling_mixed", "hybrid", "blockwise", false},
    {"bf16_with_nvfp4_mixed", "", "", false, "e2m1"},
    // Not yet in release 0.3.1.
    {"nemotron_3_super_bf16_with_nvfp4_mixed", "", "", false, "e2m1", 0, 14},
};

// Fields that change neither products nor parameters: types that follow from bf16 and fp16, scales
// of losses, and how scales of fp8 are found.
constexpr absl::string_view kIgnoredFields[] = {
    "_target_",
    "autocast_dtype",
    "autocast_enabled",
    "fp32",
    "fp8_amax_compute_algo",
    "fp8_amax_history_len",
    "fp8_margin",
    "fp8_wgrad",
    "grad_reduce_in_fp32",
    "hysteresis",
    "initial_loss_scale",
    "loss_scale",
    "loss_scale_window",
    "min_loss_scale",
    "params_dtype",
    "pipeline_dtype",
    "reuse_grad_buf_for_mxfp8_param_ag",
};

absl::Status Refuse(const NamedText& file, const YamlScalar& scalar, absl::string_view rule) {
  return ImportError(Reason::kSpecInvalid, file.name, absl::StrJoin(scalar.path, "."), rule);
}

absl::StatusOr<PrecisionFields> FieldsOfName(const NamedText& file, const YamlScalar& scalar) {
  // Megatron-Bridge takes names with hyphens too.
  const std::string name = absl::StrReplaceAll(scalar.value, {{"-", "_"}});
  const auto* const known =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [&name](const PrecisionName& entry) { return entry.name == name; });
  if (known == std::end(kNames)) {
    std::vector<absl::string_view> names;
    for (const PrecisionName& entry : kNames) names.push_back(entry.name);
    return Refuse(
        file, scalar,
        absl::StrCat("is `", scalar.value, "`, and must be one of ", absl::StrJoin(names, ", "),
                     ": the settings of other names are not known here; leave the name "
                     "out and give them as fields of `model` (bf16, fp8, fp8_recipe, "
                     "fp8_param, first_last_layers_bf16)"));
  }
  PrecisionFields fields;
  fields.fp16 = absl::StartsWith(name, "fp16");
  fields.bf16 = !fields.fp16;
  fields.fp8 = std::string(known->fp8);
  if (!known->recipe.empty()) fields.fp8_recipe = std::string(known->recipe);
  fields.fp8_parameters = known->fp8_parameters;
  fields.fp4 = std::string(known->fp4);
  fields.has_wide_ends = known->wide_at_start + known->wide_at_end > 0;
  fields.wide_at_start = absl::StrCat(known->wide_at_start);
  fields.wide_at_end = absl::StrCat(known->wide_at_end);
  return fields;
}

// Reads one field into `fields`. `fp8_param` is left to the caller.
absl::Status ReadField(const NamedText& file, const YamlScalar& scalar, PrecisionFields* fields) {
  struct Switch {
    absl::string_view name;
    bool* value;
  };
  struct Text {
    absl::string_view name;
    std::string* value;
  };
  const Switch switches[] = {
      {"bf16", &fields->bf16},
      {"fp16", &fields->fp16},
      {"fp8_param_gather", &fields->fp8_parameters},
      {"fp4_param", &fields->fp4_parameters},
      {"fp4_param_gather", &fields->fp4_parameters},
      {"first_last_layers_bf16", &fields->has_wide_ends},
  };
  const Text texts[] = {
      {"fp8", &fields->fp8},
      {"fp8_recipe", &fields->fp8_recipe},
      {"fp4", &fields->fp4},
      {"fp4_recipe", &fields->fp4_recipe},
      {"num_layers_at_start_in_bf16", &fields->wide_at_start},
      {"num_layers_at_end_in_bf16", &fields->wide_at_end},
  };
  const std::string& name = scalar.path[1];
  for (const Text& text : texts) {
    if (text.name != name) continue;
    if (scalar.path.size() > 2) return Refuse(file, scalar, "must be one value");
    if (!IsUnsetYaml(scalar.value)) *text.value = scalar.value;
    return absl::OkStatus();
  }
  for (const Switch& known : switches) {
    if (known.name != name) continue;
    if (scalar.path.size() == 2 && IsUnsetYaml(scalar.value)) return absl::OkStatus();
    if (scalar.path.size() > 2 || (scalar.value != "true" && scalar.value != "false")) {
      return Refuse(file, scalar, "must be true or false");
    }
    // Two names of one switch: either turns it on.
    *known.value = *known.value || scalar.value == "true";
    return absl::OkStatus();
  }
  const bool is_ignored = std::find(std::begin(kIgnoredFields), std::end(kIgnoredFields), name) !=
                          std::end(kIgnoredFields);
  const bool is_off = IsUnsetYaml(scalar.value) || scalar.value == "false" || scalar.value == "0" ||
                      scalar.value == "0.0";
  if (is_ignored || is_off) return absl::OkStatus();
  return Refuse(file, scalar,
                "is no field of a precision that is read here; leave it out if it "
                "changes neither products nor parameters");
}

absl::StatusOr<PrecisionFields> FieldsOfMap(const NamedText& file,
                                            const std::vector<YamlScalar>& scalars) {
  PrecisionFields fields;
  const YamlScalar* fp8_param = nullptr;
  for (const YamlScalar& scalar : scalars) {
    if (scalar.path.size() == 1) return Refuse(file, scalar, "must be a name or a map of fields");
    if (scalar.path[1] == "_target_" && !absl::EndsWith(scalar.value, "MixedPrecisionConfig")) {
      return Refuse(file, scalar, "must be MixedPrecisionConfig, whose fields are read");
    }
    if (scalar.path[1] == "fp8_param") {
      if (!IsUnsetYaml(scalar.value)) fp8_param = &scalar;
      continue;
    }
    PARPLAN_RETURN_IF_ERROR(ReadField(file, scalar, &fields));
  }
  // The program keeps the two equal.
  if (fp8_param != nullptr && fp8_param->value != (fields.fp8_parameters ? "true" : "false")) {
    return Refuse(file, *fp8_param, "must be what fp8_param_gather is");
  }
  return fields;
}

void AppendArguments(const PrecisionFields& fields, std::vector<std::string>* arguments) {
  const auto append = [arguments](std::initializer_list<std::string> words) {
    arguments->insert(arguments->end(), words);
  };
  if (fields.bf16) append({"--bf16"});
  if (fields.fp16) append({"--fp16"});
  if (!fields.fp8.empty()) {
    append({"--fp8-format", fields.fp8, "--fp8-recipe", fields.fp8_recipe});
    if (fields.fp8_parameters) append({"--fp8-param-gather"});
  }
  if (!fields.fp4.empty()) append({"--fp4-format", fields.fp4, "--fp4-recipe", fields.fp4_recipe});
  if (fields.fp4_parameters) append({"--fp4-param-gather"});
  if (fields.has_wide_ends) {
    append({"--first-last-layers-bf16", "--num-layers-at-start-in-bf16", fields.wide_at_start,
            "--num-layers-at-end-in-bf16", fields.wide_at_end});
  }
}

}  // namespace

bool IsOfBridgePrecision(absl::string_view model_field) {
  constexpr absl::string_view kFields[] = {
      "bf16",
      "fp16",
      "fp8",
      "fp8_recipe",
      "fp8_param",
      "fp4",
      "fp4_recipe",
      "first_last_layers_bf16",
      "fp4_param",
      "num_layers_at_start_in_bf16",
      "num_layers_at_end_in_bf16",
  };
  return std::find(std::begin(kFields), std::end(kFields), model_field) != std::end(kFields);
}

absl::Status AddBridgePrecision(const NamedText& file, const std::vector<YamlScalar>& scalars,
                                MegatronYaml* yaml) {
  const bool is_name = scalars.size() == 1 && scalars[0].path.size() == 1;
  PARPLAN_ASSIGN_OR_RETURN(const PrecisionFields fields,
                           is_name ? FieldsOfName(file, scalars[0]) : FieldsOfMap(file, scalars));
  AppendArguments(fields, &yaml->arguments);
  if (is_name && !fields.fp4.empty()) {
    yaml->notes.push_back(absl::StrCat(
        "`", scalars[0].value,
        "` has parameters in 16 bits, as in release 0.3.1 of Megatron-Bridge; later versions may "
        "gather them in 4 bits, which is not predicted."));
  }
  return absl::OkStatus();
}

}  // namespace parplan
