// The statements of Python source that give settings. `ReadPythonSettings` (literal_settings.h)
// calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_PYTHON_STATEMENTS_H_
#define PARPLAN_CLIENTS_IMPORT_PYTHON_STATEMENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/import/literal_reader.h"
#include "clients/import/literal_settings.h"
#include "clients/import/literal_tokens.h"

namespace parplan {

// The statement of Python that begins at column 0, to which the lines under it belong.
struct PythonBlock {
  // A definition of a function or class, or an `if`, `for`, `while`, `try` or `with`; `kNone` for
  // any other statement.
  enum class Kind { kNone, kFunction, kClass, kCondition };
  Kind kind = Kind::kNone;
  // Name of the function or class; empty for other kinds.
  std::string name;
  // Column of the body; -1 before its first line.
  int indent = -1;
};

// Reads statement by statement from a list of tokens, which must outlive it. Not thread-safe.
//
//   PythonStatements statements(tokens, "make");
//   if (statements.Read()) settings = statements.TakeSettings();
class PythonStatements {
 public:
  PythonStatements(const std::vector<LiteralToken>& tokens, absl::string_view function)
      : reader_(tokens, LiteralLanguage::kPython), function_(function) {}

  // Returns false if no function or class at column 0 has the name; true for an empty name. May be
  // called once.
  bool Read();
  // Returns the settings that `Read` found, in their order; may be called once.
  std::vector<LiteralSetting> TakeSettings() { return reader_.TakeSettings(); }
  // Returns the first function at column 0, of those that were read, that is annotated to return a
  // `...Config` and has no statement of its own that returns or raises: a file that was cut between
  // two statements ends in such a one. A body of a text alone, three dots or `pass` is whole. Empty
  // if there is none.
  const std::string& unfinished_function() const { return unfinished_function_; }

 private:
  // A target of an assignment.
  struct Target {
    std::string path;
    // The key in its last brackets is an expression.
    bool has_unknown_key = false;
  };

  bool IsDefinition() const {
    return block_.kind == PythonBlock::Kind::kFunction || block_.kind == PythonBlock::Kind::kClass;
  }

  static PythonBlock BlockOf(const LiteralToken& first, const LiteralToken& second);

  // Reads the statements of a line, which semicolons divide. The first may be the head of others:
  // of a function, a class or a condition.
  void ReadLine(const LiteralToken& first);

  void ReadStatement();

  // Remembers the function whose end this is, if it has to return something and does not.
  void EndFunction();

  // Reads what is assigned to `targets`, from the `=` on: `x, y = 1, 2`, or `x = y = 1`.
  void ReadAssignment(std::vector<Target> targets, int line);

  // Reads a value for each target if there are as many, with or without brackets around them.
  void ReadValues(const std::vector<Target>& targets, int line);

  void NoteAll(const std::vector<Target>& targets, const LiteralValue& value, int line) {
    for (const Target& target : targets) reader_.NoteSetting(owner_ + target.path, value, line);
  }

  // Notes the names that an import gives to others: `from a import B as C`.
  void ReadImport();

  // Reads targets between commas: names and dots, with keys or places in brackets behind them.
  // Returns none for targets of another form, and then stands anywhere in the statement.
  std::vector<Target> ReadTargets();

  bool IsOneOfMarks(absl::string_view marks) const;

  bool IsAtAssignment() const { return reader_.Peek().Is('=') && !reader_.Peek(1).Is('='); }

  // Returns whether the statement assigns to anything, outside of brackets. Moves to its end.
  bool HasAssignment();

  // Returns whether `+=`, `**=` or another such mark comes next.
  bool IsAtAugmentedAssignment() const;

  static bool IsOperator(const LiteralToken& token);

  LiteralReader reader_;
  const std::string function_;
  PythonBlock block_;
  // The class whose body is read and a dot; empty outside of classes.
  std::string owner_;
  // The function at column 0 whose body must still return a configuration; empty for none.
  std::string owing_function_;
  // Whether its body has a text alone in a statement, and whether it has any other statement.
  bool has_text_ = false;
  bool has_other_statement_ = false;
  // Column of a function or class within a function at column 0, while its lines are read; else -1.
  int nested_column_ = -1;
  std::string unfinished_function_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_PYTHON_STATEMENTS_H_
