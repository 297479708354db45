#include "server/rpc/bounded_request.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "clients/cpp/status_from_grpc.h"
#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/calibration.pb.h"
#include "parplan/v1/calibration_service.pb.h"
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

// Adds each message that a message of `type` may hold, and itself.
void AddTypes(const google::protobuf::Descriptor* type,
              std::set<const google::protobuf::Descriptor*>& types) {
  if (!types.insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    if (const auto* const held = type->field(i)->message_type()) AddTypes(held, types);
  }
}

int64_t SpaceOfDecoded(const google::protobuf::Descriptor& type, absl::string_view bytes) {
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  EXPECT_TRUE(message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return static_cast<int64_t>(message->SpaceUsedLong());
}

// For each field of each message of a request: a thousand times what takes the fewest bytes.
TEST(DecodedBytes, IsNoLessThanWhatTheMessageTakes) {
  using google::protobuf::FieldDescriptor;
  using google::protobuf::internal::WireFormatLite;
  std::set<const google::protobuf::Descriptor*> types;
  AddTypes(v1::CreatePlanRequest::descriptor(), types);
  AddTypes(v1::ShapePlanRequest::descriptor(), types);
  AddTypes(v1::ExportPlanRequest::descriptor(), types);
  AddTypes(v1::UploadCalibrationRequest::descriptor(), types);
  AddTypes(v1::ConnectAgentRequest::descriptor(), types);
  ASSERT_GT(types.size(), 30u);
  int count = 0;
  for (const google::protobuf::Descriptor* const type : types) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      if (!field.is_repeated()) continue;
      std::string one;
      {
        google::protobuf::io::StringOutputStream text(&one);
        google::protobuf::io::CodedOutputStream stream(&text);
        stream.WriteVarint32(
            field.is_packable()
                ? WireFormatLite::MakeTag(field.number(),
                                          WireFormatLite::WireTypeForFieldType(
                                              static_cast<WireFormatLite::FieldType>(field.type())))
                : WireFormatLite::MakeTag(field.number(),
                                          WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
          stream.WriteLittleEndian64(0);
        } else {
          stream.WriteVarint32(0);
        }
      }
      for (const int many : {1, 9, 1000}) {
        const std::string bytes = Repeated(one, many);
        EXPECT_LE(SpaceOfDecoded(*type, bytes), DecodedBytes(*type, bytes, 1000000))
            << field.full_name() << " " << many;
      }
      ++count;
    }
  }
  EXPECT_GT(count, 10);
  // Packed numbers of one byte, a long text, and fields that the type does not have.
  const google::protobuf::Descriptor& residuals = *v1::ResidualClass::descriptor();
  const std::string doubles = std::string("\x32\xc0\x3e", 3) + std::string(8000, '\0');
  EXPECT_LE(SpaceOfDecoded(residuals, doubles), DecodedBytes(residuals, doubles, 10));
  v1::CreatePlanRequest text;
  text.set_job_id(std::string(100000, 'x'));
  const std::string long_text = text.SerializeAsString();
  EXPECT_LE(SpaceOfDecoded(*text.descriptor(), long_text),
            DecodedBytes(*text.descriptor(), long_text, 10));
  for (const absl::string_view unknown :
       {absl::string_view("\xfa\x7f\x00", 3), absl::string_view("\x78\x01", 2),
        absl::string_view("\x7b\x7c", 2), absl::string_view("\x7b\x08\x01\x7c", 4)}) {
    const std::string bytes = Repeated(unknown, 1000);
    EXPECT_LE(SpaceOfDecoded(*text.descriptor(), bytes),
              DecodedBytes(*text.descriptor(), bytes, 10000));
  }
  EXPECT_EQ(DecodedBytes(*text.descriptor(), Repeated("\x78\x01", 11), 10), std::nullopt);
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
    for (const char* const method :
         {"/parplan.v1.ExecutionService/ReportMetrics", "/parplan.v1.AgentService/ConnectAgent"}) {
      EXPECT_EQ(CallRaw(harness.channel(), method, message).error_code(), grpc::INVALID_ARGUMENT)
          << method;
    }
  }
  ASSERT_OK(harness.UploadSmallProfile().status());
  EXPECT_EQ(CallRaw(harness.channel(), "/parplan.v1.PlanService/CreatePlan",
                    SmallQuestion().SerializeAsString())
                .error_code(),
            grpc::OK);
}

