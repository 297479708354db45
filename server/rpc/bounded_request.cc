#include "server/rpc/bounded_request.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include <limits>

#include "base/check.h"

namespace parplan {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The depth at which decoders of protobuf stop.
constexpr int kMaxDepth = 100;

// Returns the field of `type` that the decoder reads behind `tag`. Null if it keeps what follows as
// an unknown field: no field has the number, or the one that has it is of another wire type.
const FieldDescriptor* FieldOf(const Descriptor* type, uint32_t tag) {
  if (type == nullptr) return nullptr;
  const FieldDescriptor* const field =
      type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
  if (field == nullptr) return nullptr;
  const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
  const auto declared = static_cast<WireFormatLite::FieldType>(field->type());
  if (wire_type == WireFormatLite::WireTypeForFieldType(declared)) return field;
  // Decoders take numbers of a repeated field one by one or packed, whatever is declared.
  const bool is_packed =
      field->is_packable() && wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  return is_packed ? field : nullptr;
}

// Counts the parts of a message, or of an unknown group.
class PartCount {
 public:
  PartCount(absl::string_view message, int64_t max_count)
      : stream_(reinterpret_cast<const uint8_t*>(message.data()), static_cast<int>(message.size())),
        left_(max_count) {}

  bool is_exceeded() const { return left_ < 0; }

  // Reads to the end of the message or group; a null `type` has no field. Returns false if there is
  // nothing more to count.
  bool Read(const Descriptor* type, int depth) {
    if (depth > kMaxDepth) return false;
    while (const uint32_t tag = stream_.ReadTag()) {
      const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
      if (wire_type == WireFormatLite::WIRETYPE_END_GROUP) return true;
      const FieldDescriptor* const field = FieldOf(type, tag);
      if (!ReadField(field, wire_type, depth) || is_exceeded()) return false;
    }
    return stream_.ConsumedEntireMessage();
  }

 private:
  bool ReadField(const FieldDescriptor* field, WireFormatLite::WireType wire_type, int depth) {
    if (field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ||
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      --left_;
    }
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t value = 0;
        return stream_.ReadVarint64(&value);
      }
      case WireFormatLite::WIRETYPE_FIXED64:
        return stream_.Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        return stream_.Skip(4);
      case WireFormatLite::WIRETYPE_START_GROUP:
        return Read(nullptr, depth + 1);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return ReadDelimited(field, depth);
      case WireFormatLite::WIRETYPE_END_GROUP:
        break;
    }
    return false;
  }

  bool ReadDelimited(const FieldDescriptor* field, int depth) {
    int size = 0;
    if (!stream_.ReadVarintSizeAsInt(&size)) return false;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return stream_.Skip(size);
    }
    if (size > stream_.BytesUntilLimit() && stream_.BytesUntilLimit() >= 0) return false;
    const CodedInputStream::Limit limit = stream_.PushLimit(size);
    const bool goes_on = Read(field->message_type(), depth + 1);
    stream_.PopLimit(limit);
    return goes_on;
  }

  CodedInputStream stream_;
  int64_t left_;
};

// Returns whether a request, which stays as it is, has few parts.
bool RequestHasFewParts(const Descriptor& type, grpc_byte_buffer* request) {
  grpc_byte_buffer_reader reader;
  // The decoder refuses what cannot be read.
  if (grpc_byte_buffer_reader_init(&reader, request) == 0) return true;
  const grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  const bool has_few =
      HasFewParts(type,
                  absl::string_view(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(bytes)),
                                    GRPC_SLICE_LENGTH(bytes)),
                  kMaxRequestParts);
  grpc_slice_unref(bytes);
  return has_few;
}

}  // namespace

bool HasFewParts(const Descriptor& type, absl::string_view message, int64_t max_count) {
  if (message.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
  PartCount count(message, max_count);
  count.Read(&type, 0);
  return !count.is_exceeded();
}

int IndexOfMethod(const Descriptor& request, const std::string& name) {
  PARPLAN_CHECK(request.file()->service_count() == 1);
  const google::protobuf::MethodDescriptor* const method =
      request.file()->service(0)->FindMethodByName(name);
  PARPLAN_CHECK(method != nullptr);
  return method->index();
}

void* BoundedHandler::Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                                  void** handler_data) {
  if (request != nullptr && !RequestHasFewParts(type_, request)) {
    grpc_byte_buffer_destroy(request);
    // The tag of no field.
    grpc_slice nothing = grpc_slice_from_static_string("\xff");
    request = grpc_raw_byte_buffer_create(&nothing, 1);
  }
  return inner_->Deserialize(call, request, status, handler_data);
}

}  // namespace parplan
