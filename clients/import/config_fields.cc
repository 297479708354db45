#include "clients/import/config_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "clients/import/field_names.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

using nlohmann::json;

bool IsActive(const json& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  return !value.empty() && !(value.is_string() && value.get_ref<const std::string&>().empty());
}

// Returns the first entry of a list whose entries are equal; any other value as it is.
const json& OneOfEqual(const json& value) {
  if (!value.is_array() || value.empty()) return value;
  const bool are_equal = std::all_of(value.begin(), value.end(),
                                     [&value](const json& entry) { return entry == value[0]; });
  return are_equal ? value[0] : value;
}

}  // namespace

bool ConfigFields::Has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

bool ConfigFields::IsAbsent(std::initializer_list<const char*> keys) const {
  return std::none_of(keys.begin(), keys.end(),
                      [this](const char* key) { return object_.contains(key); });
}

const char* ConfigFields::Given(std::initializer_list<const char*> keys) const {
  const auto* const found =
      std::find_if(keys.begin(), keys.end(), [this](const char* key) { return Has(key); });
  return found == keys.end() ? *keys.begin() : *found;
}

bool ConfigFields::IsText(const char* key) const { return Has(key) && object_[key].is_string(); }

bool ConfigFields::IsNegative(const char* key) const {
  return Has(key) && object_[key].is_number() && object_[key].get<double>() < 0;
}

std::optional<int> ConfigFields::FirstCount(std::initializer_list<const char*> keys, int minimum) {
  std::optional<int> result;
  for (const char* key : keys) {
    MarkRead(key);
    if (!Has(key)) continue;
    const absl::StatusOr<int> value =
        ReadCount(OneOfEqual(object_[key]), minimum, Reason::kSpecInvalid, file_name_,
                  absl::StrCat(path_, key));
    if (!value.ok()) {
      if (status_.ok()) status_ = value.status();
      return minimum;
    }
    if (result.has_value() && *result != *value) {
      Fail(key, absl::StrCat("contradicts ", Given(keys), ", which says ", *result));
    }
    if (!result.has_value()) result = *value;
  }
  return result;
}

int ConfigFields::Size(std::initializer_list<const char*> keys) {
  const std::optional<int> value = FirstCount(keys, 1);
  if (!value.has_value()) {
    if (status_.ok()) lacks_field_ = true;
    Fail(*keys.begin(), "is required and at least 1");
  }
  return value.value_or(1);
}

int ConfigFields::Optional(std::initializer_list<const char*> keys, int otherwise) {
  return FirstCount(keys, 1).value_or(otherwise);
}

int ConfigFields::Count(std::initializer_list<const char*> keys, int otherwise) {
  return FirstCount(keys, 0).value_or(otherwise);
}

double ConfigFields::Number(const char* key, double otherwise) {
  MarkRead(key);
  if (!Has(key)) return otherwise;
  const absl::StatusOr<double> value =
      ReadNumber(object_[key], Reason::kSpecInvalid, file_name_, absl::StrCat(path_, key));
  if (!value.ok() && status_.ok()) status_ = value.status();
  return value.value_or(otherwise);
}

double ConfigFields::PositiveNumber(const char* key, double otherwise) {
  const double value = Number(key, otherwise);
  if (value > 0 || !Has(key)) return value;
  Fail(key, "must be above 0");
  return otherwise;
}

std::vector<int> ConfigFields::List(const char* key, int minimum) {
  MarkRead(key);
  std::vector<int> values;
  if (!Has(key)) return values;
  if (!object_[key].is_array()) {
    Fail(key, "must be a list of whole numbers");
    return values;
  }
  for (size_t i = 0; i < object_[key].size(); ++i) {
    const absl::StatusOr<int> value = ReadCount(object_[key][i], minimum, Reason::kSpecInvalid,
                                                file_name_, absl::StrCat(path_, key, "[", i, "]"));
    if (!value.ok() && status_.ok()) status_ = value.status();
    values.push_back(value.ok() ? *value : minimum);
  }
  return values;
}

std::vector<std::string> ConfigFields::Texts(const char* key) {
  MarkRead(key);
  std::vector<std::string> values;
  if (!Has(key)) return values;
  if (!object_[key].is_array()) {
    Fail(key, "must be a list of texts");
    return values;
  }
  for (size_t i = 0; i < object_[key].size(); ++i) {
    const json& entry = object_[key][i];
    if (!entry.is_string()) Fail(absl::StrCat(key, "[", i, "]"), "must be a text");
    values.push_back(entry.is_string() ? entry.get<std::string>() : "");
  }
  return values;
}

