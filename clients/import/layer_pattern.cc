#include "clients/import/layer_pattern.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

constexpr int kDeepestParentheses = 16;

// Reads from the front of a text without blanks. After a failure nothing more is read.
class PatternReader {
 public:
  PatternReader(absl::string_view text, size_t limit) : text_(text), limit_(limit) {}

  std::optional<std::vector<bool>> Read() {
    std::optional<std::vector<bool>> pattern = Sum(0);
    if (!text_.empty()) return std::nullopt;
    return pattern;
  }

 private:
  std::optional<std::vector<bool>> Sum(int depth) {
    std::vector<bool> sum;
    do {
      const std::optional<std::vector<bool>> term = Product(depth);
      if (!term.has_value() || term->size() > limit_ - sum.size()) return std::nullopt;
      sum.insert(sum.end(), term->begin(), term->end());
    } while (absl::ConsumePrefix(&text_, "+"));
    return sum;
  }

  std::optional<std::vector<bool>> Product(int depth) {
    std::optional<std::vector<bool>> factor;
    if (absl::ConsumePrefix(&text_, "(")) {
      if (depth < kDeepestParentheses) factor = Sum(depth + 1);
      if (!absl::ConsumePrefix(&text_, ")")) return std::nullopt;
    } else {
      factor = List();
    }
    while (factor.has_value() && absl::ConsumePrefix(&text_, "*")) factor = Repeat(*factor);
    return factor;
  }

  std::optional<std::vector<bool>> List() {
    std::vector<bool> list;
    if (!absl::ConsumePrefix(&text_, "[")) return std::nullopt;
    do {
      const bool is_one = absl::ConsumePrefix(&text_, "1");
      if ((!is_one && !absl::ConsumePrefix(&text_, "0")) || list.size() == limit_) {
        return std::nullopt;
      }
      list.push_back(is_one);
    } while (absl::ConsumePrefix(&text_, ","));
    if (!absl::ConsumePrefix(&text_, "]")) return std::nullopt;
    return list;
  }

  std::optional<std::vector<bool>> Repeat(const std::vector<bool>& factor) {
    size_t digits = 0;
    while (digits < text_.size() && absl::ascii_isdigit(text_[digits])) ++digits;
    int count = 0;
    if (!absl::SimpleAtoi(text_.substr(0, digits), &count)) return std::nullopt;
    text_.remove_prefix(digits);
    if (!factor.empty() && static_cast<size_t>(count) > limit_ / factor.size()) return std::nullopt;
    std::vector<bool> product;
    for (int i = 0; i < count && !factor.empty(); ++i) {
      product.insert(product.end(), factor.begin(), factor.end());
    }
    return product;
  }

  absl::string_view text_;
  size_t limit_;
};

}  // namespace

std::optional<std::vector<bool>> ReadLayerPattern(absl::string_view text, size_t layer_count) {
  const std::string plain = absl::StrReplaceAll(text, {{" ", ""}});
  return PatternReader(plain, layer_count).Read();
}

}  // namespace parplan
