#include "clients/import/literal_settings.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "clients/import/literal_tokens.h"

namespace parplan {
namespace {

using nlohmann::json;

// A value, or that there is none which is literal.
struct LiteralValue {
  json value;
  bool is_literal = true;
  // The value is `dict(...)`, `dataclasses.replace(...)` or `{...}`, whose entries were noted by
  // themselves.
  bool is_dictionary = false;
  // An `if` follows that chooses between this value and another.
  bool is_conditional = false;
  // See `LiteralSetting`.
  std::string reference;
};

LiteralValue NotLiteral() { return {json(), false}; }

LiteralValue Reference(const std::string& name) { return {json(), false, false, false, name}; }

// Reads values from a list of tokens, and notes the arguments of calls.
class LiteralReader {
 public:
  LiteralReader(const std::vector<LiteralToken>& tokens, LiteralLanguage language)
      : tokens_(tokens), language_(language) {}

  const LiteralToken& Peek(size_t offset = 0) const {
    return tokens_[std::min(place_ + offset, tokens_.size() - 1)];
  }
  void Next() { place_ = std::min(place_ + 1, tokens_.size() - 1); }
  bool IsAtLineEnd() const {
    return Peek().kind == LiteralTokenKind::kLineEnd || Peek().kind == LiteralTokenKind::kFileEnd;
  }
  bool IsAtFileEnd() const { return Peek().kind == LiteralTokenKind::kFileEnd; }
  void SkipLine() {
    while (!IsAtLineEnd()) Next();
    if (!IsAtFileEnd()) Next();
  }

  // Reads a value up to a comma, a closing bracket or the end of the line. `target` names what it
  // is for.
  LiteralValue Read(const std::string& target) {
    const size_t first = settings_.size();
    LiteralValue value = ReadAtom(target);
    if (IsAtDelimiter()) return value;
    // `Call(...) if condition else ...`: the arguments of the call were noted already.
    const bool is_conditional = Peek().IsName("if");
    for (size_t i = first; is_conditional && i < settings_.size(); ++i) {
      MakeConditional(settings_[i]);
    }
    SkipToDelimiter();
    // The rest may change entries that were noted, so the whole is an expression.
    return {json(), false, false, is_conditional};
  }

  // Values that are noted from here on do not hold in every run.
  void set_is_conditional(bool is_conditional) { is_conditional_ = is_conditional; }

  void NoteSetting(std::string path, const LiteralValue& value, int line) {
    settings_.push_back({std::move(path), value.is_literal ? value.value : json(), value.is_literal,
                         line, false, value.reference});
    if (is_conditional_ || value.is_conditional) MakeConditional(settings_.back());
  }
  std::vector<LiteralSetting> TakeSettings() { return std::move(settings_); }

  // Remember a place, and return to it.
  size_t place() const { return place_; }
  void set_place(size_t place) { place_ = place; }

  // Returns names joined by dots, and moves behind them; empty if there is no name.
  std::string ReadDottedName() {
    std::string name;
    if (Peek().kind != LiteralTokenKind::kName) return name;
    name = Peek().text;
    Next();
    while (Peek().Is('.') && Peek(1).kind == LiteralTokenKind::kName) {
      absl::StrAppend(&name, ".", Peek(1).text);
      Next();
      Next();
    }
    return name;
  }

 private:
  static void MakeConditional(LiteralSetting& setting) {
    setting.value = json();
    setting.is_literal = false;
    setting.is_conditional = true;
    setting.reference.clear();
  }

  bool IsAtDelimiter() const {
    const LiteralToken& token = Peek();
    return IsAtLineEnd() || token.Is(',') || token.Is(')') || token.Is(']') || token.Is('}') ||
           token.Is(':') || token.Is('=');
  }

  void SkipToDelimiter() {
    int depth = 0;
    while (!IsAtLineEnd()) {
      const LiteralToken& token = Peek();
      const bool closes = token.Is(')') || token.Is(']') || token.Is('}');
      if (depth == 0 && (closes || token.Is(','))) return;
      if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
      if (closes) --depth;
      Next();
    }
  }

