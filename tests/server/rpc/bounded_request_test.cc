#include "server/rpc/bounded_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/calibration.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "server/access/policy.h"
#include "server/audit/audit_record.h"
#include "tests/server/rpc/reason_matcher.h"
#include "tests/server/rpc/rpc_harness.h"
#include "tests/server/rpc/small_world.h"
#include "tests/support/raw_call.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

bool Fits(absl::string_view bytes, int64_t max_count) {
  return HasFewParts(*v1::CreatePlanRequest::descriptor(), bytes, max_count);
}

std::string Repeated(absl::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

// Messages of the request with so many empty definitions of layers: a spec, a model and those.
std::string WithDefinitions(int count) {
  v1::CreatePlanRequest request;
  for (int i = 0; i < count; ++i) request.mutable_spec()->mutable_model()->add_layer_definitions();
  return request.SerializeAsString();
}

TEST(HasFewParts, CountsMessagesTextsAndWhatTheTypeDoesNotHave) {
  EXPECT_TRUE(Fits("", 0));
  EXPECT_TRUE(Fits(WithDefinitions(5), 7));
  EXPECT_FALSE(Fits(WithDefinitions(5), 6));
  v1::CreatePlanRequest texts;
  texts.set_parent("clusters/lab");
  texts.set_job_id("j");
  texts.mutable_spec()->set_global_batch_size(8);
  EXPECT_TRUE(Fits(texts.SerializeAsString(), 3));
  EXPECT_FALSE(Fits(texts.SerializeAsString(), 2));
  // Field 15 is none: a number, eight and four bytes, a text, and a group with a number in it.
  for (const absl::string_view unknown :
       {absl::string_view("\x78\x01", 2),
        absl::string_view("\x79"
                          "12345678",
                          9),
        absl::string_view("\x7d"
                          "1234",
                          5),
        absl::string_view("\x7a\x01x", 3), absl::string_view("\x7b\x7c", 2)}) {
    EXPECT_TRUE(Fits(Repeated(unknown, 9), 9)) << unknown;
    EXPECT_FALSE(Fits(Repeated(unknown, 9), 8)) << unknown;
  }
  EXPECT_FALSE(Fits(Repeated(absl::string_view("\x7b\x08\x01\x7c", 4), 9), 17));
}

// The decoder keeps a field of another wire type than that of its declaration as an unknown one.
TEST(HasFewParts, CountsFieldsOfAnotherWireType) {
  using std::string_literals::operator""s;
  const google::protobuf::Descriptor* const list = v1::ListPlansRequest::descriptor();
  const google::protobuf::Descriptor* const create = v1::CreatePlanRequest::descriptor();
  const google::protobuf::Descriptor* const residuals = v1::ResidualClass::descriptor();
  struct Case {
    const char* what;
    const google::protobuf::Descriptor* type;
    std::string field;
    int parts;
  };
  for (const Case& sent :
       {Case{"a text for page_size, a number", list, "\x12\x00"s, 1},
        Case{"eight bytes for page_size", list, "\x11\x01\0\0\0\0\0\0\0"s, 1},
        Case{"four bytes for page_size", list, "\x15\x01\0\0\0"s, 1},
        Case{"a group with a number for page_size", list, "\x13\x08\x01\x14"s, 2},
        Case{"a number for parent, a text", list, "\x08\x01"s, 1},
        Case{"a group for parent", list, "\x0b\x0c"s, 1},
        Case{"a number for spec, a message", create, "\x10\x01"s, 1},
        Case{"four bytes for spec", create, "\x15\x01\0\0\0"s, 1},
        Case{"a group for spec", create, "\x13\x14"s, 1},
        Case{"a varint for a list of doubles", residuals, "\x30\x01"s, 1}}) {
    const std::string all = Repeated(sent.field, 9);
    EXPECT_TRUE(HasFewParts(*sent.type, all, 9 * sent.parts)) << sent.what;
    EXPECT_FALSE(HasFewParts(*sent.type, all, 9 * sent.parts - 1)) << sent.what;
  }
  // As they are declared, and numbers of a list one by one or packed.
  for (const Case& sent : {Case{"a number", list, "\x10\x01"s, 0},
                           Case{"a double of a list", residuals, "\x31\0\0\0\0\0\0\0\0"s, 0},
                           Case{"doubles, packed", residuals, "\x32\x08\0\0\0\0\0\0\0\0"s, 0}}) {
    EXPECT_TRUE(HasFewParts(*sent.type, Repeated(sent.field, 9), 0)) << sent.what;
  }
}

// The decoder stops at the same byte, so what follows takes no memory.
TEST(HasFewParts, LooksAtNothingBehindWhatCannotBeDecoded) {
  const std::string many = Repeated(absl::string_view("\x7b\x7c", 2), 50);
  EXPECT_TRUE(Fits("\xff" + many, 10));
  EXPECT_TRUE(Fits(std::string("\x12\x7f", 2) + many.substr(0, 20), 10));
  // Groups in groups, more than a decoder follows.
  EXPECT_TRUE(Fits(Repeated("\x7b", 200), 150));
}

// Every method of the contract whose client sends one message: all in the generated code of the
// package, also those that are added after this test.
std::vector<const google::protobuf::MethodDescriptor*> MethodsWithOneRequest() {
  std::vector<std::string> files;
  google::protobuf::DescriptorPool::internal_generated_database()->FindAllFileNames(&files);
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const std::string& name : files) {
    if (!absl::StartsWith(name, "parplan/v1/")) continue;
    const google::protobuf::FileDescriptor* const file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const google::protobuf::MethodDescriptor* const method = file->service(i)->method(j);
        if (!method->client_streaming()) methods.push_back(method);
      }
    }
  }
  return methods;
}

