#include "clients/import/yaml_arguments.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

bool IsInBrackets(absl::string_view value) {
  return absl::StartsWith(value, "[") && absl::EndsWith(value, "]");
}

// Returns the items of a list in brackets, without quotation marks. Tests of Megatron-LM separate
// them by blanks alone, inside quotation marks around the whole.
std::vector<std::string> ItemsInBrackets(absl::string_view list) {
  std::vector<std::string> items;
  list.remove_prefix(1);
  list.remove_suffix(1);
  for (absl::string_view item : absl::StrSplit(list, absl::ByAnyChar(", \t"), absl::SkipEmpty())) {
    if (item.size() > 1 && (item[0] == '"' || item[0] == '\'') && item.back() == item[0]) {
      item = item.substr(1, item.size() - 2);
    }
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

}  // namespace

bool IsUnsetYaml(absl::string_view value) {
  return value.empty() || value == "null" || value == "~" || value == "None";
}

bool IsYamlListItem(const YamlScalar& scalar) {
  return scalar.path.size() == 3 && absl::StartsWith(scalar.path[2], "[");
}

void YamlListArguments::Add(const std::string& argument, const std::string& value, bool is_item) {
  std::vector<std::string> items;
  if (IsInBrackets(value)) {
    items = ItemsInBrackets(value);
  } else if (!IsUnsetYaml(value)) {
    items.push_back(value);
  }
  if (items.empty()) return;
  if (!is_item || open_list_ != argument) words_->push_back(argument);
  open_list_ = is_item ? argument : "";
  for (std::string& item : items) words_->push_back(std::move(item));
}

}  // namespace parplan
