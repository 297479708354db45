#include "tests/proto/contract_lints.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::SourceCodeInfo;

// A place in a FileDescriptorProto, as SourceCodeInfo writes it.
using Path = std::vector<int>;

Path Below(Path path, int field_number, int index) {
  path.push_back(field_number);
  path.push_back(index);
  return path;
}

bool IsOurs(const FileDescriptorProto& file) { return absl::StartsWith(file.package(), "parplan"); }

// Walks one file.
class CommentReader {
 public:
  CommentReader(const FileDescriptorProto& file, std::vector<std::string>& missing)
      : file_(file), missing_(missing) {
    for (const auto& location : file.source_code_info().location()) {
      locations_[Path(location.path().begin(), location.path().end())] = &location;
    }
  }

  void Read() {
    for (int i = 0; i < file_.message_type_size(); ++i) {
      ReadMessage(file_.message_type(i),
                  Below({}, FileDescriptorProto::kMessageTypeFieldNumber, i));
    }
    for (int i = 0; i < file_.enum_type_size(); ++i) {
      ReadEnum(file_.enum_type(i), Below({}, FileDescriptorProto::kEnumTypeFieldNumber, i));
    }
    for (int i = 0; i < file_.service_size(); ++i) {
      const Path path = Below({}, FileDescriptorProto::kServiceFieldNumber, i);
      const auto& service = file_.service(i);
      Require(HasComment(path), service.name());
      for (int j = 0; j < service.method_size(); ++j) {
        const Path method =
            Below(path, google::protobuf::ServiceDescriptorProto::kMethodFieldNumber, j);
        const std::string name = absl::StrCat(service.name(), ".", service.method(j).name());
        Require(HasComment(method), name);
        Require(absl::StrContains(CommentOf(method), "Errors:"),
                absl::StrCat(name, ", \"Errors:\""));
      }
    }
  }

 private:
  std::string CommentOf(const Path& path) const {
    const auto found = locations_.find(path);
    if (found == locations_.end()) return "";
    return found->second->leading_comments() + found->second->trailing_comments();
  }

  bool HasComment(const Path& path) const { return !CommentOf(path).empty(); }

  // Reads a list whose entries lie below `path` as `field_number`.
  template <typename List>
  void ReadList(const List& list, const Path& path, int field_number, const std::string& scope) {
    bool covered = false;
    int last_line = -1;
    for (int i = 0; i < list.size(); ++i) {
      const Path entry = Below(path, field_number, i);
      const SourceCodeInfo::Location& location = *locations_.at(entry);
      covered = HasComment(entry) || (covered && location.span(0) == last_line + 1);
      last_line = location.span_size() == 4 ? location.span(2) : location.span(0);
      Require(covered, absl::StrCat(scope, ".", list[i].name()));
    }
  }

  void ReadMessage(const DescriptorProto& message, const Path& path) {
    if (message.options().map_entry()) return;
    ReadList(message.field(), path, DescriptorProto::kFieldFieldNumber, message.name());
    for (int i = 0; i < message.nested_type_size(); ++i) {
      ReadMessage(message.nested_type(i), Below(path, DescriptorProto::kNestedTypeFieldNumber, i));
    }
    for (int i = 0; i < message.enum_type_size(); ++i) {
      ReadEnum(message.enum_type(i), Below(path, DescriptorProto::kEnumTypeFieldNumber, i));
    }
  }

  void ReadEnum(const EnumDescriptorProto& descriptor, const Path& path) {
    Require(HasComment(path), descriptor.name());
    ReadList(descriptor.value(), path, EnumDescriptorProto::kValueFieldNumber, descriptor.name());
  }

  void Require(bool holds, const std::string& what) {
    if (!holds) missing_.push_back(absl::StrCat(file_.name(), ": ", what));
  }

  const FileDescriptorProto& file_;
  std::vector<std::string>& missing_;
  std::map<Path, const SourceCodeInfo::Location*> locations_;
};

bool IsNumber(const FieldDescriptorProto& field) {
  switch (field.type()) {
    case FieldDescriptorProto::TYPE_INT32:
    case FieldDescriptorProto::TYPE_INT64:
    case FieldDescriptorProto::TYPE_DOUBLE:
    case FieldDescriptorProto::TYPE_FLOAT:
      return true;
    default:
      return false;
  }
}

