#include "proto/wire/json_message.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "proto/wire/field_path.h"
#include "proto/wire/json_field.h"
#include "proto/wire/json_file.h"

namespace parplan {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// Walks a JSON tree beside a descriptor, fills the message and collects errors.
class MessageReader {
 public:
  explicit MessageReader(absl::string_view file_name) : file_name_(file_name) {}

  void ReadMessage(const JsonValue& value, const std::string& path, Message* message) {
    if (value.type != JsonValue::Type::kObject) {
      AddError(value, path, absl::StrCat("must be an object, not ", JsonTypeName(value)));
      return;
    }
    const Descriptor& descriptor = *message->GetDescriptor();
    std::set<const FieldDescriptor*> seen_fields;
    std::set<const OneofDescriptor*> seen_oneofs;
    for (const JsonValue& member : value.items) {
      const std::string member_path = JoinPath(path, member.key);
      const FieldDescriptor* field = FindField(descriptor, member.key);
      if (field == nullptr) {
        AddUnknownField(member, member_path, descriptor);
        continue;
      }
      if (!seen_fields.insert(field).second) {
        AddError(member, member_path, "the field is there twice; keep one");
        continue;
      }
      const OneofDescriptor* oneof = field->real_containing_oneof();
      if (oneof != nullptr && !seen_oneofs.insert(oneof).second) {
        AddError(member, member_path,
                 absl::StrCat("another field of `", oneof->name(), "` is there already"));
        continue;
      }
      ReadField(member, member_path, *field, message);
    }
  }

  bool ok() const { return error_count_ == 0; }

  absl::Status ToStatus() const {
    if (ok()) return absl::OkStatus();
    std::string message = absl::StrJoin(lines_, "\n");
    if (error_count_ > kMaxJsonErrors) {
      absl::StrAppend(&message, "\nand ", error_count_ - kMaxJsonErrors, " more");
    }
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid, message,
                     {{"field", first_field_}, {"rule", first_rule_}});
  }

 private:
  void AddError(const JsonValue& value, const std::string& path, absl::string_view rule) {
    ++error_count_;
    if (error_count_ == 1) {
      first_field_ = path;
      first_rule_ = std::string(rule);
    }
    if (error_count_ > kMaxJsonErrors) return;
    lines_.push_back(
        absl::StrCat(file_name_, ":", value.line, ": ", path, path.empty() ? "" : ": ", rule));
  }

  static const FieldDescriptor* FindField(const Descriptor& descriptor, const std::string& key) {
    const FieldDescriptor* field = descriptor.FindFieldByName(key);
    if (field != nullptr) return field;
    for (int i = 0; i < descriptor.field_count(); ++i) {
      if (descriptor.field(i)->json_name() == key) return descriptor.field(i);
    }
    return nullptr;
  }

  void AddUnknownField(const JsonValue& member, const std::string& path,
                       const Descriptor& descriptor) {
    std::vector<std::string> names;
    names.reserve(descriptor.field_count());
    for (int i = 0; i < descriptor.field_count(); ++i) {
      names.push_back(descriptor.field(i)->name());
    }
    AddError(member, path,
             absl::StrCat("no such field of ", descriptor.name(), DidYouMean(member.key, names)));
  }

  void ReadField(const JsonValue& value, const std::string& path, const FieldDescriptor& field,
                 Message* message) {
    if (value.type == JsonValue::Type::kNull) {
      AddError(value, path, "must not be null; leave the field out");
    } else if (field.is_map()) {
      ReadMap(value, path, field, message);
    } else if (!field.is_repeated()) {
      ReadOne(value, path, field, message);
    } else if (value.type != JsonValue::Type::kArray) {
      AddError(value, path, absl::StrCat("must be a list, not ", JsonTypeName(value)));
    } else {
      for (size_t i = 0; i < value.items.size(); ++i) {
        ReadOne(value.items[i], absl::StrCat(path, "[", i, "]"), field, message);
      }
    }
  }

