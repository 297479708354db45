#include "clients/import/shell_text.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

// The longest `((...))` that is read as one; scripts of people have lines.
constexpr size_t kMaxArithmeticBytes = 4096;
// The longest `$(...)` whose quotations are looked for; those of people have lines.
constexpr size_t kMaxInnerBytes = 16384;

bool IsNameLetter(char letter) { return absl::ascii_isalnum(letter) || letter == '_'; }

// Splits one text. Recursion is as deep as arrays, which do not nest.
class ShellSplitter {
 public:
  explicit ShellSplitter(absl::string_view text) : text_(text) {}

  std::optional<std::vector<ShellCommand>> Split() {
    while (place_ < text_.size() && !is_open_) Step();
    EndCommand();
    if (is_open_) return std::nullopt;
    return std::move(commands_);
  }

 private:
  char Next(size_t ahead = 1) const {
    return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0';
  }

  void Step() {
    const char letter = text_[place_];
    if (letter == '\n') {
      EndCommand();
      ++place_;
      SkipHereDocuments();
    } else if (absl::ascii_isspace(letter)) {
      EndWord();
      ++place_;
    } else if (!has_word_ && FollowsMatchSign()) {
      ReadRegularExpression();
    } else if (letter == '#' && !has_word_) {
      while (place_ < text_.size() && text_[place_] != '\n') ++place_;
    } else if (letter == '(' && IsAssignment()) {
      // Arrays do not nest.
      if (is_array_) return Open();
      ++place_;
      ReadArray();
    } else if ((letter == '&' || letter == '|') && Next() == letter) {
      EndCommand();
      command_.joint = letter == '&' ? ShellJoint::kAnd : ShellJoint::kOr;
      place_ += 2;
    } else if (letter == ';' && (Next() == ';' || Next() == '&') && !is_array_) {
      // The end of an arm of `case`.
      EndCommand();
      const bool goes_on = Next() == ';' && Next(2) == '&';
      AddSign(goes_on ? ";;&" : Next() == ';' ? ";;" : ";&");
      place_ += goes_on ? 3 : 2;
    } else if (letter == '(' && Next() == '(' && !has_word_ && ReadArithmetic()) {
      // `((...))` is two words of the command that it begins or stands in.
    } else if ((letter == '(' || letter == ')') && !is_array_) {
      EndCommand();
      AddSign(text_.substr(place_, 1));
      ++place_;
    } else if (letter == '|' || (letter == '&' && Next() != '>')) {
      EndCommand();
      if (!commands_.empty()) commands_.back().precedes_pipe = true;
      command_.follows_pipe = letter == '|';
      ++place_;
    } else if (letter == ';' || letter == '(' || letter == ')') {
      EndCommand();
      ++place_;
    } else if (letter == '<' || letter == '>' || letter == '&') {
      SkipRedirection();
    } else {
      ReadLetter();
    }
  }

  // Returns whether the word before is `=~`.
  bool FollowsMatchSign() const {
    if (command_.words.empty()) return false;
    const std::vector<ShellPiece>& pieces = command_.words.back().pieces;
    return pieces.size() == 1 && !pieces[0].is_variable && !pieces[0].is_quoted &&
           pieces[0].text == "=~";
  }

  // Reads the word behind `=~`, in which parentheses and bars are letters.
  void ReadRegularExpression() {
    int depth = 0;
    has_word_ = true;
    while (place_ < text_.size() && !is_open_) {
      const char letter = text_[place_];
      const bool is_end = absl::ascii_isspace(letter) || letter == ';' || letter == '&';
      if (letter == '\n' || (depth == 0 && (is_end || letter == ')'))) break;
      if (letter == '(') ++depth;
      if (letter == ')') --depth;
      ReadLetter();
    }
    EndWord();
  }

  // Reads one letter, quotation or expansion into the word.
  void ReadLetter() {
    const char letter = text_[place_];
    has_word_ = true;
    if (letter == '\'') {
      const size_t end = text_.find('\'', place_ + 1);
      if (end == absl::string_view::npos) return Open();
      AddText(text_.substr(place_ + 1, end - place_ - 1), true);
      place_ = end + 1;
    } else if (letter == '"') {
      AddText("", true);
      for (++place_; place_ < text_.size() && text_[place_] != '"';) ReadQuoted();
      if (place_ >= text_.size()) return Open();
      ++place_;
    } else if (letter == '\\') {
      // A backslash joins a line with the next one.
      if (Next() == '\n') {
        if (word_.pieces.empty()) has_word_ = false;
      } else {
        AddText(text_.substr(place_ + 1, 1), true);
      }
      place_ += 2;
    } else if (letter == '$' || letter == '`') {
      ReadExpansion(false);
    } else {
      AddText(text_.substr(place_, 1), false);
      ++place_;
    }
  }

