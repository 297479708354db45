#include "clients/import/python_statements.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

bool IsOneOf(const LiteralToken& token, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&token](const char* name) { return token.IsName(name); });
}

bool IsConditionWord(const LiteralToken& token) {
  return IsOneOf(token, {"if", "elif", "else", "for", "while", "try", "except", "finally", "with"});
}

}  // namespace

bool PythonStatements::Read() {
  bool found = function_.empty();
  while (!reader_.IsAtFileEnd()) {
    const LiteralToken& first = reader_.Peek();
    if (first.column == 0) {
      EndFunction();
      block_ = BlockOf(first, reader_.Peek(1));
      found = found || (IsDefinition() && block_.name == function_);
    } else if (block_.indent < 0) {
      block_.indent = first.column;
    }
    if (IsDefinition() && !function_.empty() && block_.name != function_) {
      reader_.SkipLine();
      continue;
    }
    reader_.set_is_conditional(block_.kind == PythonBlock::Kind::kCondition ||
                               (first.column > 0 && first.column != block_.indent));
    if (first.column <= nested_column_) nested_column_ = -1;
    const bool is_nested = first.column > 0 && nested_column_ < 0 &&
                           (IsOneOf(first, {"def", "class"}) ||
                            (first.IsName("async") && reader_.Peek(1).IsName("def")));
    if (is_nested) {
      nested_column_ = first.column;
      has_other_statement_ = true;
    }
    ReadLine(first);
    reader_.SkipLine();
  }
  EndFunction();
  return found;
}

void PythonStatements::EndFunction() {
  const bool is_text_alone = has_text_ && !has_other_statement_;
  if (unfinished_function_.empty() && !is_text_alone) unfinished_function_ = owing_function_;
  owing_function_.clear();
  has_text_ = false;
  has_other_statement_ = false;
  nested_column_ = -1;
}

PythonBlock PythonStatements::BlockOf(const LiteralToken& first, const LiteralToken& second) {
  if (first.IsName("class")) return {PythonBlock::Kind::kClass, second.text};
  if (first.IsName("def")) return {PythonBlock::Kind::kFunction, second.text};
  if (IsConditionWord(first)) return {PythonBlock::Kind::kCondition, ""};
  return {};
}

void PythonStatements::ReadLine(const LiteralToken& first) {
  const bool is_condition = IsConditionWord(first);
  if (is_condition || IsOneOf(first, {"def", "class"})) {
    while (!reader_.IsAtLineEnd() && !reader_.Peek().Is(':')) {
      const LiteralToken& token = reader_.Peek();
      if (token.Is('(') || token.Is('[') || token.Is('{')) {
        reader_.SkipBrackets();
      } else {
        const bool is_result = first.IsName("def") && first.column == 0 &&
                               token.text != block_.name && absl::EndsWith(token.text, "Config");
        if (is_result) owing_function_ = block_.name;
        reader_.Next();
      }
    }
    if (reader_.Peek().Is(':')) reader_.Next();
    if (is_condition || first.column > 0) reader_.set_is_conditional(true);
  }
  // The class in whose body the line stands.
  owner_.clear();
  const bool is_of_class =
      block_.kind == PythonBlock::Kind::kClass && first.column > 0 && first.column == block_.indent;
  if (is_of_class) owner_ = absl::StrCat(block_.name, ".");
  while (!reader_.IsAtLineEnd()) {
    const size_t begin = reader_.place();
    ReadStatement();
    while (!reader_.IsAtStatementEnd()) reader_.Next();
    if (reader_.Peek().Is(';') || reader_.place() == begin) reader_.Next();
  }
}

void PythonStatements::ReadStatement() {
  const LiteralToken first = reader_.Peek();
  (first.kind == LiteralTokenKind::kText ? has_text_ : has_other_statement_) = true;
  // An empty body is `pass` or three dots.
  if (nested_column_ >= 0) {
    // It is of another function.
  } else if (first.Is('.') || IsOneOf(first, {"return", "raise", "yield", "pass"})) {
    owing_function_.clear();
  }
  if (IsOneOf(first, {"import", "from"})) return ReadImport();
  if (IsOneOf(first, {"raise", "assert", "pass"})) return;
  if (IsOneOf(first, {"return", "yield", "await"})) {
    reader_.Next();
    reader_.Read("return");
    return;
  }
  const bool deletes = first.IsName("del");
  if (deletes) reader_.Next();
  const size_t begin = reader_.place();
  std::vector<Target> targets = ReadTargets();
  if (deletes) return NoteAll(targets, NotLiteral(), first.line);
  if (targets.size() == 1 && reader_.Peek().Is(':') && !reader_.Peek(1).Is('=')) {
    while (!reader_.IsAtStatementEnd() && !reader_.Peek().Is('=')) reader_.Next();
  }
  if (!targets.empty() && IsAtAugmentedAssignment()) {
    return NoteAll(targets, NotLiteral(), first.line);
  }
  if (targets.empty() || !IsAtAssignment()) {
    reader_.set_place(begin);
    if (HasAssignment()) reader_.NoteUnknownName("", first.line);
    reader_.set_place(begin);
    reader_.Read("");
    return;
  }
  ReadAssignment(std::move(targets), first.line);
}

