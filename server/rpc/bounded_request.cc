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

// Bytes that a part takes, without the bytes of a text: the largest message of a request, empty,
// with its place in a list and what the allocator adds. The test `DecodedBytes` compares it with
// all.
constexpr int64_t kPartBytes = 384;

// Bytes that a number of a list may take: eight, in a list that doubles as it grows.
constexpr int64_t kNumberBytes = 16;

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
  int64_t bytes() const { return bytes_; }

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
      bytes_ += kPartBytes;
    } else if (field->is_repeated()) {
      bytes_ += kNumberBytes;
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
      // A packed number may take one byte on the wire.
      const bool is_packed = field != nullptr && field->is_packable();
      bytes_ += is_packed ? size * kNumberBytes : size;
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
  // The message itself is a part, which `left_` does not count.
  int64_t bytes_ = kPartBytes;
};

// Returns what `DecodedBytes` says of a request, which stays as it is.
std::optional<int64_t> DecodedRequestBytes(const Descriptor& type, grpc_byte_buffer* request) {
  grpc_byte_buffer_reader reader;
  // The decoder refuses what cannot be read.
  if (grpc_byte_buffer_reader_init(&reader, request) == 0) return 0;
  const grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  const std::optional<int64_t> decoded =
      DecodedBytes(type,
                   absl::string_view(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(bytes)),
                                     GRPC_SLICE_LENGTH(bytes)),
                   kMaxRequestParts);
  grpc_slice_unref(bytes);
  return decoded;
}

// Replaces a request by `bytes`, which must be static.
void Replace(grpc_byte_buffer*& request, const char* bytes) {
  grpc_byte_buffer_destroy(request);
  grpc_slice slice = grpc_slice_from_static_string(bytes);
  request = grpc_raw_byte_buffer_create(&slice, 1);
}

}  // namespace

std::optional<int64_t> DecodedBytes(const Descriptor& type, absl::string_view message,
                                    int64_t max_count) {
  if (message.size() > static_cast<size_t>(std::numeric_limits<int>::max())) return std::nullopt;
  PartCount count(message, max_count);
  count.Read(&type, 0);
  if (count.is_exceeded()) return std::nullopt;
  return count.bytes();
}

bool HasFewParts(const Descriptor& type, absl::string_view message, int64_t max_count) {
  return DecodedBytes(type, message, max_count).has_value();
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
  if (request == nullptr) return inner_->Deserialize(call, request, status, handler_data);
  const std::optional<int64_t> bytes = DecodedRequestBytes(type_, request);
  if (!bytes.has_value()) {
    Replace(request, "\xff");  // The tag of no field.
  } else if (!memory_.Reserve(call, *bytes + kCallBytes)) {
    Replace(request, "");
  }
  void* const decoded = inner_->Deserialize(call, request, status, handler_data);
  // No `Call` sees a request that cannot be decoded.
  if (decoded == nullptr) memory_.Release(call);
  return decoded;
}

}  // namespace parplan
