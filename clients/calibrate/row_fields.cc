#include "clients/calibrate/row_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "clients/import/named_text.h"

namespace parplan::accuracy {
namespace {

std::optional<int> WholeNumber(const nlohmann::json& value, int minimum) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= minimum && number <= kMaxImportCount) || number != std::floor(number)) {
    return std::nullopt;
  }
  return static_cast<int>(number);
}

std::string WholeNumberRule(int minimum) {
  return absl::StrCat("must be a whole number from ", minimum, " to ", kMaxImportCount);
}

}  // namespace

const nlohmann::json* RowFields::Find(Names names, const char** found) const {
  if (object_ == nullptr) return nullptr;
  for (const char* name : names) {
    const auto member = object_->find(name);
    if (member == object_->end() || member->is_null()) continue;
    if (found != nullptr) *found = name;
    return &*member;
  }
  return nullptr;
}

RowFields RowFields::Section(const char* name) const {
  const std::string prefix = prefix_ + name + ".";
  const nlohmann::json* member = Find({name}, nullptr);
  if (member == nullptr) return {nullptr, prefix, fault_};
  if (!member->is_object()) {
    Fault(name, "must be an object");
    return {nullptr, prefix, fault_};
  }
  return {member, prefix, fault_};
}

std::optional<int> RowFields::Count(Names names, int minimum) const {
  const char* name = nullptr;
  const nlohmann::json* member = Find(names, &name);
  if (member == nullptr) return std::nullopt;
  const std::optional<int> count = WholeNumber(*member, minimum);
  if (!count.has_value()) Fault(name, WholeNumberRule(minimum));
  return count;
}

std::optional<double> RowFields::Number(Names names) const {
  const char* name = nullptr;
  const nlohmann::json* member = Find(names, &name);
  if (member == nullptr) return std::nullopt;
  const double number = member->is_number() ? member->get<double>() : 0.0;
  if (!std::isfinite(number) || !(number > 0.0)) {
    Fault(name, "must be a number above 0");
    return std::nullopt;
  }
  return number;
}

std::optional<std::string> RowFields::Text(Names names) const {
  const char* name = nullptr;
  const nlohmann::json* member = Find(names, &name);
  if (member == nullptr) return std::nullopt;
  if (!member->is_string()) {
    Fault(name, "must be a text");
    return std::nullopt;
  }
  return member->get<std::string>();
}

std::optional<bool> RowFields::Flag(Names names) const {
  const char* name = nullptr;
  const nlohmann::json* member = Find(names, &name);
  if (member == nullptr) return std::nullopt;
  if (!member->is_boolean()) {
    Fault(name, "must be true or false");
    return std::nullopt;
  }
  return member->get<bool>();
}

std::optional<std::vector<int>> RowFields::Counts(Names names, int minimum) const {
  const char* name = nullptr;
  const nlohmann::json* member = Find(names, &name);
  if (member == nullptr) return std::nullopt;
  std::vector<int> counts;
  if (member->is_array()) {
    for (const nlohmann::json& entry : *member) {
      const std::optional<int> count = WholeNumber(entry, minimum);
      if (!count.has_value()) break;
      counts.push_back(*count);
    }
  }
  if (!member->is_array() || counts.size() != member->size() || counts.empty()) {
    Fault(name, absl::StrCat("must be a list whose entries each ", WholeNumberRule(minimum)));
    return std::nullopt;
  }
  return counts;
}

int RowFields::RequiredCount(Names names) const {
  if (!Has(names)) {
    Fault(*names.begin(), "is missing");
    return 0;
  }
  return Count(names, 1).value_or(0);
}

}  // namespace parplan::accuracy
