// Words of TOML files and of Python source, which share comments, texts, numbers and brackets. The
// readers of literal_settings.h parse them.

#ifndef PARPLAN_CLIENTS_IMPORT_LITERAL_TOKENS_H_
#define PARPLAN_CLIENTS_IMPORT_LITERAL_TOKENS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"

namespace parplan {

// The kinds of words.
enum class LiteralTokenKind {
  kName,     // letters, digits and underscores; in TOML also dashes
  kNumber,   // digits and what may follow them in numbers; not yet checked; its sign is a mark
  kText,     // without its quotation marks; \n, \t, \\, \" and \' replaced, a backslash at the end
             // of a line left out with that end, others kept; between ' and ' in TOML all are kept
  kNoText,   // a text with a prefix, whose value is another (f"...", b"...")
  kMark,     // one byte of any other kind
  kLineEnd,  // of a line outside brackets
  kFileEnd,
};

// A word, with its place in the file.
struct LiteralToken {
  LiteralTokenKind kind = LiteralTokenKind::kFileEnd;
  // The characters of the word.
  std::string text;
  // Place in the file: line from 1, column from 0 in bytes (a tab is one).
  int line = 1;
  int column = 0;

  // Return whether the word is this mark, and whether it is this name.
  bool Is(char mark) const { return kind == LiteralTokenKind::kMark && text[0] == mark; }
  bool IsName(const char* name) const { return kind == LiteralTokenKind::kName && text == name; }
};

// The language of a text, on which words and values depend.
enum class LiteralLanguage { kToml, kPython };

// Returns the words of `file`, kFileEnd last. Ends of lines inside brackets, empty lines and
// comments are left out. INVALID_ARGUMENT (SPEC_INVALID) with file and line for an open text, for
// brackets that do not match or nest deeper than 32; without a line for more than kMaxImportBytes.
// O(bytes).
absl::StatusOr<std::vector<LiteralToken>> ReadLiteralTokens(const NamedText& file,
                                                            LiteralLanguage language);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_LITERAL_TOKENS_H_
