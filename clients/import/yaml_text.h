// The scalars of a YAML file of settings. The readers of Accelerate's and Megatron-LM's files call
// it.

#ifndef PARPLAN_CLIENTS_IMPORT_YAML_TEXT_H_
#define PARPLAN_CLIENTS_IMPORT_YAML_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"

namespace parplan {

// A scalar, and the keys that lead to it, at least one; items of a list have the key `[i]`, i from
// 0. A list or map in brackets is one scalar, as it is written. A key without a value has an empty
// one, as `""` has. Other values have no quotation marks around them.
struct YamlScalar {
  std::vector<std::string> path;
  std::string value;
};

// Reads the part of YAML that settings are written in: maps and lists by indentation, one-line
// values, plain or quoted, behind their key or alone on the line below it, comments, one document
// that is a map. Returns the scalars in the order
// of the file, none for an empty one. INVALID_ARGUMENT (SPEC_INVALID) with file and line for
// everything else: tabs in indentation, items without a value, anchors, aliases, tags, values of
// several lines, a quotation mark or a backslash inside a quotation, keys that come twice, more
// than 32 levels; and with the file for more than kMaxImportBytes (named_text.h).
absl::StatusOr<std::vector<YamlScalar>> ReadYamlScalars(const NamedText& file);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_YAML_TEXT_H_
