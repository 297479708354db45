// JSON as Python's `json` module writes it. The importer of Hugging Face reads configurations by
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_
#define PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_

#include <string>

namespace parplan {

// Replaces the three numbers that Python writes and JSON does not have. Files of Mamba-2 have them
// (`"time_step_limit": [0.0, Infinity]`). Each becomes a JSON string and blanks behind it, of the
// same length together, so that places in errors stay those of the file:
//
//   Infinity    becomes  "inf"     and three blanks
//   -Infinity   becomes  "-inf"    and three blanks
//   NaN         becomes  ""        and one blank
//
// No reader of numbers takes a string, so a field with such a number is an error or is ignored. A
// key that is such a number becomes a string too. The inside of strings stays as it is. Text that
// is no JSON is not refused here, but by the reader that gets the result. O(length).
std::string QuotePythonNumbers(std::string text);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_PYTHON_JSON_H_