  void ReadMap(const JsonValue& value, const std::string& path, const FieldDescriptor& field,
               Message* message) {
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    if (value.type != JsonValue::Type::kObject ||
        key_field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      AddError(value, path, absl::StrCat("must be an object, not ", JsonTypeName(value)));
      return;
    }
    std::set<std::string> seen;
    for (const JsonValue& member : value.items) {
      const std::string member_path = absl::StrCat(path, "[\"", member.key, "\"]");
      if (!seen.insert(member.key).second) {
        AddError(member, member_path, "the key is there twice; keep one");
        continue;
      }
      Message* entry = message->GetReflection()->AddMessage(message, &field);
      entry->GetReflection()->SetString(entry, &key_field, member.key);
      ReadOne(member, member_path, value_field, entry);
    }
  }

  // Calls `set` with the value of `result`, or adds its rule to the errors.
  template <typename Value, typename Set>
  void Use(const absl::StatusOr<Value>& result, const JsonValue& value, const std::string& path,
           Set set) {
    if (result.ok()) {
      set(*result);
    } else {
      AddError(value, path, result.status().message());
    }
  }

  // Reads one value: that of a singular field, or the next one of a repeated field.
  void ReadOne(const JsonValue& value, const std::string& path, const FieldDescriptor& field,
               Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const FieldDescriptor* const f = &field;
    const bool repeated = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        Use(JsonInteger(value, std::numeric_limits<int32_t>::min(),
                        std::numeric_limits<int32_t>::max(), /*allow_string=*/false),
            value, path, [&](int64_t x) {
              const int32_t narrow = static_cast<int32_t>(x);
              repeated ? reflection.AddInt32(message, f, narrow)
                       : reflection.SetInt32(message, f, narrow);
            });
        return;
      case FieldDescriptor::CPPTYPE_INT64:
        Use(JsonInteger(value, std::numeric_limits<int64_t>::min(),
                        std::numeric_limits<int64_t>::max(), /*allow_string=*/true),
            value, path, [&](int64_t x) {
              repeated ? reflection.AddInt64(message, f, x) : reflection.SetInt64(message, f, x);
            });
        return;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        Use(JsonNumber(value), value, path, [&](double x) {
          repeated ? reflection.AddDouble(message, f, x) : reflection.SetDouble(message, f, x);
        });
        return;
      case FieldDescriptor::CPPTYPE_BOOL:
        Use(JsonBoolean(value), value, path, [&](bool x) {
          repeated ? reflection.AddBool(message, f, x) : reflection.SetBool(message, f, x);
        });
        return;
      case FieldDescriptor::CPPTYPE_ENUM:
        Use(JsonEnum(value, *field.enum_type()), value, path, [&](int x) {
          repeated ? reflection.AddEnumValue(message, f, x)
                   : reflection.SetEnumValue(message, f, x);
        });
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        Use(field.type() == FieldDescriptor::TYPE_BYTES ? JsonBytes(value) : JsonString(value),
            value, path, [&](const std::string& x) {
              repeated ? reflection.AddString(message, f, x) : reflection.SetString(message, f, x);
            });
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        ReadSubmessage(
            value, path,
            repeated ? reflection.AddMessage(message, f) : reflection.MutableMessage(message, f));
        return;
      default:
        AddError(value, path, "a field of this type can't be read from a file");
        return;
    }
  }

  void ReadSubmessage(const JsonValue& value, const std::string& path, Message* message) {
    const std::string& type = message->GetDescriptor()->full_name();
    if (type == "google.protobuf.Duration") {
      Use(JsonDuration(value), value, path, [&](const auto& x) { message->CopyFrom(x); });
    } else if (type == "google.protobuf.Timestamp") {
      Use(JsonTimestamp(value), value, path, [&](const auto& x) { message->CopyFrom(x); });
    } else {
      ReadMessage(value, path, message);
    }
  }

  const std::string file_name_;
  int64_t error_count_ = 0;
  std::vector<std::string> lines_;
  std::string first_field_;
  std::string first_rule_;
};

}  // namespace

absl::Status ReadJsonMessage(const JsonValue& value, absl::string_view file_name,
                             absl::string_view path, Message* message) {
  message->Clear();
  MessageReader reader(file_name);
  reader.ReadMessage(value, std::string(path), message);
  return reader.ToStatus();
}

}  // namespace parplan
