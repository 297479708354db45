#include "base/json/json_text.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {
namespace {

// How far the parser has read. It reads the text through iterators that move this, because its
// events do not carry their position.
struct Progress {
  const char* next;
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Progress* progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    progress_->next = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  Progress* progress_;
};

// Builds the tree from the events of the parser, which stops when a handler returns false.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const char* begin, const Progress* progress, const JsonLimits& limits)
      : limits_(limits), counted_(begin), progress_(progress) {}

  bool null() override { return Add(JsonValue::Type::kNull) != nullptr; }
  bool boolean(bool value) override {
    JsonValue* added = Add(JsonValue::Type::kBoolean);
    if (added != nullptr) added->boolean = value;
    return added != nullptr;
  }
  bool number_integer(number_integer_t value) override {
    JsonValue* added = Add(JsonValue::Type::kInteger);
    if (added == nullptr) return false;
    added->integer = value;
    added->number = static_cast<double>(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      return number_integer(static_cast<number_integer_t>(value));
    }
    return number_float(static_cast<double>(value), "");
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonValue* added = Add(JsonValue::Type::kNumber);
    if (added != nullptr) added->number = value;
    return added != nullptr;
  }
  bool string(string_t& value) override {
    JsonValue* added = Add(JsonValue::Type::kString);
    if (added != nullptr) added->text = std::move(value);
    return added != nullptr;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(JsonValue::Type::kObject); }
  bool start_array(size_t) override { return Open(JsonValue::Type::kArray); }
  bool key(string_t& value) override {
    if (limits_.refuses_repeated_members && !names_.back().insert(value).second) {
      error_ = absl::StrCat("has the member `", value, "` twice in one object; keep one");
      return false;
    }
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    if (!limits_.quotes_text) {
      error_ = absl::StrCat("not JSON from byte ", position, " on");
      return false;
    }
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    error_ = error.what();
    const size_t prefix = error_.find("] ");
    if (prefix != std::string::npos) error_.erase(0, prefix + 2);
    error_ = absl::StrCat("not JSON: ", error_);
    return false;
  }

  // Returns the line of the event: that of the last character but one that was read, since the
  // end of a number is known only from the character behind it.
  int Line() {
    for (; counted_ + 1 < progress_->next; ++counted_) {
      if (*counted_ == '\n') ++line_;
    }
    return line_;
  }

  const std::string& error() const { return error_; }
  JsonValue& root() { return root_; }

 private:
  JsonValue* Add(JsonValue::Type type) {
    if (++value_count_ > limits_.max_values) {
      error_ = absl::StrCat("has more than ", limits_.max_values, " values");
      return nullptr;
    }
    JsonValue* added = open_.empty() ? &root_ : &open_.back()->items.emplace_back();
    added->type = type;
    added->line = Line();
    added->key = std::exchange(key_, "");
    return added;
  }

  bool Open(JsonValue::Type type) {
    if (open_.size() >= static_cast<size_t>(limits_.max_depth)) {
      error_ = absl::StrCat("nested deeper than ", limits_.max_depth, " levels");
      return false;
    }
    JsonValue* added = Add(type);
    if (added == nullptr) return false;
    // The address stays valid: the parent gets no other item before this one is closed.
    open_.push_back(added);
    if (limits_.refuses_repeated_members) names_.emplace_back();
    return true;
  }

  bool Close() {
    open_.pop_back();
    if (limits_.refuses_repeated_members) names_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  JsonValue root_;
  // Arrays and objects that are not closed yet, and the names of their members so far.
  std::vector<JsonValue*> open_;
  std::vector<std::set<std::string>> names_;
  std::string key_;
  int value_count_ = 0;
  const char* counted_;
  const Progress* progress_;
  int line_ = 1;
  std::string error_;
};

absl::Status TextError(absl::string_view file_name, int line, absl::string_view rule) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                   absl::StrCat(file_name, ":", line, ": ", rule),
                   {{"field", ""}, {"rule", std::string(rule)}});
}

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view name) const {
  if (type != Type::kObject) return nullptr;
  for (const JsonValue& member : items) {
    if (member.key == name) return &member;
  }
  return nullptr;
}

absl::StatusOr<JsonValue> ReadJsonText(absl::string_view text, absl::string_view file_name,
                                       const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return TextError(file_name, 1, absl::StrCat("longer than ", limits.max_bytes, " bytes"));
  }
  // The parser takes it for the end of the text, and what follows for nothing.
  if (const size_t at = text.find('\0'); at != absl::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + at, '\n');
    return TextError(file_name, static_cast<int>(line),
                     absl::StrCat("not JSON: has a byte of value 0, byte ", at + 1));
  }
  Progress progress{text.data()};
  TreeBuilder builder(text.data(), &progress, limits);
  const bool read =
      nlohmann::json::sax_parse(CountingIterator(text.data(), &progress),
                                CountingIterator(text.data() + text.size(), &progress), &builder);
  if (!read) {
    return TextError(file_name, builder.Line(), builder.error());
  }
  return std::move(builder.root());
}

}  // namespace parplan
