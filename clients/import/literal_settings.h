// Settings of TOML files and of Python source, as far as they are literal. No code is run.
// `TorchtitanSettings::Read` calls both functions.

#ifndef PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_
#define PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/named_text.h"

namespace parplan {

// A value that the text gives a name.
struct LiteralSetting {
  // Names joined by dots. In TOML section and key: `parallelism.tensor_parallel_degree`. In Python
  // the class and the argument of a call (`ParallelismConfig.tensor_parallel_degree`), the class
  // alone for a call without arguments (`FullAC.Config`), or the target of an assignment
  // (`config.training.steps`). Entries of dictionaries and arguments of `dict(...)` and
  // `dataclasses.replace(...)` have the name that these are assigned to (`TRAINING.steps`), and so
  // has what fills them without a name: `dict(BASE)`. What `**` unpacks is a setting of the class;
  // other arguments without a name are none, but calls inside them are read. `x.update(...)` gives
  // `x` entries, `setattr(x, "y", 1)` is `x.y = 1`, `vars(x)` and `x.__dict__` are `x`, a key in
  // brackets that is no text is left out, and assignments in the body of a class have its name.
  std::string path;
  // The value; null for None, for what is not literal, and for a call without arguments, which is
  // literal. Lists and tuples are arrays, inline tables objects.
  nlohmann::json value;
  bool is_literal = true;
  // Line of the file, from 1.
  int line = 0;
  // Whether some runs may not set it: its line stands under an `if`, `for`, `while`, `try` or
  // `with`, or at another column than the first line of the body of its function or class; or an
  // `if` follows the value (`a if c else b`); or it is of a call behind an operator (`a or b()`).
  // It is then not literal. Always false in TOML.
  bool is_conditional = false;
  // The dotted name if the value is one or a call of one: `PARALLELISM`, `FullAC.Config`. Empty in
  // TOML, for other values, and if `is_conditional`.
  std::string reference;
  // The statement changes a setting whose name is an expression: `setattr(x, name, 1)`, whose path
  // is `x`, or `f(x).y = 1`, whose path is empty. Always false in TOML.
  bool has_unknown_name = false;
};

// Returns the settings of a TOML file: sections, dotted keys, texts of one or several lines,
// numbers, truth values, lists and inline tables, in the order of the file. All are literal.
// INVALID_ARGUMENT (SPEC_INVALID) with file, line and rule for a setting that comes twice, a date,
// a list of sections (`[[runs]]`), other syntax, nesting deeper than 32, and, without a line, for
// more than kMaxImportBytes.
absl::StatusOr<std::vector<LiteralSetting>> ReadTomlSettings(const NamedText& file);

// Returns the settings of Python source in their order: arguments of calls by name, and
// assignments, where the value is a text, number, True, False, None, or a list or tuple of such;
// other values are not literal. Neither is what `+=` and its like, `del`, and methods that change
// a dictionary do to their targets, and the whole of `x` for `x[key] = 1`. `x, y = 1, 2` and
// `x = y = 1` are two assignments each; if there are not as many values as targets, none is
// literal. `from a import B as C` is an assignment of the reference B. A path may come several
// times, and the caller decides which one counts.
//
// Statements outside all functions and classes are always read; beside them, the body of the
// top-level function or class called `function`, or those of all functions and classes if it is
// empty. An `async def` counts as no function: its body is always read, and its name is not found.
// INVALID_ARGUMENT (SPEC_INVALID) with file, line and rule for brackets that do not match, an open
// text, and nesting deeper than 32; without a line for more than kMaxImportBytes and for a function
// that the file does not have; with the function for one that is read, is annotated to return a
// `...Config` and neither returns nor raises, which is the end of a file that was cut.
absl::StatusOr<std::vector<LiteralSetting>> ReadPythonSettings(const NamedText& file,
                                                               absl::string_view function);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LITERAL_SETTINGS_H_
