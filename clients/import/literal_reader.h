// Values of TOML files and of Python source, as far as they are literal. `ReadTomlSettings`
// (literal_settings.h) and `PythonStatements` (python_statements.h) read statements with it.

#ifndef PARPLAN_CLIENTS_IMPORT_LITERAL_READER_H_
#define PARPLAN_CLIENTS_IMPORT_LITERAL_READER_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "clients/import/literal_settings.h"
#include "clients/import/literal_tokens.h"

namespace parplan {

// A value, or that there is none which is literal.
struct LiteralValue {
  nlohmann::json value;
  bool is_literal = true;
  // The value is `dict(...)`, `dataclasses.replace(...)` or `{...}`, whose entries were noted by
  // themselves.
  bool is_dictionary = false;
  // An `if` follows that chooses between this value and another.
  bool is_conditional = false;
  // See `LiteralSetting`.
  std::string reference;
};

// Returns a value that is not literal.
LiteralValue NotLiteral();
// Returns the value of a name, or of a call of one.
LiteralValue Reference(const std::string& name);

// Reads values from a list of tokens, which must outlive it, and notes the arguments of calls. Not
// thread-safe. REQUIRES, unchecked: the list is one of `ReadLiteralTokens` (literal_tokens.h),
// whose last token is kFileEnd and whose brackets match.
class LiteralReader {
 public:
  LiteralReader(const std::vector<LiteralToken>& tokens, LiteralLanguage language)
      : tokens_(tokens), language_(language) {}

  // Returns the token at the place of reading, or `offset` tokens behind it; the last one
  // (kFileEnd) beyond the end. It lives as long as the list.
  const LiteralToken& Peek(size_t offset = 0) const {
    return tokens_[std::min(place_ + offset, tokens_.size() - 1)];
  }
  // Moves behind one token; stays at the last one.
  void Next() { place_ = std::min(place_ + 1, tokens_.size() - 1); }
  // Returns whether a line, or the file, ends at the place of reading.
  bool IsAtLineEnd() const {
    return Peek().kind == LiteralTokenKind::kLineEnd || Peek().kind == LiteralTokenKind::kFileEnd;
  }
  // Returns whether the file ends at the place of reading.
  bool IsAtFileEnd() const { return Peek().kind == LiteralTokenKind::kFileEnd; }
  // Returns whether a statement ends at the place of reading: in Python also at a `;`.
  bool IsAtStatementEnd() const {
    return IsAtLineEnd() || (language_ == LiteralLanguage::kPython && Peek().Is(';'));
  }
  // Passes over the rest of the line and its end.
  void SkipLine();

  // Reads a value up to a comma, a closing bracket or the end of the line. `target` names what it
  // is for.
  LiteralValue Read(const std::string& target);

  // Values that are noted from here on do not hold in every run.
  void set_is_conditional(bool is_conditional) { is_conditional_ = is_conditional; }

  // Notes that a setting is changed whose name is an expression.
  void NoteUnknownName(std::string path, int line);

  // Notes a setting of a line.
  void NoteSetting(std::string path, const LiteralValue& value, int line);
  // Returns the settings that were noted, in their order; may be called once.
  std::vector<LiteralSetting> TakeSettings() { return std::move(settings_); }

  // Remember a place, and return to it.
  size_t place() const { return place_; }
  void set_place(size_t place) { place_ = place; }

  // Returns names joined by dots, and moves behind them; empty if there is no name. `vars(x)` and
  // `x.__dict__` of Python are `x`.
  std::string ReadDottedName();

  // Appends names behind dots, and moves behind them.
  void AppendDottedNames(std::string* name);

  // Moves behind the bracket that closes the one that comes next, or behind one token if that is no
  // bracket.
  void SkipBrackets();

 private:
  static void MakeConditional(LiteralSetting& setting);

  bool IsAtDelimiter() const;

  // Moves to the comma, closing bracket or end that ends the value of `target`. Calls of Python on
  // the way are read.
  void SkipToDelimiter(const std::string& target);

  LiteralValue ReadAtom(const std::string& target);

  static LiteralValue Number(const std::string& text, bool is_negative);

  // Reads texts that stand side by side, which Python joins.
  LiteralValue ReadTexts();

  LiteralValue ReadNamed(const std::string& target);

  // Reads `setattr(x, "y", value)` from the bracket on, as `x.y = value`.
  void ReadSetattr(int line);

  // Reads the arguments of a call of `name` from the bracket on. If it makes a dictionary, those
  // without a name give it entries.
  void ReadCall(const std::string& name, bool is_dictionary, int line);

  LiteralValue ReadList(char close);

  // Reads `{...}`. In TOML it is a value, in Python its entries are noted by themselves.
  LiteralValue ReadDictionary(const std::string& target);

  const std::vector<LiteralToken>& tokens_;
  const LiteralLanguage language_;
  size_t place_ = 0;
  bool is_conditional_ = false;
  std::vector<LiteralSetting> settings_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LITERAL_READER_H_