void PythonStatements::ReadAssignment(std::vector<Target> targets, int line) {
  std::vector<std::vector<Target>> lists = {std::move(targets)};
  size_t begin = 0;
  while (IsAtAssignment()) {
    reader_.Next();
    begin = reader_.place();
    std::vector<Target> further = ReadTargets();
    if (further.empty() || !IsAtAssignment()) break;
    lists.push_back(std::move(further));
  }
  // The value is read once for each list. More lists could take time that grows with the square of
  // the file, and no configuration has them.
  constexpr size_t kMostLists = 16;
  for (const std::vector<Target>& list : lists) {
    reader_.set_place(begin);
    if (lists.size() > kMostLists) {
      NoteAll(list, NotLiteral(), line);
      continue;
    }
    if (list.size() == 1) {
      const Target& target = list[0];
      LiteralValue value = reader_.Read(owner_ + target.path);
      if (reader_.Peek().Is(',')) value = NotLiteral();
      if (target.has_unknown_key) value = NotLiteral();
      if (!value.is_dictionary) reader_.NoteSetting(owner_ + target.path, value, line);
      continue;
    }
    ReadValues(list, line);
  }
}

void PythonStatements::ReadValues(const std::vector<Target>& targets, int line) {
  if (IsOneOfMarks("([")) {
    // Brackets around all values, which end the statement.
    const size_t begin = reader_.place();
    reader_.SkipBrackets();
    const bool has_all = reader_.IsAtStatementEnd();
    reader_.set_place(begin);
    if (has_all) reader_.Next();
  }
  size_t count = 0;
  while (true) {
    const bool is_known = count < targets.size() && !targets[count].has_unknown_key;
    const std::string path = is_known ? owner_ + targets[count].path : "";
    const size_t begin = reader_.place();
    const LiteralValue value = reader_.Read(path);
    if (reader_.place() == begin) break;
    if (is_known && !value.is_dictionary) reader_.NoteSetting(path, value, line);
    ++count;
    if (!reader_.Peek().Is(',')) break;
    reader_.Next();
  }
  // The notes of the values then belong to other targets.
  if (count != targets.size()) NoteAll(targets, NotLiteral(), line);
  for (const Target& target : targets) {
    if (target.has_unknown_key) reader_.NoteSetting(owner_ + target.path, NotLiteral(), line);
  }
}

void PythonStatements::ReadImport() {
  std::string name;
  while (!reader_.IsAtStatementEnd()) {
    const LiteralToken token = reader_.Peek();
    if (token.IsName("as") && !name.empty()) {
      reader_.Next();
      reader_.NoteSetting(reader_.Peek().text, Reference(name), token.line);
    } else if (token.kind == LiteralTokenKind::kName) {
      name = reader_.ReadDottedName();
      continue;
    }
    reader_.Next();
  }
}

std::vector<PythonStatements::Target> PythonStatements::ReadTargets() {
  std::vector<Target> targets;
  while (true) {
    while (IsOneOfMarks("([*")) reader_.Next();
    Target target;
    target.path = reader_.ReadDottedName();
    if (target.path.empty()) return {};
    while (reader_.Peek().Is('[')) {
      target.has_unknown_key =
          reader_.Peek(1).kind != LiteralTokenKind::kText || !reader_.Peek(2).Is(']');
      if (!target.has_unknown_key) absl::StrAppend(&target.path, ".", reader_.Peek(1).text);
      reader_.SkipBrackets();
      // An attribute of one of several.
      if (reader_.Peek().Is('.')) target.has_unknown_key = false;
      reader_.AppendDottedNames(&target.path);
    }
    targets.push_back(std::move(target));
    while (targets.size() > 1 && IsOneOfMarks(")]")) reader_.Next();
    if (!reader_.Peek().Is(',')) break;
    reader_.Next();
    while (IsOneOfMarks(")]")) reader_.Next();
    if (IsAtAssignment()) break;
  }
  while (IsOneOfMarks(")]")) reader_.Next();
  return targets;
}

bool PythonStatements::IsOneOfMarks(absl::string_view marks) const {
  const LiteralToken& token = reader_.Peek();
  return token.kind == LiteralTokenKind::kMark && absl::StrContains(marks, token.text);
}

bool PythonStatements::HasAssignment() {
  bool found = false;
  bool follows_comparison = false;
  while (!reader_.IsAtStatementEnd() && !found) {
    if (IsOneOfMarks("([{")) {
      reader_.SkipBrackets();
      continue;
    }
    found = IsAtAssignment() && !follows_comparison;
    follows_comparison = IsOneOfMarks("<>!=");
    reader_.Next();
  }
  return found;
}

bool PythonStatements::IsAtAugmentedAssignment() const {
  size_t size = 0;
  while (size < 2 && IsOperator(reader_.Peek(size))) ++size;
  const bool shifts = size == 0 && reader_.Peek(0).text == reader_.Peek(1).text &&
                      (reader_.Peek().Is('<') || reader_.Peek().Is('>'));
  if (shifts) size = 2;
  return size > 0 && reader_.Peek(size).Is('=') && !reader_.Peek(size + 1).Is('=');
}

bool PythonStatements::IsOperator(const LiteralToken& token) {
  constexpr absl::string_view kOperators = "+-*/%@&|^";
  return token.kind == LiteralTokenKind::kMark &&
         absl::StrContains(kOperators, absl::string_view(token.text));
}

}  // namespace parplan
