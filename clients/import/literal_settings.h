// Settings of TOML files and of Python source, as far as they are literal. No code is run.
// `TorchtitanSettings::Read` calls both.

#ifndef PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_
#define PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"

namespace parplan {

struct LiteralSetting {
  // Names joined by dots. In TOML section and key: `parallelism.tensor_parallel_degree`. In Python
  // the class and the argument of a call (`ParallelismConfig.tensor_parallel_degree`), the class
  // alone for a call without arguments (`FullAC.Config`), or the target of an assignment
  // (`config.training.steps`); arguments of a `dict(...)` that is assigned to a name have that name
  // (`TRAINING.steps`).
  std::string path;
  // The value; null for None, and for what is not literal.
  nlohmann::json value;
  bool is_literal = true;
  // Line of the file, from 1.
  int line = 0;
};

// Returns the settings of a TOML file: sections, dotted keys, texts of one or several lines,
// numbers, truth values, lists and inline tables. A setting that comes twice, dates and lists of
// sections are no such settings. INVALID_ARGUMENT (SPEC_INVALID) with file, line and rule for them,
// for other syntax, and for nesting deeper than 32.
absl::StatusOr<std::vector<LiteralSetting>> ReadTomlSettings(const NamedText& file);

// Returns the settings of Python source in their order: arguments of calls by name, and
// assignments, where the value is a text, number, True, False, None, or a list, tuple or dictionary
// of such; other values are not literal. Lines that are neither assignments, calls nor `return` are
// passed over, and values on lines that run under a condition or in a loop are not literal.
// `function` names the function that is read beside the statements outside all functions; if it is
// empty, all functions are. INVALID_ARGUMENT (SPEC_INVALID) with file, line and rule for an open
// bracket or text, nesting deeper than 32, and for a function that the file does not have.
absl::StatusOr<std::vector<LiteralSetting>> ReadPythonSettings(const NamedText& file,
                                                               absl::string_view function);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_