  LiteralValue ReadAtom(const std::string& target) {
    const LiteralToken token = Peek();
    switch (token.kind) {
      case LiteralTokenKind::kNumber:
        Next();
        return Number(token.text, false);
      case LiteralTokenKind::kText:
        return ReadTexts();
      case LiteralTokenKind::kName:
        return ReadNamed(target);
      case LiteralTokenKind::kMark:
        break;
      default:
        if (!IsAtLineEnd()) Next();
        return NotLiteral();
    }
    if (token.Is('-') && Peek(1).kind == LiteralTokenKind::kNumber) {
      Next();
      const std::string digits = Peek().text;
      Next();
      return Number(digits, true);
    }
    if (token.Is('[')) return ReadList(']');
    if (token.Is('(')) return ReadList(')');
    if (token.Is('{')) return ReadDictionary(target);
    return NotLiteral();
  }

  static LiteralValue Number(const std::string& text, bool is_negative) {
    const std::string digits = absl::StrReplaceAll(text, {{"_", ""}});
    int64_t whole = 0;
    if (absl::SimpleAtoi(digits, &whole)) return {json(is_negative ? -whole : whole)};
    double real = 0;
    const bool is_decimal = digits.find_first_not_of("0123456789.eE+-") == std::string::npos;
    if (is_decimal && absl::SimpleAtod(digits, &real)) return {json(is_negative ? -real : real)};
    return NotLiteral();
  }

  // Reads texts that stand side by side, which Python joins.
  LiteralValue ReadTexts() {
    std::string text;
    while (Peek().kind == LiteralTokenKind::kText) {
      text += Peek().text;
      Next();
    }
    return {json(text)};
  }

  LiteralValue ReadNamed(const std::string& target) {
    const bool is_toml = language_ == LiteralLanguage::kToml;
    const int line = Peek().line;
    const std::string name = ReadDottedName();
    if (name == (is_toml ? "true" : "True")) return {json(true)};
    if (name == (is_toml ? "false" : "False")) return {json(false)};
    if (name == "None" && !is_toml) return {json()};
    if (is_toml) return NotLiteral();
    if (!Peek().Is('(')) return Reference(name);
    const bool is_dictionary = name == "dict" || name == "replace" || name == "dataclasses.replace";
    ReadCall(is_dictionary ? target : name, is_dictionary, line);
    return is_dictionary ? LiteralValue{json(), false, true} : Reference(name);
  }

  // Reads the arguments of a call of `name` from the bracket on. If it makes a dictionary, those
  // without a name give it entries.
  void ReadCall(const std::string& name, bool is_dictionary, int line) {
    Next();
    bool has_arguments = false;
    while (!Peek().Is(')') && !IsAtFileEnd()) {
      const size_t begin = place_;
      has_arguments = true;
      const int argument_line = Peek().line;
      if (Peek().kind == LiteralTokenKind::kName && Peek(1).Is('=') && !Peek(2).Is('=')) {
        const std::string argument = Peek().text;
        Next();
        Next();
        const LiteralValue value = Read(argument);
        if (!value.is_dictionary)
          NoteSetting(absl::StrCat(name, ".", argument), value, argument_line);
      } else {
        const bool has_entries = Peek().Is('*') && Peek(1).Is('*');
        for (int i = 0; has_entries && i < 2; ++i) Next();
        const LiteralValue value = Read(name);
        if ((has_entries || is_dictionary) && !value.is_dictionary) {
          NoteSetting(name, value, argument_line);
        }
        // An argument without a name may be cut by a mark that ends no value.
        if (!Peek().Is(',') && !Peek().Is(')')) SkipToDelimiter();
      }
      if (Peek().Is(',')) Next();
      if (place_ == begin) Next();
    }
    if (!IsAtFileEnd()) Next();
    if (!has_arguments && !is_dictionary) NoteSetting(name, {json()}, line);
  }

  LiteralValue ReadList(char close) {
    LiteralValue list{json::array()};
    bool has_comma = false;
    Next();
    while (!Peek().Is(close) && !IsAtFileEnd()) {
      const size_t begin = place_;
      const LiteralValue entry = Read("");
      list.is_literal = list.is_literal && entry.is_literal;
      list.value.push_back(entry.value);
      if (Peek().Is(',')) {
        has_comma = true;
        Next();
      } else if (!Peek().Is(close)) {
        list.is_literal = false;
        SkipToDelimiter();
        if (Peek().Is(',')) Next();
      }
      if (place_ == begin) Next();
    }
    if (!IsAtFileEnd()) Next();
    // Brackets around one value change nothing.
    if (close == ')' && !has_comma && list.value.size() == 1) {
      const json inner = list.value.front();
      list.value = inner;
    }
    return list;
  }