bool IsUnsigned(const FieldDescriptorProto& field) {
  switch (field.type()) {
    case FieldDescriptorProto::TYPE_UINT32:
    case FieldDescriptorProto::TYPE_UINT64:
    case FieldDescriptorProto::TYPE_FIXED32:
    case FieldDescriptorProto::TYPE_FIXED64:
      return true;
    default:
      return false;
  }
}

bool EndsWithAny(const std::string& name, const std::vector<const char*>& endings) {
  for (const char* ending : endings) {
    if (absl::EndsWith(name, ending)) return true;
  }
  return false;
}

// Returns whether the field repeats a Duration of its message with all digits: a double called
// `X_seconds` beside `X_duration`.
bool RepeatsDuration(const DescriptorProto& message, const FieldDescriptorProto& field) {
  absl::string_view name = field.name();
  if (field.type() != FieldDescriptorProto::TYPE_DOUBLE || !absl::ConsumeSuffix(&name, "_seconds"))
    return false;
  const std::string duration = absl::StrCat(name, "_duration");
  return std::any_of(message.field().begin(), message.field().end(),
                     [&duration](const FieldDescriptorProto& other) {
                       return other.name() == duration &&
                              other.type_name() == ".google.protobuf.Duration";
                     });
}

// The rule a field breaks, or nothing.
std::string BrokenRule(const FieldDescriptorProto& field) {
  const std::string& name = field.name();
  if (IsUnsigned(field)) return "integers are signed";
  if (name == "success" || name == "status") return "a call's outcome is its status";
  if (field.type_name() == ".google.protobuf.Duration" && !absl::StrContains(name, "duration") &&
      !absl::StrContains(name, "time")) {
    return "a Duration is called duration or time";
  }
  if (field.type_name() == ".google.protobuf.Timestamp" &&
      !EndsWithAny(name, {"_time", "not_before", "not_after"})) {
    return "a Timestamp is called _time, not_before or not_after";
  }
  if (!IsNumber(field)) return "";
  if (EndsWithAny(name, {"_seconds", "_millis", "_ms", "_us", "_ns", "_duration", "_time"})) {
    return "a time is a Duration";
  }
  if (EndsWithAny(name, {"_kb", "_mb", "_gb", "_kib", "_mib", "_gib"})) return "a size is in bytes";
  // A rate is no size, and may be a weight with a fraction.
  if (absl::StrContains(name, "_bytes") && !EndsWithAny(name, {"_per_second"}) &&
      field.type() != FieldDescriptorProto::TYPE_INT64) {
    return "a size is an int64";
  }
  if (absl::StrContains(name, "memory") && !absl::StrContains(name, "_bytes") &&
      !EndsWithAny(name, {"_ratio", "_probability"})) {
    return "the unit is in the name";
  }
  return "";
}

void CheckEnum(const EnumDescriptorProto& descriptor, std::vector<std::string>& misnamed) {
  if (descriptor.value(0).number() != 0 ||
      !absl::EndsWith(descriptor.value(0).name(), "UNSPECIFIED")) {
    misnamed.push_back(absl::StrCat(descriptor.name(), ": its value 0 is not UNSPECIFIED"));
  }
}

void CheckMessage(const DescriptorProto& message, std::vector<std::string>& misnamed) {
  for (const FieldDescriptorProto& field : message.field()) {
    const std::string rule = BrokenRule(field);
    if (!rule.empty() && !RepeatsDuration(message, field)) {
      misnamed.push_back(absl::StrCat(message.name(), ".", field.name(), ": ", rule));
    }
  }
  for (const DescriptorProto& nested : message.nested_type()) CheckMessage(nested, misnamed);
  for (const EnumDescriptorProto& nested : message.enum_type()) CheckEnum(nested, misnamed);
}

}  // namespace

std::vector<std::string> MissingComments(const FileDescriptorSet& contract) {
  std::vector<std::string> missing;
  for (const FileDescriptorProto& file : contract.file()) {
    if (IsOurs(file)) CommentReader(file, missing).Read();
  }
  return missing;
}

std::vector<std::string> MisnamedFields(const FileDescriptorSet& contract) {
  std::vector<std::string> misnamed;
  for (const FileDescriptorProto& file : contract.file()) {
    if (!IsOurs(file)) continue;
    for (const DescriptorProto& message : file.message_type()) CheckMessage(message, misnamed);
    for (const EnumDescriptorProto& e : file.enum_type()) CheckEnum(e, misnamed);
  }
  return misnamed;
}

}  // namespace parplan
