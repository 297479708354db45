#include "clients/import/shell_arithmetic.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

// Parentheses and choices inside of one another; scripts of people have two or three.
constexpr int kMaxNesting = 16;
// Larger values are not read; products of two values below it are exact.
constexpr int64_t kMaxShellNumber = int64_t{1} << 31;

// Computes `a * (b + 2)` and the like over whole numbers and names of variables.
class ShellArithmetic {
 public:
  using Lookup = std::function<std::optional<int64_t>(const std::string& name)>;

  ShellArithmetic(absl::string_view text, Lookup lookup)
      : text_(text), lookup_(std::move(lookup)) {}

  std::optional<int64_t> Compute() {
    const int64_t value = Choice();
    Skip();
    return is_known_ && place_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  void Skip() {
    while (place_ < text_.size() && absl::ascii_isspace(text_[place_])) ++place_;
  }
  bool Take(char letter) {
    Skip();
    if (place_ >= text_.size() || text_[place_] != letter) return false;
    ++place_;
    return true;
  }
  int64_t Fail() {
    is_known_ = false;
    return 0;
  }
  int64_t Limit(int64_t value) {
    return value >= -kMaxShellNumber && value <= kMaxShellNumber ? value : Fail();
  }

  bool TakeText(absl::string_view sign) {
    Skip();
    if (!absl::StartsWith(text_.substr(place_), sign)) return false;
    place_ += sign.size();
    return true;
  }
  // `a > 1 ? b : c`, or a value alone. Both values are computed, so both must be known.
  int64_t Choice() {
    const int64_t value = Comparison();
    if (!is_known_ || !Take('?')) return value;
    if (++nesting_ > kMaxNesting) return Fail();
    const int64_t if_true = Choice();
    if (!Take(':')) return Fail();
    const int64_t if_false = Choice();
    --nesting_;
    return value != 0 ? if_true : if_false;
  }
  int64_t Comparison() {
    const int64_t left = Sum();
    if (TakeText("==")) return static_cast<int64_t>(left == Sum());
    if (TakeText("!=")) return static_cast<int64_t>(left != Sum());
    if (TakeText("<=")) return static_cast<int64_t>(left <= Sum());
    if (TakeText(">=")) return static_cast<int64_t>(left >= Sum());
    if (TakeText("<")) return static_cast<int64_t>(left < Sum());
    if (TakeText(">")) return static_cast<int64_t>(left > Sum());
    return left;
  }
  int64_t Sum() {
    int64_t value = Product();
    while (is_known_) {
      if (Take('+')) {
        value = Limit(value + Product());
      } else if (Take('-')) {
        value = Limit(value - Product());
      } else {
        break;
      }
    }
    return value;
  }
  int64_t Product() {
    int64_t value = Operand();
    while (is_known_) {
      if (Take('*')) {
        value = Limit(value * Operand());
        continue;
      }
      const bool divides = Take('/');
      if (!divides && !Take('%')) break;
      const int64_t divisor = Operand();
      if (!is_known_ || divisor == 0) return Fail();
      value = divides ? value / divisor : value % divisor;
    }
    return value;
  }
  int64_t Operand() {
    if (++nesting_ > kMaxNesting) return Fail();
    const int64_t value = Innermost();
    --nesting_;
    return value;
  }
  int64_t Innermost() {
    if (Take('(')) {
      const int64_t value = Choice();
      return Take(')') ? value : Fail();
    }
    if (Take('-')) return -Operand();
    const bool is_variable = Take('$');
    const bool has_brace = is_variable && Take('{');
    Skip();
    const size_t begin = place_;
    while (place_ < text_.size() && (absl::ascii_isalnum(text_[place_]) || text_[place_] == '_')) {
      ++place_;
    }
    const std::string word(text_.substr(begin, place_ - begin));
    if (word.empty() || (has_brace && !Take('}'))) return Fail();
    if (absl::ascii_isdigit(word[0])) {
      int64_t number = 0;
      return !is_variable && IsWholeNumber(word) && absl::SimpleAtoi(word, &number) ? Limit(number)
                                                                                    : Fail();
    }
    const std::optional<int64_t> value = lookup_(word);
    return value.has_value() ? Limit(*value) : Fail();
  }

  absl::string_view text_;
  Lookup lookup_;
  size_t place_ = 0;
  int nesting_ = 0;
  bool is_known_ = true;
};

}  // namespace

bool IsWholeNumber(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         (text.size() == 1 || text[0] != '0');
}

std::optional<int64_t> ComputeShellArithmetic(
    absl::string_view text,
    const std::function<std::optional<int64_t>(const std::string& name)>& lookup) {
  return ShellArithmetic(text, lookup).Compute();
}

}  // namespace parplan
