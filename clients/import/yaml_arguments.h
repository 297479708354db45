// Arguments from values and lists of a YAML file. The reader of Megatron-LM's files
// (megatron_yaml.h) is made of it.

#ifndef PARPLAN_CLIENTS_IMPORT_YAML_ARGUMENTS_H_
#define PARPLAN_CLIENTS_IMPORT_YAML_ARGUMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/import/yaml_text.h"

namespace parplan {

// Returns whether a value stands for none: it is empty, `null`, `~` or `None`.
bool IsUnsetYaml(absl::string_view value);

// Returns whether the scalar is an item of a list of lines that is two keys deep.
bool IsYamlListItem(const YamlScalar& scalar);

// Appends arguments of several values. Their values come from lists of lines, whose items follow
// each other, from lists in brackets on one line, or one by one. Not thread-safe.
class YamlListArguments {
 public:
  // REQUIRES, unchecked: `words` is not null and outlives this.
  explicit YamlListArguments(std::vector<std::string>* words) : words_(words) {}

  // Appends a value of `argument`, which has its dashes: all items of a list in brackets, without
  // quotation marks, or the value as it is. `is_item`: the value is an item of a list of lines, and
  // the name of the argument is appended before the first one only. Appends nothing for an empty
  // list and a value that is unset.
  void Add(const std::string& argument, const std::string& value, bool is_item);

 private:
  std::vector<std::string>* words_;
  // The argument of the list of lines that the last value was an item of; empty if it was none.
  std::string open_list_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_YAML_ARGUMENTS_H_
