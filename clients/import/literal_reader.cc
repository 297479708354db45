#include "clients/import/literal_reader.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace parplan {

using nlohmann::json;

LiteralValue NotLiteral() { return {json(), false}; }

LiteralValue Reference(const std::string& name) { return {json(), false, false, false, name}; }

void LiteralReader::SkipLine() {
  while (!IsAtLineEnd()) Next();
  if (!IsAtFileEnd()) Next();
}

LiteralValue LiteralReader::Read(const std::string& target) {
  const size_t first = settings_.size();
  LiteralValue value = ReadAtom(target);
  if (IsAtDelimiter()) return value;
  // `Call(...) if condition else ...`: the arguments of the call were noted already.
  const bool is_conditional = Peek().IsName("if");
  // Calls behind an operator are made in some runs only, or change what was made before them.
  const size_t rest = is_conditional ? first : settings_.size();
  SkipToDelimiter(target);
  for (size_t i = rest; i < settings_.size(); ++i) MakeConditional(settings_[i]);
  // The rest may change entries that were noted, so the whole is an expression.
  return {json(), false, false, is_conditional};
}

void LiteralReader::NoteUnknownName(std::string path, int line) {
  NoteSetting(std::move(path), NotLiteral(), line);
  settings_.back().has_unknown_name = true;
}

void LiteralReader::NoteSetting(std::string path, const LiteralValue& value, int line) {
  settings_.push_back({std::move(path), value.is_literal ? value.value : json(), value.is_literal,
                       line, false, value.reference});
  if (is_conditional_ || value.is_conditional) MakeConditional(settings_.back());
}

std::string LiteralReader::ReadDottedName() {
  std::string name;
  if (Peek().kind != LiteralTokenKind::kName) return name;
  name = Peek().text;
  Next();
  const size_t begin = place_;
  if (language_ == LiteralLanguage::kPython && name == "vars" && Peek().Is('(')) {
    Next();
    const std::string inner = ReadDottedName();
    if (!inner.empty() && Peek().Is(')')) {
      Next();
      name = inner;
    } else {
      place_ = begin;
    }
  }
  AppendDottedNames(&name);
  return name;
}

void LiteralReader::AppendDottedNames(std::string* name) {
  while (Peek().Is('.') && Peek(1).kind == LiteralTokenKind::kName) {
    if (!Peek(1).IsName("__dict__")) absl::StrAppend(name, ".", Peek(1).text);
    Next();
    Next();
  }
}

void LiteralReader::SkipBrackets() {
  int depth = 0;
  do {
    const LiteralToken& token = Peek();
    if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
    if (token.Is(')') || token.Is(']') || token.Is('}')) --depth;
    Next();
  } while (depth > 0 && !IsAtFileEnd());
}

void LiteralReader::MakeConditional(LiteralSetting& setting) {
  setting.value = json();
  setting.is_literal = false;
  setting.is_conditional = true;
  setting.reference.clear();
}

bool LiteralReader::IsAtDelimiter() const {
  const LiteralToken& token = Peek();
  return IsAtStatementEnd() || token.Is(',') || token.Is(')') || token.Is(']') || token.Is('}') ||
         token.Is(':') || token.Is('=');
}

void LiteralReader::SkipToDelimiter(const std::string& target) {
  int depth = 0;
  while (!IsAtStatementEnd()) {
    const LiteralToken& token = Peek();
    if (language_ == LiteralLanguage::kPython && token.kind == LiteralTokenKind::kName) {
      ReadNamed(target);
      continue;
    }
    const bool closes = token.Is(')') || token.Is(']') || token.Is('}');
    if (depth == 0 && (closes || token.Is(','))) return;
    if (token.Is('(') || token.Is('[') || token.Is('{')) ++depth;
    if (closes) --depth;
    Next();
  }
}

LiteralValue LiteralReader::ReadAtom(const std::string& target) {
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

LiteralValue LiteralReader::Number(const std::string& text, bool is_negative) {
  const std::string digits = absl::StrReplaceAll(text, {{"_", ""}});
  int64_t whole = 0;
  if (absl::SimpleAtoi(digits, &whole)) return {json(is_negative ? -whole : whole)};
  double real = 0;
  const bool is_decimal = digits.find_first_not_of("0123456789.eE+-") == std::string::npos;
  if (is_decimal && absl::SimpleAtod(digits, &real)) return {json(is_negative ? -real : real)};
  return NotLiteral();
}

LiteralValue LiteralReader::ReadTexts() {
  std::string text;
  while (Peek().kind == LiteralTokenKind::kText) {
    text += Peek().text;
    Next();
  }
  return {json(text)};
}

LiteralValue LiteralReader::ReadNamed(const std::string& target) {
  const bool is_toml = language_ == LiteralLanguage::kToml;
  const int line = Peek().line;
  const std::string name = ReadDottedName();
  if (name == (is_toml ? "true" : "True")) return {json(true)};
  if (name == (is_toml ? "false" : "False")) return {json(false)};
  if (name == "None" && !is_toml) return {json()};
  if (is_toml) return NotLiteral();
  if (!Peek().Is('(')) return Reference(name);
  if (name == "setattr" || name == "object.__setattr__") {
    ReadSetattr(line);
    return NotLiteral();
  }
  if (absl::EndsWith(name, ".update")) {
    ReadCall(name.substr(0, name.rfind('.')), true, line);
    return NotLiteral();
  }
  const bool is_dictionary = name == "dict" || name == "replace" || name == "dataclasses.replace";
  ReadCall(is_dictionary ? target : name, is_dictionary, line);
  // Methods that change what they are called of in another way.
  for (const char* const method : {".pop", ".popitem", ".clear", ".setdefault", ".__setitem__",
                                   ".__delitem__", ".__setattr__", ".__delattr__"}) {
    if (absl::EndsWith(name, method)) {
      NoteSetting(name.substr(0, name.rfind('.')), NotLiteral(), line);
    }
  }
  return is_dictionary ? LiteralValue{json(), false, true} : Reference(name);
}

void LiteralReader::ReadSetattr(int line) {
  const size_t begin = place_;
  Next();
  const std::string owner = ReadDottedName();
  if (!owner.empty() && Peek().Is(',') && Peek(1).kind == LiteralTokenKind::kText &&
      Peek(2).Is(',')) {
    const std::string path = absl::StrCat(owner, ".", Peek(1).text);
    for (int i = 0; i < 3; ++i) Next();
    const LiteralValue value = Read(path);
    if (!value.is_dictionary) NoteSetting(path, value, line);
  } else {
    NoteUnknownName(owner, line);
  }
  place_ = begin;
  SkipBrackets();
}

void LiteralReader::ReadCall(const std::string& name, bool is_dictionary, int line) {
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
      if (!Peek().Is(',') && !Peek().Is(')')) SkipToDelimiter(name);
    }
    if (Peek().Is(',')) Next();
    if (place_ == begin) Next();
  }
  if (!IsAtFileEnd()) Next();
  if (!has_arguments && !is_dictionary) {
    NoteSetting(name, {json(), true, false, false, name}, line);
  }
}

LiteralValue LiteralReader::ReadList(char close) {
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
      SkipToDelimiter("");
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

LiteralValue LiteralReader::ReadDictionary(const std::string& target) {
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
      SkipToDelimiter(target);
    }
    if (Peek().Is(',')) Next();
    if (place_ == begin) Next();
  }
  if (!IsAtFileEnd()) Next();
  if (!is_toml) return {json(), false, has_keys};
  return table.is_literal && has_keys ? table : NotLiteral();
}

}  // namespace parplan