  void ReadQuoted() {
    const char letter = text_[place_];
    if (letter == '$' || letter == '`') return ReadExpansion(true);
    if (letter == '\\' && Next() == '\n') {
      place_ += 2;
      return;
    }
    if (letter == '\\' && Next() != '\0' && absl::StrContains("$`\"\\", Next())) {
      ++place_;
    }
    AddText(text_.substr(place_, 1), true);
    ++place_;
  }

  // Returns the place of the sign that closes the one at `begin`; the size of the text if none
  // does.
  size_t EndOfPair(size_t begin, char open, char close) const {
    int depth = 0;
    size_t end = begin;
    for (; end < text_.size(); ++end) {
      if (text_[end] == open) ++depth;
      if (text_[end] == close && --depth == 0) break;
    }
    return end;
  }

  // Returns the same of the parenthesis at `begin`. Those in quotations count only if the others do
  // not close it, as where a comment or a here-document has an apostrophe.
  size_t EndOfParentheses(size_t begin) const {
    int depth = 0;
    for (size_t end = begin; end < text_.size() && end - begin < kMaxInnerBytes; ++end) {
      const char letter = text_[end];
      if (letter == '\\') {
        ++end;
      } else if (letter == '\'' || letter == '"') {
        const size_t begin_of_quotation = end;
        for (++end; end < text_.size() && text_[end] != letter; ++end) {
          if (letter == '"' && text_[end] == '\\') ++end;
        }
        // Quotations in an expansion within a quotation are not followed.
        const absl::string_view inner = text_.substr(begin_of_quotation, end - begin_of_quotation);
        if (letter == '"' && absl::StrContains(inner, "$(")) return EndOfPair(begin, '(', ')');
      } else if (letter == '(') {
        ++depth;
      } else if (letter == ')' && --depth == 0) {
        return end;
      }
    }
    return EndOfPair(begin, '(', ')');
  }

  // Reads `$NAME`, `${...}`, `$(...)`, `$((...))` or `...`; a `$` before anything else is text.
  void ReadExpansion(bool is_quoted) {
    if (text_[place_] == '`') {
      const size_t end = text_.find('`', place_ + 1);
      if (end == absl::string_view::npos) return Open();
      AddVariable("(`)", is_quoted);
      place_ = end + 1;
      return;
    }
    const char next = Next();
    if (next == '{' || next == '(') {
      const size_t end =
          next == '(' ? EndOfParentheses(place_ + 1) : EndOfPair(place_ + 1, '{', '}');
      if (end >= text_.size()) return Open();
      const absl::string_view inner = text_.substr(place_ + 2, end - place_ - 2);
      AddVariable(next == '{' ? std::string(inner) : absl::StrCat("(", inner, ")"), is_quoted);
      place_ = end + 1;
      return;
    }
    size_t end = place_ + 1;
    if (IsNameLetter(next) && !absl::ascii_isdigit(next)) {
      while (end < text_.size() && IsNameLetter(text_[end])) ++end;
    } else if (next != '\0' && (absl::ascii_isdigit(next) || absl::StrContains("@*#?!$-", next))) {
      ++end;
    } else {
      AddText("$", is_quoted);
      ++place_;
      return;
    }
    AddVariable(std::string(text_.substr(place_ + 1, end - place_ - 1)), is_quoted);
    place_ = end;
  }

  // Returns whether the word so far is `NAME=` or `NAME+=`.
  bool IsAssignment() const {
    return word_.pieces.size() == 1 && !word_.pieces[0].is_variable && !word_.pieces[0].is_quoted &&
           absl::EndsWith(word_.pieces[0].text, "=");
  }

  // Reads the elements of an array up to its parenthesis into the word.
  void ReadArray() {
    ShellSplitter inner(text_);
    inner.place_ = place_;
    inner.is_array_ = true;
    std::vector<ShellWord> elements;
    while (inner.place_ < text_.size() && !inner.is_open_ && text_[inner.place_] != ')') {
      inner.Step();
    }
    if (inner.is_open_ || inner.place_ >= text_.size()) return Open();
    inner.EndCommand();
    for (ShellCommand& command : inner.commands_) {
      for (ShellWord& word : command.words) elements.push_back(std::move(word));
    }
    word_.elements = std::move(elements);
    place_ = inner.place_ + 1;
    EndWord();
  }

