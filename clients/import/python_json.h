// JSON as Python's `json` module writes it. The importer of Hugging Face reads configurations by
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_
#define PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_

#include <string>

namespace parplan {

// Python writes numbers that JSON does not have as `Infinity`, `-Infinity` and `NaN`; files of
// Mamba-2 do (`"time_step_limit": [0.0, Infinity]`). Returns `text` with each of them outside
// strings as a text in quotes, which no reader of numbers takes, followed by as many blanks as keep
// the length: places in errors stay those of the file.
std::string QuotePythonNumbers(std::string text);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_
