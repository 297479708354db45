#include "tests/proto/contract_changes.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace parplan {
namespace {

using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using testing::HasSubstr;
using testing::IsEmpty;

FileDescriptorSet SmallContract() {
  FileDescriptorSet contract;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(file {
           package: "parplan.v1"
           message_type {
             name: "A"
             field { name: "x" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
             field { name: "y" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
             nested_type { name: "B" }
             oneof_decl { name: "choice" }
           }
           enum_type { name: "E" value { name: "E_ONE" number: 1 } }
           service { name: "S" method { name: "M" input_type: ".A" output_type: ".A" } }
         })",
      &contract));
  return contract;
}

TEST(BreakingChanges, FindsEachKind) {
  struct Case {
    std::string told;
    std::function<void(FileDescriptorProto&)> change;
  };
  const auto field = [](FileDescriptorProto& f, int i) {
    return f.mutable_message_type(0)->mutable_field(i);
  };
  const std::vector<Case> cases = {
      {"message parplan.v1.A.B is gone",
       [](auto& f) { f.mutable_message_type(0)->clear_nested_type(); }},
      {"field 2 of parplan.v1.A is gone",
       [](auto& f) { f.mutable_message_type(0)->mutable_field()->RemoveLast(); }},
      {"field 1 of parplan.v1.A is gone", [&](auto& f) { field(f, 0)->set_number(3); }},
      {"field 1 of parplan.v1.A was x of", [&](auto& f) { field(f, 0)->set_name("z"); }},
      {"is x of type TYPE_INT64",
       [&](auto& f) { field(f, 0)->set_type(FieldDescriptorProto::TYPE_INT64); }},
      {"LABEL_REPEATED",
       [&](auto& f) { field(f, 0)->set_label(FieldDescriptorProto::LABEL_REPEATED); }},
      {"with presence", [&](auto& f) { field(f, 0)->set_proto3_optional(true); }},
      {"in oneof choice, is y", [&](auto& f) { field(f, 1)->clear_oneof_index(); }},
      {"enum parplan.v1.E is gone", [](auto& f) { f.mutable_enum_type(0)->set_name("F"); }},
      {"enum value parplan.v1.E.E_ONE is gone",
       [](auto& f) { f.mutable_enum_type(0)->clear_value(); }},
      {"E_ONE was number 1, is number 2",
       [](auto& f) { f.mutable_enum_type(0)->mutable_value(0)->set_number(2); }},
      {"service parplan.v1.S is gone", [](auto& f) { f.clear_service(); }},
      {"method parplan.v1.S.M is gone", [](auto& f) { f.mutable_service(0)->clear_method(); }},
      {"method parplan.v1.S.M was .A to .A, is .A to stream .A",
       [](auto& f) { f.mutable_service(0)->mutable_method(0)->set_server_streaming(true); }},
      {"is .B to .A",
       [](auto& f) { f.mutable_service(0)->mutable_method(0)->set_input_type(".B"); }},
  };
  for (const Case& c : cases) {
    FileDescriptorSet changed = SmallContract();
    c.change(*changed.mutable_file(0));
    EXPECT_THAT(BreakingChanges(SmallContract(), changed), testing::Contains(HasSubstr(c.told)));
  }
}

TEST(BreakingChanges, AllowsAdditions) {
  FileDescriptorSet changed = SmallContract();
  FileDescriptorProto& file = *changed.mutable_file(0);
  file.add_message_type()->set_name("New");
  FieldDescriptorProto& field = *file.mutable_message_type(0)->add_field();
  field.set_name("z");
  field.set_number(3);
  file.mutable_enum_type(0)->add_value()->set_name("E_TWO");
  file.mutable_service(0)->add_method()->set_name("N");
  EXPECT_THAT(BreakingChanges(SmallContract(), changed), IsEmpty());
  EXPECT_THAT(BreakingChanges(changed, SmallContract()), testing::SizeIs(4));
}

TEST(BreakingChanges, LooksAtOurPackageOnly) {
  FileDescriptorSet other = SmallContract();
  other.mutable_file(0)->set_package("google.protobuf");
  EXPECT_THAT(BreakingChanges(other, FileDescriptorSet()), IsEmpty());
}

}  // namespace
}  // namespace parplan
