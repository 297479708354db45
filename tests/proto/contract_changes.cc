#include "tests/proto/contract_changes.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptorProto;

// A contract as a table: a key says where, a value says how. A key or value
// that is gone or different breaks someone.
using Table = std::map<std::string, std::string>;

void AddEnum(const EnumDescriptorProto& descriptor, const std::string& scope, Table& table) {
  const std::string name = absl::StrCat(scope, ".", descriptor.name());
  table[absl::StrCat("enum ", name)] = "";
  for (const auto& value : descriptor.value()) {
    table[absl::StrCat("enum value ", name, ".", value.name())] =
        absl::StrCat("number ", value.number());
  }
}

std::string FieldShape(const FieldDescriptorProto& field, const DescriptorProto& message) {
  std::string shape =
      absl::StrCat(field.name(), " of type ", FieldDescriptorProto::Type_Name(field.type()), " ",
                   field.type_name(), " ", FieldDescriptorProto::Label_Name(field.label()), " ",
                   field.json_name());
  if (field.proto3_optional()) {
    absl::StrAppend(&shape, " with presence");
  } else if (field.has_oneof_index()) {
    absl::StrAppend(&shape, " in oneof ", message.oneof_decl(field.oneof_index()).name());
  }
  return shape;
}

void AddMessage(const DescriptorProto& message, const std::string& scope, Table& table) {
  const std::string name = absl::StrCat(scope, ".", message.name());
  table[absl::StrCat("message ", name)] = "";
  for (const FieldDescriptorProto& field : message.field()) {
    table[absl::StrCat("field ", field.number(), " of ", name)] = FieldShape(field, message);
  }
  for (const DescriptorProto& nested : message.nested_type()) AddMessage(nested, name, table);
  for (const EnumDescriptorProto& nested : message.enum_type()) AddEnum(nested, name, table);
}

Table TableOf(const FileDescriptorSet& contract) {
  Table table;
  for (const FileDescriptorProto& file : contract.file()) {
    if (!absl::StartsWith(file.package(), "parplan")) continue;
    for (const DescriptorProto& message : file.message_type()) {
      AddMessage(message, file.package(), table);
    }
    for (const EnumDescriptorProto& descriptor : file.enum_type()) {
      AddEnum(descriptor, file.package(), table);
    }
    for (const auto& service : file.service()) {
      const std::string name = absl::StrCat(file.package(), ".", service.name());
      table[absl::StrCat("service ", name)] = "";
      for (const MethodDescriptorProto& method : service.method()) {
        table[absl::StrCat("method ", name, ".", method.name())] =
            absl::StrCat(method.client_streaming() ? "stream " : "", method.input_type(), " to ",
                         method.server_streaming() ? "stream " : "", method.output_type());
      }
    }
  }
  return table;
}

}  // namespace

std::vector<std::string> BreakingChanges(const FileDescriptorSet& before,
                                         const FileDescriptorSet& after) {
  const Table old_table = TableOf(before);
  const Table new_table = TableOf(after);
  std::vector<std::string> changes;
  for (const auto& [key, value] : old_table) {
    const auto found = new_table.find(key);
    if (found == new_table.end()) {
      changes.push_back(absl::StrCat(key, " is gone"));
    } else if (found->second != value) {
      changes.push_back(absl::StrCat(key, " was ", value, ", is ", found->second));
    }
  }
  return changes;
}

}  // namespace parplan