// gRPC keeps unknown fields of every request.
TEST(RpcServer, RequestsOfTooManyPartsAreNotDecoded) {
  RpcHarness harness;
  ASSERT_GE(MethodsWithOneRequest().size(), 22u);
  const std::string unknown =
      Repeated(absl::string_view("\xfa\x7f\x00", 3), static_cast<int>(kMaxRequestParts) + 1);
  const std::string few = Repeated(absl::string_view("\xfa\x7f\x00", 3), 100);
  for (const google::protobuf::MethodDescriptor* method : MethodsWithOneRequest()) {
    const std::string path = absl::StrCat("/", method->service()->full_name(), "/", method->name());
    EXPECT_EQ(CallRaw(harness.channel(), path, unknown).error_code(), grpc::UNIMPLEMENTED) << path;
    EXPECT_NE(CallRaw(harness.channel(), path, few).error_code(), grpc::UNIMPLEMENTED) << path;
  }
  // A text for a number.
  const std::string texts =
      Repeated(absl::string_view("\x12\x00", 2), static_cast<int>(kMaxRequestParts) + 1);
  EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.PlanService/ListPlans", texts).error_code(),
            grpc::UNIMPLEMENTED);
  // The end of a stream would be OK.
  for (const std::string& message : {unknown, std::string("\xff\xff")}) {
    EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.ExecutionService/ReportMetrics", message)
                  .error_code(),
              grpc::INVALID_ARGUMENT);
  }
  ASSERT_OK(harness.UploadSmallProfile().status());
  EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.PlanService/CreatePlan",
                    SmallQuestion().SerializeAsString())
                .error_code(),
            grpc::OK);
}

// Whoever may not report learns nothing more from bytes that are no report.
TEST(RpcServer, AReportThatIsNotDecodedIsRefusedForTheRoleFirst) {
  RpcHarness harness;
  const auto report = [&harness] {
    return FromGrpcStatus(
        CallRaw(harness.channel(), "/parplan.v1.ExecutionService/ReportMetrics", "\xff\xff"));
  };
  Grant grant;
  grant.identities = {"anonymous"};
  grant.clusters = {"lab"};
  grant.role = "reader";
  for (const std::vector<Grant>& grants : {std::vector<Grant>(), std::vector<Grant>{grant}}) {
    const size_t audited = harness.audit().records().size();
    harness.Allow(grants);
    EXPECT_THAT(report(), IsRefused(absl::StatusCode::kPermissionDenied, Reason::kRoleRequired));
    const std::vector<AuditRecord> records = harness.audit().records();
    ASSERT_EQ(records.size(), audited + 1);
    EXPECT_EQ(records.back().method, "ReportMetrics");
  }
  grant.role = "executor";
  grant.jobs = {"mine"};
  harness.Allow({grant});
  EXPECT_THAT(report(), IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

}  // namespace
}  // namespace parplan
