// The settings in a file of Accelerate, as the variables that its library reads.
// `ImportAcceleratePlan` reads with it.

#ifndef PARPLAN_CLIENTS_IMPORT_ACCELERATE_SETTINGS_H_
#define PARPLAN_CLIENTS_IMPORT_ACCELERATE_SETTINGS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"

namespace parplan {

// Reads variables by name and remembers what was read and the first error. Not thread-safe.
class AccelerateSettings {
 public:
  // Reads lines `NAME=value`, with or without `export ` before and quotes around the value, and
  // comments behind `#`; or YAML (yaml_text.h), whose keys become the variables that `accelerate
  // launch` sets: those of `fsdp_config` and `parallelism_config` in capital letters
  // (`FSDP_VERSION`; `fsdp_transformer_layer_cls_to_wrap` becomes `FSDP_TRANSFORMER_CLS_TO_WRAP`),
  // the stage, offloads and file of `deepspeed_config` with `ACCELERATE_DEEPSPEED_` before them,
  // `mixed_precision` and `gradient_accumulation_steps` with `ACCELERATE_` before
  // them. Other keys keep their names, with dots between those of sections. A section with keys is
  // also the setting `section NAME`, without a value. A key with the value `{}` is left out.
  //
  // The first line with a setting decides which of the two the file is. INVALID_ARGUMENT
  // (SPEC_INVALID) with the file, and the line for any other line, the name for one that comes
  // twice; also for a file without settings or above kMaxImportBytes (named_text.h), and for faults
  // of YAML.
  static absl::StatusOr<AccelerateSettings> Read(const NamedText& file);

  // Returns whether the file has the variable, with or without a value. Does not count as reading.
  bool Has(const std::string& name) const { return values_.count(name) > 0; }
  // The next three count the variable as read. Returns the value, or nothing if the variable is
  // absent, empty, `None` or `null`.
  std::optional<std::string> Text(const std::string& name);
  // Returns the whole number from 1 to kMaxImportCount; nothing where `Text` has nothing, and after
  // remembering an error for any other value.
  std::optional<int> Count(const std::string& name);
  // Returns true for true, 1, yes, y, t or on, and false for their opposites, in letters of either
  // size; `otherwise` where `Text` has nothing, and after remembering an error for any other value.
  bool Flag(const std::string& name, bool otherwise);
  // Remembers an error of the variable unless there is an earlier one.
  void Fail(absl::string_view name, absl::string_view rule);
  // The first error that the readers or `Fail` remembered, INVALID_ARGUMENT (SPEC_INVALID) with
  // file and the name in it; OK if there is none.
  const absl::Status& status() const { return status_; }
  // Returns the names, as the file has them (`fsdp_config.fsdp_version`; a section by its own
  // name), of variables that were not read, in the alphabetic order of the variables.
  std::vector<std::string> Unread() const;

 private:
  struct Setting {
    // The name in the file.
    std::string shown;
    std::string value;
    bool is_read = false;
  };
  absl::Status Add(std::string variable, const std::string& shown, std::string value);
  absl::Status AddVariables(const NamedText& file);
  absl::Status AddConfiguration(const NamedText& file);

  std::string file_name_;
  std::map<std::string, Setting> values_;
  absl::Status status_;
};

// Returns whether a setting, by its name in the file, changes neither the shape of the model nor
// how it is divided over ranks.
bool IsIgnoredAccelerateSetting(const std::string& name);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ACCELERATE_SETTINGS_H_