bool ConfigFields::Flag(std::initializer_list<const char*> keys, bool otherwise) {
  std::optional<bool> result;
  for (const char* key : keys) {
    MarkRead(key);
    if (!Has(key)) continue;
    if (!object_[key].is_boolean()) {
      Fail(key, "must be true or false");
      return otherwise;
    }
    const bool value = object_[key].get<bool>();
    if (result.value_or(value) != value) {
      Fail(key,
           absl::StrCat("contradicts ", Given(keys), ", which says ", value ? "false" : "true"));
    }
    if (!result.has_value()) result = value;
  }
  return result.value_or(otherwise);
}

std::string ConfigFields::Text(const char* key) {
  MarkRead(key);
  if (!Has(key)) return "";
  if (!object_[key].is_string()) {
    Fail(key, "must be a text");
    return "";
  }
  return object_[key].get<std::string>();
}

const json* ConfigFields::Object(const char* key) {
  MarkRead(key);
  if (!Has(key)) return nullptr;
  if (!object_[key].is_object()) {
    Fail(key, "must be an object");
    return nullptr;
  }
  return &object_[key];
}

const json* ConfigFields::Array(const char* key) {
  MarkRead(key);
  if (!Has(key)) return nullptr;
  if (!object_[key].is_array()) {
    Fail(key, "must be a list");
    return nullptr;
  }
  return &object_[key];
}

void ConfigFields::Refuse(const char* key, absl::string_view rule) {
  MarkRead(key);
  if (Has(key) && IsActive(object_[key])) Fail(key, rule);
}

void ConfigFields::Note(const char* key, absl::string_view meaning,
                        std::vector<std::string>* notes) {
  MarkRead(key);
  if (!Has(key) || !IsActive(object_[key])) return;
  const json& value = object_[key];
  const std::string shown =
      value.is_primitive()
          ? absl::StrCat(" ", value.dump(-1, ' ', false, json::error_handler_t::replace))
          : "";
  notes->push_back(absl::StrCat(path_, key, shown, ": ", meaning));
}

void ConfigFields::RefuseWhatIsUnknown(std::vector<std::string>* notes) {
  std::vector<std::string> ignored;
  std::vector<std::string> refused;
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key) || !IsActive(value) || FieldHasNoEffect(key)) continue;
    if (FieldSpeaksOfSizes(key) || value.is_structured()) {
      refused.push_back(key);
    } else {
      ignored.push_back(absl::StrCat(path_, key));
    }
  }
  if (!refused.empty()) {
    const bool is_one = refused.size() == 1;
    const std::string first = refused.front();
    refused.erase(refused.begin());
    Fail(first,
         absl::StrCat("is not known and might change the layers",
                      is_one ? "" : absl::StrCat("; so are ", absl::StrJoin(refused, ", ")),
                      "; write the model by hand (docs/files.md), give the sizes of the layers "
                      "with --opaque, or remove ",
                      is_one ? "the field if it changes" : "the fields if they change",
                      " neither sizes nor structure"));
  }
  if (ignored.empty()) return;
  notes->push_back(absl::StrCat("not known and ignored, because the names speak of no sizes: ",
                                absl::StrJoin(ignored, ", ")));
}

void ConfigFields::RefuseAllUnknown() {
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key) || !IsActive(value) || FieldHasNoEffect(key)) continue;
    Fail(key,
         "is not known and might change the layer; write the model by hand (docs/files.md), or "
         "remove the field if it changes neither sizes nor structure");
  }
}

void ConfigFields::NoteWhatIsUnknown(absl::string_view meaning, std::vector<std::string>* notes) {
  std::vector<std::string> ignored;
  for (const auto& [key, value] : object_.items()) {
    if (!read_.contains(key) && IsActive(value) && !FieldHasNoEffect(key)) {
      ignored.push_back(absl::StrCat(path_, key));
    }
    read_.insert(key);
  }
  if (ignored.empty()) return;
  notes->push_back(absl::StrCat(meaning, ": ", absl::StrJoin(ignored, ", ")));
}

std::vector<std::string> ConfigFields::Unread() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) {
    if (!read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

void ConfigFields::Fail(absl::string_view field, absl::string_view rule) {
  if (!status_.ok()) return;
  status_ = ImportError(Reason::kSpecInvalid, file_name_, absl::StrCat(path_, field), rule);
}

}  // namespace parplan
