#include "clients/import/literal_tokens.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr size_t kMaxBrackets = 32;

class LiteralLexer {
 public:
  LiteralLexer(const NamedText& file, LiteralLanguage language)
      : file_(file), text_(file.text), language_(language) {}

  absl::StatusOr<std::vector<LiteralToken>> Read() {
    if (text_.size() > kMaxImportBytes) {
      return ImportError(Reason::kSpecInvalid, file_.name, "",
                         absl::StrCat("must be at most ", kMaxImportBytes, " bytes"));
    }
    while (place_ < text_.size()) PARPLAN_RETURN_IF_ERROR(ReadOne());
    if (!brackets_.empty()) return Fault("ends inside brackets");
    EndLine();
    Append(LiteralTokenKind::kFileEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status Fault(absl::string_view rule) const {
    return ImportError(Reason::kSpecInvalid, file_.name, absl::StrCat("line ", line_), rule);
  }
  char At(size_t offset) const {
    return place_ + offset < text_.size() ? text_[place_ + offset] : '\0';
  }
  void Append(LiteralTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), start_line_, start_column_});
  }
  void EndLine() {
    const bool is_empty = tokens_.empty() || tokens_.back().kind == LiteralTokenKind::kLineEnd;
    if (brackets_.empty() && !is_empty) Append(LiteralTokenKind::kLineEnd, "");
  }
  void Advance(size_t count) {
    for (size_t i = 0; i < count && place_ < text_.size(); ++i, ++place_) {
      ++column_;
      if (text_[place_] != '\n') continue;
      ++line_;
      column_ = 0;
    }
  }
  bool IsNamePart(char c) const {
    return absl::ascii_isalnum(c) || c == '_' || (language_ == LiteralLanguage::kToml && c == '-');
  }

  absl::Status ReadOne() {
    start_line_ = line_;
    start_column_ = column_;
    const char c = At(0);
    if (c == '\n') {
      EndLine();
      Advance(1);
    } else if (c == '#') {
      while (place_ < text_.size() && At(0) != '\n') Advance(1);
    } else if (c == '\\' && (At(1) == '\n' || (At(1) == '\r' && At(2) == '\n'))) {
      Advance(At(1) == '\n' ? 2 : 3);
    } else if (absl::ascii_isspace(c)) {
      Advance(1);
    } else if (c == '"' || c == '\'') {
      return ReadText(LiteralTokenKind::kText);
    } else if (absl::ascii_isdigit(c) || (c == '.' && absl::ascii_isdigit(At(1)))) {
      ReadNumber();
    } else if (c == '-' && absl::ascii_isdigit(At(1))) {
      return ReadMark(c);
    } else if (IsNamePart(c)) {
      return ReadName();
    } else {
      return ReadMark(c);
    }
    return absl::OkStatus();
  }

  void ReadNumber() {
    const size_t begin = place_;
    while (absl::ascii_isalnum(At(0)) || At(0) == '_' || At(0) == '.' ||
           ((At(0) == '-' || At(0) == '+') &&
            (text_[place_ - 1] == 'e' || text_[place_ - 1] == 'E'))) {
      Advance(1);
    }
    Append(LiteralTokenKind::kNumber, text_.substr(begin, place_ - begin));
  }

  absl::Status ReadName() {
    const size_t begin = place_;
    while (IsNamePart(At(0))) Advance(1);
    const std::string name = text_.substr(begin, place_ - begin);
    const bool is_prefix = language_ == LiteralLanguage::kPython && name.size() <= 2 &&
                           (At(0) == '"' || At(0) == '\'');
    if (is_prefix) {
      return ReadText(name == "u" || name == "U" ? LiteralTokenKind::kText
                                                 : LiteralTokenKind::kNoText);
    }
    Append(LiteralTokenKind::kName, name);
    return absl::OkStatus();
  }

  // Reads a text from its opening quotation mark on. In TOML single marks know no escapes.
  absl::Status ReadText(LiteralTokenKind kind) {
    const char mark = At(0);
    const bool is_long = At(1) == mark && At(2) == mark;
    const bool has_escapes = language_ == LiteralLanguage::kPython || mark == '"';
    Advance(is_long ? 3 : 1);
    std::string value;
    while (true) {
      if (place_ >= text_.size() || (!is_long && At(0) == '\n')) {
        return Fault("leaves a text open");
      }
      if (At(0) == mark && (!is_long || (At(1) == mark && At(2) == mark))) break;
      if (has_escapes && At(0) == '\\') {
        Escape(&value);
      } else {
        value += At(0);
        Advance(1);
      }
    }
    Advance(is_long ? 3 : 1);
    Append(kind, std::move(value));
    return absl::OkStatus();
  }

  // Reads one escape. Those that are not of every language are kept as they are.
  void Escape(std::string* value) {
    const char next = At(1);
    switch (next) {
      case '\n':
        break;
      case 'n':
        *value += '\n';
        break;
      case 't':
        *value += '\t';
        break;
      case '\\':
      case '"':
      case '\'':
        *value += next;
        break;
      default:
        *value += '\\';
        if (place_ + 1 < text_.size()) *value += next;
    }
    Advance(2);
  }

  absl::Status ReadMark(char c) {
    if (c == '(' || c == '[' || c == '{') {
      if (brackets_.size() == kMaxBrackets) {
        return Fault(absl::StrCat("nests deeper than ", kMaxBrackets));
      }
      brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) {
        return Fault(absl::StrCat("has a `", std::string(1, c), "` that closes nothing"));
      }
      brackets_.pop_back();
    }
    Append(LiteralTokenKind::kMark, std::string(1, c));
    Advance(1);
    return absl::OkStatus();
  }

  const NamedText& file_;
  const std::string& text_;
  const LiteralLanguage language_;
  size_t place_ = 0;
  int line_ = 1;
  int column_ = 0;
  int start_line_ = 1;
  int start_column_ = 0;
  // The brackets that must close, the next one last.
  std::string brackets_;
  std::vector<LiteralToken> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<LiteralToken>> ReadLiteralTokens(const NamedText& file,
                                                            LiteralLanguage language) {
  return LiteralLexer(file, language).Read();
}

}  // namespace parplan
