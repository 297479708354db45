// Changes a message a little, by reflection, so that a fuzzer gets past the
// parser to the rules behind it.

#ifndef PARPLAN_TESTS_FUZZ_MESSAGE_MUTATOR_H_
#define PARPLAN_TESTS_FUZZ_MESSAGE_MUTATOR_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace parplan {

// Draws from a seed; one object makes one new input.
class MessageMutator {
 public:
  explicit MessageMutator(unsigned seed) : engine_(seed) {}

  // Changes one to four fields anywhere in `message`. `words` are strings that
  // mean something to its readers.
  void Mutate(const std::vector<std::string>& words, google::protobuf::Message* message) {
    words_ = &words;
    for (size_t i = 1 + Draw(4); i > 0; --i) MutateOnce(message, 0);
  }

  // Uniform in [0, count).
  size_t Draw(size_t count) { return engine_() % count; }

 private:
  using FieldDescriptor = google::protobuf::FieldDescriptor;
  using Message = google::protobuf::Message;

  static constexpr int kMaxDepth = 8;

  void MutateOnce(Message* message, int depth) {
    const google::protobuf::Descriptor* descriptor = message->GetDescriptor();
    const google::protobuf::Reflection* reflection = message->GetReflection();
    if (descriptor->field_count() == 0 || depth > kMaxDepth) return;
    const FieldDescriptor* field = descriptor->field(Draw(descriptor->field_count()));
    if (field->is_map()) return;
    if (!field->is_repeated()) {
      if (Draw(12) == 0) {
        reflection->ClearField(message, field);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        MutateOnce(reflection->MutableMessage(message, field), depth + 1);
      } else {
        Set(message, field);
      }
      return;
    }
    const int size = reflection->FieldSize(*message, field);
    if (size == 0 || Draw(4) == 0) {
      Add(message, field, size, depth);
    } else if (Draw(8) == 0) {
      reflection->RemoveLast(message, field);
    } else if (size > 1 && Draw(4) == 0) {
      reflection->SwapElements(message, field, static_cast<int>(Draw(size)),
                               static_cast<int>(Draw(size)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      MutateOnce(reflection->MutableRepeatedMessage(message, field, static_cast<int>(Draw(size))),
                 depth + 1);
    }
  }

  // A new entry at the end; a copy of one there is, where it is a message.
  void Add(Message* message, const FieldDescriptor* field, int size, int depth) {
    const google::protobuf::Reflection* reflection = message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* entry = reflection->AddMessage(message, field);
        if (size > 0) {
          entry->CopyFrom(
              reflection->GetRepeatedMessage(*message, field, static_cast<int>(Draw(size))));
        }
        MutateOnce(entry, depth + 1);
        break;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        reflection->AddString(message, field, Word());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection->AddEnumValue(message, field, static_cast<int>(Draw(9)));
        break;
      default:
        break;
    }
  }

  void Set(Message* message, const FieldDescriptor* field) {
    const google::protobuf::Reflection* reflection = message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        reflection->SetInt32(message, field, static_cast<int32_t>(Integer()));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection->SetInt64(message, field, Integer());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection->SetDouble(message, field, Number());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection->SetBool(message, field, Draw(2) == 1);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection->SetEnumValue(message, field, static_cast<int>(Draw(9)) - 1);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection->SetString(message, field, Word());
        break;
      default:
        break;
    }
  }

  std::string Word() { return (*words_)[Draw(words_->size())]; }

  int64_t Integer() {
    switch (Draw(6)) {
      case 0:
        return std::numeric_limits<int64_t>::max() >> Draw(64);
      case 1:
        return std::numeric_limits<int64_t>::min() >> Draw(64);
      case 2:
        return (int64_t{1} << Draw(63)) - 1;
      default:
        return static_cast<int64_t>(Draw(65));
    }
  }

  double Number() {
    switch (Draw(5)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::numeric_limits<double>::infinity();
      case 2:
        return -1.0;
      default:
        return static_cast<double>(Draw(200)) / 100;
    }
  }

  std::mt19937 engine_;
  const std::vector<std::string>* words_ = nullptr;
};

// Mutates the serialized `Message` in `data`; its new size, or 0 when it does
// not fit `max_size`. Unreadable bytes become an empty message first.
template <typename Message>
size_t MutateSerialized(uint8_t* data, size_t size, size_t max_size,
                        const std::vector<std::string>& words, MessageMutator& mutator) {
  Message message;
  if (!message.ParsePartialFromArray(data, static_cast<int>(size))) message.Clear();
  mutator.Mutate(words, &message);
  const std::string bytes = message.SerializePartialAsString();
  if (bytes.size() > max_size) return 0;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_FUZZ_MESSAGE_MUTATOR_H_