  // Reads `{...}`. In TOML it is a value, in Python its entries are noted by themselves.
  LiteralValue ReadDictionary(const std::string& target) {
    const bool is_toml = language_ == LiteralLanguage::kToml;
    LiteralValue table{json::object()};
    // Whether every entry has a text as its key, or a name in TOML.
    bool has_keys = true;
    Next();
    while (!Peek().Is('}') && !IsAtFileEnd()) {
      const size_t begin = place_;
      const LiteralToken key = Peek();
      const bool has_key = is_toml || key.kind == LiteralTokenKind::kText;
      if (has_key) {
        Next();
      } else {
        Read("");
      }
      if (Peek().Is(':') || Peek().Is('=')) {
        Next();
        const LiteralValue value = Read(has_key ? key.text : "");
        table.is_literal = table.is_literal && value.is_literal;
        table.value[key.text] = value.value;
        if (has_key && !is_toml && !value.is_dictionary) {
          NoteSetting(absl::StrCat(target, ".", key.text), value, key.line);
        }
        has_keys = has_keys && has_key;
      } else {
        has_keys = false;
      }
      if (!Peek().Is(',') && !Peek().Is('}')) {
        has_keys = false;
        SkipToDelimiter();
      }
      if (Peek().Is(',')) Next();
      if (place_ == begin) Next();
    }
    if (!IsAtFileEnd()) Next();
    if (!is_toml) return {json(), false, has_keys};
    return table.is_literal && has_keys ? table : NotLiteral();
  }

  const std::vector<LiteralToken>& tokens_;
  const LiteralLanguage language_;
  size_t place_ = 0;
  bool is_conditional_ = false;
  std::vector<LiteralSetting> settings_;
};

absl::Status LineFault(const NamedText& file, int line, absl::string_view rule) {
  return ImportError(Reason::kSpecInvalid, file.name, absl::StrCat("line ", line), rule);
}

// The statement of Python that begins at column 0, to which the lines under it belong.
struct PythonBlock {
  enum class Kind { kNone, kFunction, kCondition };
  Kind kind = Kind::kNone;
  std::string name;
  // Column of the body; -1 before its first line.
  int indent = -1;
};

bool IsOneOf(const LiteralToken& token, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&token](const char* name) { return token.IsName(name); });
}

bool IsConditionWord(const LiteralToken& token) {
  return IsOneOf(token, {"if", "elif", "else", "for", "while", "try", "except", "finally", "with"});
}

class PythonReader {
 public:
  PythonReader(const std::vector<LiteralToken>& tokens, absl::string_view function)
      : reader_(tokens, LiteralLanguage::kPython), function_(function) {}

  // Returns false if there is no such function.
  bool Read() {
    bool found = function_.empty();
    while (!reader_.IsAtFileEnd()) {
      const LiteralToken& first = reader_.Peek();
      if (first.column == 0) {
        block_ = BlockOf(first, reader_.Peek(1));
        found = found || (block_.kind == PythonBlock::Kind::kFunction && block_.name == function_);
      } else if (block_.indent < 0) {
        block_.indent = first.column;
      }
      if (block_.kind == PythonBlock::Kind::kFunction && !function_.empty() &&
          block_.name != function_) {
        reader_.SkipLine();
        continue;
      }
      reader_.set_is_conditional(block_.kind == PythonBlock::Kind::kCondition ||
                                 (first.column > 0 && first.column != block_.indent));
      ReadStatement();
      reader_.SkipLine();
    }
    return found;
  }
  std::vector<LiteralSetting> TakeSettings() { return reader_.TakeSettings(); }

 private:
  static PythonBlock BlockOf(const LiteralToken& first, const LiteralToken& second) {
    if (IsOneOf(first, {"def", "class"})) return {PythonBlock::Kind::kFunction, second.text};
    if (IsConditionWord(first)) return {PythonBlock::Kind::kCondition, ""};
    return {};
  }

