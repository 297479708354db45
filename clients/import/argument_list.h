// Arguments of a program's command line: `--name`, `--name value` or `--name=value`. The readers of
// Megatron-LM's arguments (`megatron_*.h`, clients/calibrate/megatron_arguments.cc) are made of it.

#ifndef PARPLAN_CLIENTS_IMPORT_ARGUMENT_LIST_H_
#define PARPLAN_CLIENTS_IMPORT_ARGUMENT_LIST_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/import/named_text.h"

namespace parplan {

// The values that an argument takes. They reach up to the next word that begins with `--`.
enum class ArgumentKind {
  kSwitch,   // none
  kCount,    // one whole number from 1 to kMaxImportCount (named_text.h)
  kText,     // one
  kTexts,    // one or several
  kIgnored,  // any number up to the next argument; they are not read
  kRefused,  // any number; the argument is an error with the rule's reason
};

// The name of an argument, and what becomes of it.
struct ArgumentRule {
  absl::string_view name;  // without dashes
  ArgumentKind kind;
  // Why a kRefused argument is refused; empty for the other kinds.
  absl::string_view reason = "";
};

// The arguments of one file. Immutable.
class ArgumentList {
 public:
  // Reads arguments that are separated by blanks and line ends; '...', "..." and a backslash quote
  // as in a shell, except that a backslash inside "..." is a letter, and `#` at the beginning of a
  // word starts a comment.
  //
  // One that is read and comes several times has its last value, as in the program.
  //
  // INVALID_ARGUMENT (SPEC_INVALID) with file and argument for an argument of kRefused, a value
  // that is missing, too much or no count, and a value with `$`,
  // which is a variable of a script that nothing sets; with the file alone for more than
  // kMaxImportBytes, an open quotation, a word that is no argument, and, all of them in one
  // message, for arguments without a rule. The first fault in the order of the words is returned,
  // arguments without a rule only if there is no other. `rules` are needed during the call only.
  static absl::StatusOr<ArgumentList> Read(const NamedText& file,
                                           absl::Span<const ArgumentRule> rules);
  // The same for words that are split already, without a limit of bytes. Errors name `file_name`.
  static absl::StatusOr<ArgumentList> FromWords(absl::string_view file_name,
                                                absl::Span<const std::string> words,
                                                absl::Span<const ArgumentRule> rules);

  // Returns whether the argument was given; false for ignored ones. Here and below `name` has no
  // dashes.
  bool Has(absl::string_view name) const { return values_.count(std::string(name)) > 0; }
  // Return the value of an argument, or `fallback` if it is absent. `Text` returns several values
  // with a blank between them. REQUIRES for `Count`, unchecked: the argument is of kCount. REQUIRES
  // for `Text`, unchecked: it is of kText or kTexts.
  int Count(absl::string_view name, int fallback) const;
  std::string Text(absl::string_view name, absl::string_view fallback) const;
  // Names of the ignored arguments, with dashes, in the order of the alphabet, joined by commas;
  // may be empty.
  const std::string& ignored() const { return ignored_; }
  // The same of those that were given several times with different values.
  const std::string& replaced() const { return replaced_; }
  const std::string& file_name() const { return file_name_; }
  // Returns file and argument as errors name them: `FILE: --NAME`.
  std::string Field(absl::string_view name) const;
  // Returns INVALID_ARGUMENT (SPEC_INVALID) with file, argument and rule.
  absl::Status Fault(absl::string_view name, absl::string_view rule) const;

 private:
  std::string file_name_;
  std::map<std::string, std::string> values_;
  std::string ignored_;
  std::string replaced_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ARGUMENT_LIST_H_
