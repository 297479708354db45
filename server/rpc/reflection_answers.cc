#include "server/rpc/reflection_answers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/core/request_rules.h"

namespace parplan {
namespace {

using google::protobuf::DescriptorPool;
using ProtoFile = google::protobuf::FileDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Numbers of fields in ServerReflectionRequest.
constexpr int kFileByFilename = 3;
constexpr int kFileContainingSymbol = 4;
constexpr int kFileContainingExtension = 5;
constexpr int kAllExtensionNumbersOfType = 6;
constexpr int kListServices = 7;

// Numbers of fields in ServerReflectionResponse.
constexpr int kOriginalRequest = 2;
constexpr int kFileDescriptorResponse = 4;
constexpr int kListServicesResponse = 6;
constexpr int kErrorResponse = 7;

struct Question {
  int kind = 0;  // The number of the last field that asks something; 0 for none.
  std::string text;
};

absl::StatusOr<Question> ReadQuestion(absl::string_view request) {
  const absl::Status refused =
      RequestError("message", absl::StrCat("must be a grpc.reflection.v1alpha."
                                           "ServerReflectionRequest of at most ",
                                           kMaxReflectionRequestBytes, " bytes"));
  if (request.size() > kMaxReflectionRequestBytes) return refused;
  CodedInputStream stream(reinterpret_cast<const uint8_t*>(request.data()),
                          static_cast<int>(request.size()));
  Question question;
  while (const uint32_t tag = stream.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool asks = field >= kFileByFilename && field <= kListServices;
    if (asks && WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      int size = 0;
      question.kind = field;
      if (!stream.ReadVarintSizeAsInt(&size) || !stream.ReadString(&question.text, size)) {
        return refused;
      }
    } else if (!WireFormatLite::SkipField(&stream, tag)) {
      return refused;
    }
  }
  if (!stream.ConsumedEntireMessage()) return refused;
  return question;
}

// Appends a field that holds bytes.
void AppendBytes(int number, absl::string_view bytes, std::string& message) {
  google::protobuf::io::StringOutputStream text(&message);
  google::protobuf::io::CodedOutputStream stream(&text);
  WireFormatLite::WriteBytes(number, std::string(bytes), &stream);
}

std::string ErrorResponse(absl::StatusCode code, absl::string_view text) {
  std::string error;
  {
    google::protobuf::io::StringOutputStream bytes(&error);
    google::protobuf::io::CodedOutputStream stream(&bytes);
    WireFormatLite::WriteInt32(1, static_cast<int>(code), &stream);
  }
  AppendBytes(2, text, error);
  std::string response;
  AppendBytes(kErrorResponse, error, response);
  return response;
}

// Appends the file and those that it imports, each once.
void AppendFiles(const ProtoFile& file, std::set<const ProtoFile*>& seen, std::string& files) {
  if (!seen.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  AppendBytes(1, proto.SerializeAsString(), files);
  for (int i = 0; i < file.dependency_count(); ++i) {
    AppendFiles(*file.dependency(i), seen, files);
  }
}

std::string FileResponse(const ProtoFile* file) {
  if (file == nullptr) {
    return ErrorResponse(absl::StatusCode::kNotFound, "the contract has no such file or name");
  }
  std::set<const ProtoFile*> seen;
  std::string files;
  AppendFiles(*file, seen, files);
  std::string response;
  AppendBytes(kFileDescriptorResponse, files, response);
  return response;
}

std::string ServicesResponse(const std::vector<std::string>& services) {
  std::string list;
  for (const std::string& name : services) {
    std::string service;
    AppendBytes(1, name, service);
    AppendBytes(1, service, list);
  }
  std::string response;
  AppendBytes(kListServicesResponse, list, response);
  return response;
}

std::string Answer(const std::vector<std::string>& services, const Question& question) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (question.kind) {
    case kFileByFilename:
      return FileResponse(pool.FindFileByName(question.text));
    case kFileContainingSymbol:
      return FileResponse(pool.FindFileContainingSymbol(question.text));
    case kFileContainingExtension:
    case kAllExtensionNumbersOfType:
      return ErrorResponse(absl::StatusCode::kNotFound, "the contract has no extensions");
    case kListServices:
      return ServicesResponse(services);
    default:
      return ErrorResponse(absl::StatusCode::kInvalidArgument, "the request asks nothing");
  }
}

}  // namespace

absl::StatusOr<std::string> AnswerReflection(const std::vector<std::string>& services,
                                             absl::string_view request) {
  PARPLAN_ASSIGN_OR_RETURN(const Question question, ReadQuestion(request));
  std::string response;
  AppendBytes(kOriginalRequest, request, response);
  return response + Answer(services, question);
}

}  // namespace parplan