  // Reads `((...))` as the words `((` and an expansion; returns false, and reads nothing, if these
  // are two subshells.
  bool ReadArithmetic() {
    if (is_array_) return false;
    const absl::string_view rest = text_.substr(place_, kMaxArithmeticBytes);
    int depth = 0;
    size_t end = 0;
    for (; end < rest.size(); ++end) {
      if (rest[end] == '(') ++depth;
      if (rest[end] == ')' && --depth == 0) break;
    }
    if (end >= rest.size() || rest[end - 1] != ')') return false;
    has_word_ = true;
    AddText("((", false);
    EndWord();
    has_word_ = true;
    AddVariable(std::string(rest.substr(0, end + 1)), false);
    EndWord();
    place_ += end + 1;
    return true;
  }

  // Adds a command of one sign.
  void AddSign(absl::string_view sign) {
    has_word_ = true;
    AddText(sign, false);
    EndCommand();
  }

  // Reads `<(...)` or `>(...)`, which becomes the name of a file, into the word.
  void ReadProcess() {
    const size_t end = EndOfParentheses(place_ + 1);
    if (end >= text_.size()) return Open();
    has_word_ = true;
    AddVariable(std::string(text_.substr(place_ + 1, end - place_)), false);
    place_ = end + 1;
  }

  void SkipRedirection() {
    if (text_[place_] != '&' && Next() == '(') return ReadProcess();
    // A number in front is the descriptor.
    if (word_.pieces.size() == 1 && !word_.pieces[0].is_quoted &&
        std::all_of(word_.pieces[0].text.begin(), word_.pieces[0].text.end(),
                    absl::ascii_isdigit)) {
      word_ = ShellWord();
      has_word_ = false;
    }
    EndWord();
    const bool is_here = text_[place_] == '<' && Next() == '<' && Next(2) != '<';
    const bool strips_tabs = is_here && Next(2) == '-';
    while (place_ < text_.size() && absl::StrContains("<>&-", text_[place_]) && Next() != '(') {
      ++place_;
    }
    while (place_ < text_.size() && (text_[place_] == ' ' || text_[place_] == '\t')) ++place_;
    std::vector<ShellWord>& words = command_.words;
    const size_t count = words.size();
    if (absl::StrContains("<>", text_[std::min(place_, text_.size() - 1)]) && Next() == '(') {
      ReadProcess();
    }
    while (place_ < text_.size() && !is_open_ && !absl::ascii_isspace(text_[place_]) &&
           !absl::StrContains(";|)<>&", text_[place_])) {
      ReadLetter();
    }
    EndWord();
    if (words.size() == count) return;
    if (is_here) {
      std::string delimiter;
      for (const ShellPiece& piece : words.back().pieces) delimiter += piece.text;
      here_documents_.push_back({std::move(delimiter), strips_tabs});
    }
    words.resize(count);
  }

  void SkipHereDocuments() {
    for (const auto& [delimiter, strips_tabs] : here_documents_) {
      while (place_ < text_.size()) {
        const size_t end = std::min(text_.find('\n', place_), text_.size());
        absl::string_view line = text_.substr(place_, end - place_);
        while (strips_tabs && absl::ConsumePrefix(&line, "\t")) {
        }
        // A file of another system ends its lines with it.
        absl::ConsumeSuffix(&line, "\r");
        place_ = std::min(end + 1, text_.size());
        if (line == delimiter) break;
      }
    }
    here_documents_.clear();
  }

  void AddText(absl::string_view text, bool is_quoted) {
    if (word_.pieces.empty() || word_.pieces.back().is_variable ||
        word_.pieces.back().is_quoted != is_quoted) {
      word_.pieces.push_back({"", false, is_quoted});
    }
    absl::StrAppend(&word_.pieces.back().text, text);
  }
  void AddVariable(std::string text, bool is_quoted) {
    word_.pieces.push_back({std::move(text), true, is_quoted});
  }
  void EndWord() {
    if (has_word_) command_.words.push_back(std::move(word_));
    word_ = ShellWord();
    has_word_ = false;
  }
  void EndCommand() {
    EndWord();
    // A line may end behind `&&` or `||`.
    if (command_.words.empty()) return;
    commands_.push_back(std::move(command_));
    command_ = ShellCommand();
  }
  void Open() {
    is_open_ = true;
    place_ = text_.size();
  }

  absl::string_view text_;
  size_t place_ = 0;
  bool is_open_ = false;
  // Whether the text is read as elements of an array.
  bool is_array_ = false;
  bool has_word_ = false;
  ShellWord word_;
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
  // The words that end the here-documents of this line, and whether tabs may stand before them.
  std::vector<std::pair<std::string, bool>> here_documents_;
};

}  // namespace

std::optional<std::vector<ShellCommand>> SplitShellText(absl::string_view text) {
  return ShellSplitter(text).Split();
}

}  // namespace parplan