  void ReadStatement() {
    const LiteralToken first = reader_.Peek();
    if (first.kind != LiteralTokenKind::kName || IsConditionWord(first) ||
        IsOneOf(first, {"def", "class", "import", "from", "raise", "assert", "pass", "del"})) {
      return;
    }
    if (first.IsName("return")) {
      reader_.Next();
      reader_.Read("return");
      return;
    }
    // An assignment, or else an expression.
    const size_t begin = reader_.place();
    std::string target = reader_.ReadDottedName();
    if (reader_.Peek().Is(':')) {
      while (!reader_.IsAtLineEnd() && !reader_.Peek().Is('=')) reader_.Next();
    }
    while (reader_.Peek().Is('[') && reader_.Peek(1).kind == LiteralTokenKind::kText &&
           reader_.Peek(2).Is(']')) {
      absl::StrAppend(&target, ".", reader_.Peek(1).text);
      for (int i = 0; i < 3; ++i) reader_.Next();
    }
    if (IsAtAugmentedAssignment()) {
      reader_.NoteSetting(target, NotLiteral(), first.line);
      return;
    }
    if (!reader_.Peek().Is('=') || reader_.Peek(1).Is('=')) {
      reader_.set_place(begin);
      reader_.Read("");
      return;
    }
    reader_.Next();
    const LiteralValue value = reader_.Read(target);
    if (!value.is_dictionary) reader_.NoteSetting(target, value, first.line);
  }

  // Returns whether `+=`, `**=` or another such mark comes next.
  bool IsAtAugmentedAssignment() const {
    size_t size = 0;
    while (size < 2 && IsOperator(reader_.Peek(size))) ++size;
    return size > 0 && reader_.Peek(size).Is('=') && !reader_.Peek(size + 1).Is('=');
  }

  static bool IsOperator(const LiteralToken& token) {
    constexpr absl::string_view kOperators = "+-*/%@&|^";
    return token.kind == LiteralTokenKind::kMark &&
           absl::StrContains(kOperators, absl::string_view(token.text));
  }

  LiteralReader reader_;
  const std::string function_;
  PythonBlock block_;
};

}  // namespace

absl::StatusOr<std::vector<LiteralSetting>> ReadTomlSettings(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<LiteralToken> tokens,
                           ReadLiteralTokens(file, LiteralLanguage::kToml));
  LiteralReader reader(tokens, LiteralLanguage::kToml);
  std::string section;
  std::set<std::string> paths;
  while (!reader.IsAtFileEnd()) {
    const int line = reader.Peek().line;
    const bool is_section = reader.Peek().Is('[');
    if (is_section) reader.Next();
    const std::string name = reader.ReadDottedName();
    if (name.empty()) return LineFault(file, line, "must begin with a name or [section]");
    if (is_section) {
      if (!reader.Peek().Is(']')) return LineFault(file, line, "must be [section]");
      reader.Next();
      section = absl::StrCat(name, ".");
    } else {
      if (!reader.Peek().Is('=')) return LineFault(file, line, "must be `name = value`");
      reader.Next();
      const LiteralValue value = reader.Read(name);
      if (!value.is_literal) {
        return LineFault(file, line, absl::StrCat("has no value of `", name, "` that is read"));
      }
      std::string path = absl::StrCat(section, name);
      if (!paths.insert(path).second) {
        return LineFault(file, line, absl::StrCat("sets `", path, "` once more"));
      }
      reader.NoteSetting(std::move(path), value, line);
    }
    if (!reader.IsAtLineEnd()) return LineFault(file, line, "goes on behind its value");
    reader.SkipLine();
  }
  return reader.TakeSettings();
}

absl::StatusOr<std::vector<LiteralSetting>> ReadPythonSettings(const NamedText& file,
                                                               absl::string_view function) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<LiteralToken> tokens,
                           ReadLiteralTokens(file, LiteralLanguage::kPython));
  PythonReader reader(tokens, function);
  if (!reader.Read()) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("has no function `", function, "`"));
  }
  return reader.TakeSettings();
}

}  // namespace parplan