// Whoever may not report or connect learns nothing more from bytes that are no message.
TEST(RpcServer, AStreamThatIsNotDecodedIsRefusedForTheRoleFirst) {
  RpcHarness harness;
  std::string service = "ExecutionService";
  std::string method = "ReportMetrics";
  const auto report = [&] {
    return FromGrpcStatus(
        CallRaw(harness.channel(), absl::StrCat("/parplan.v1.", service, "/", method), "\xff\xff"));
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
  service = "AgentService";
  method = "ConnectAgent";
  EXPECT_THAT(report(), IsRefused(absl::StatusCode::kPermissionDenied, Reason::kRoleRequired));
  EXPECT_EQ(harness.audit().records().back().method, "ConnectAgent");
  grant.role = "agent";
  grant.jobs = {};
  grant.nodes = {"mine"};
  harness.Allow({grant});
  EXPECT_THAT(report(), IsRefused(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid));
}

// A question that waits keeps its memory, and gives it back with its answer.
TEST(RpcServer, RequestsThatWaitTakeNoMoreMemoryThanThereIs) {
  GatedPlanner planner;
  RpcHarness harness(RpcHarness::TestLimits(), planner.Function());
  ASSERT_OK(harness.UploadSmallProfile().status());
  v1::CreatePlanRequest question = SmallQuestion();
  for (int i = 0; i < 2000; ++i) {
    *question.mutable_spec()->mutable_model()->add_layer_definitions() =
        question.spec().model().layer_definitions(0);
    question.mutable_spec()
        ->mutable_model()
        ->mutable_layer_definitions()
        ->rbegin()
        ->set_layer_definition_id(absl::StrCat("spare-", i));
  }
  const std::string bytes = question.SerializeAsString();
  const int64_t size = *DecodedBytes(*question.descriptor(), bytes, kMaxRequestParts);
  RpcServerOptions options;
  // Room for one of a caller, for one of another, and for one that was refused a moment ago, with
  // which gRPC may not be done yet.
  options.max_request_memory = 3 * (size + kCallBytes) + 100'000;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RpcServer> server,
                       RpcServer::Start(harness.core(), options));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<grpc::Channel> channel,
                       MakeChannel({.target = absl::StrCat("127.0.0.1:", server->port())}));
  const auto ask = [&](const char* method) {
    return FromGrpcStatus(
        CallRaw(channel, absl::StrCat("/parplan.v1.PlanService/", method), bytes));
  };
  planner.Shut();
  std::thread waiting([&] { EXPECT_OK(ask("CreatePlan")); });
  planner.WaitForArrivals(1);
  for (const char* const method : {"CreatePlan", "SearchPlan"}) {
    const absl::Status refused = ask(method);
    EXPECT_THAT(refused, IsRefused(absl::StatusCode::kResourceExhausted, Reason::kQueueFull));
    EXPECT_THAT(refused.message(), testing::HasSubstr("requests in progress of this caller"));
    EXPECT_TRUE(GetRetryDelay(refused).has_value());
  }
  // gRPC may not be done with either of them on a busy machine.
  const absl::Time patience = absl::Now() + absl::Seconds(20);
  absl::Status other = PlanClient(channel).GetCapabilities().status();
  while (!other.ok() && absl::Now() < patience) {
    std::this_thread::yield();
    other = PlanClient(channel).GetCapabilities().status();
  }
  EXPECT_OK(other);
  planner.Open();
  waiting.join();
  // gRPC is done with the first call a moment after its answer.
  absl::Status answer = ask("CreatePlan");
  for (int i = 0; i < 1000 && absl::IsResourceExhausted(answer); ++i) answer = ask("CreatePlan");
  EXPECT_OK(answer);
}

}  // namespace
}  // namespace parplan
