#include "clients/import/yaml_text.h"

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr size_t kMaxYamlLevels = 32;

// Returns a line without its comment, which begins with `#` behind a blank outside of quotations.
absl::string_view WithoutComment(absl::string_view line) {
  char quote = '\0';
  for (size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (quote != '\0') {
      if (letter == quote) quote = '\0';
    } else if ((letter == '"' || letter == '\'') && (i == 0 || !absl::ascii_isalnum(line[i - 1]))) {
      quote = letter;
    } else if (letter == '#' && (i == 0 || absl::ascii_isspace(line[i - 1]))) {
      return line.substr(0, i);
    }
  }
  return line;
}

// Returns where the key of `key: value` or `key:` ends; nothing if there is none.
std::optional<size_t> EndOfKey(absl::string_view text) {
  if (text.empty() || absl::StrContains("[{\"'", text[0])) {
    if (text.empty() || text[0] == '[' || text[0] == '{') return std::nullopt;
    const size_t close = text.find(text[0], 1);
    if (close == absl::string_view::npos || close + 1 >= text.size() || text[close + 1] != ':') {
      return std::nullopt;
    }
    return close + 1;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return i;
  }
  return std::nullopt;
}

class YamlReader {
 public:
  explicit YamlReader(const NamedText& file) : file_(file) {}

  absl::StatusOr<std::vector<YamlScalar>> Read() {
    for (const absl::string_view line : absl::StrSplit(file_.text, '\n')) {
      ++line_number_;
      PARPLAN_RETURN_IF_ERROR(ReadLine(line));
    }
    PARPLAN_RETURN_IF_ERROR(EndOpenKey());
    return std::move(scalars_);
  }

 private:
  // A key or an item that has lines below it.
  struct Level {
    size_t indent = 0;
    std::string key;
    bool is_item = false;
    int item_count = 0;
    // The indentation of the keys below; absent before the first one.
    std::optional<size_t> child_indent;
  };

  absl::Status Fault(absl::string_view rule) const {
    return ImportError(Reason::kSpecInvalid, file_.name, absl::StrCat("line ", line_number_), rule);
  }

  absl::Status ReadLine(absl::string_view line) {
    line = absl::StripTrailingAsciiWhitespace(WithoutComment(line));
    if (line.empty()) return absl::OkStatus();
    if (line == "---" && scalars_.empty() && levels_.empty()) return absl::OkStatus();
    if (line == "---" || line == "...") return Fault("ends the document; only one is read");
    size_t indent = line.find_first_not_of(' ');
    if (line[indent] == '\t') return Fault("is indented by tabs");
    absl::string_view text = line.substr(indent);
    bool is_item = text == "-" || absl::StartsWith(text, "- ");
    // A line that is not deeper ends what is open; an item may stand as deep as its list's key.
    const bool is_below =
        has_open_key_ && (indent > levels_.back().indent ||
                          (is_item && indent == levels_.back().indent && !levels_.back().is_item));
    if (!is_below) PARPLAN_RETURN_IF_ERROR(EndOpenKey());
    has_open_key_ = false;
    while (!levels_.empty() && !is_below &&
           (levels_.back().indent > indent ||
            (levels_.back().indent == indent && (!is_item || levels_.back().is_item)))) {
      levels_.pop_back();
    }
    // A value may stand alone on the line behind its key.
    if (is_below && !is_item && !EndOfKey(text).has_value()) {
      const absl::Status status = AddScalar(text);
      levels_.pop_back();
      return status;
    }
    while (is_item) {
      if (levels_.empty()) return Fault("is a list, where a key `name:` must be");
      PARPLAN_RETURN_IF_ERROR(
          Push({indent, absl::StrCat("[", levels_.back().item_count++, "]"), true}));
      text = absl::StripLeadingAsciiWhitespace(text.substr(1));
      if (text.empty()) return Fault("is an empty item");
      indent = line.size() - text.size();
      is_item = absl::StartsWith(text, "- ");
      if (!is_item && !EndOfKey(text).has_value()) {
        const absl::Status status = AddScalar(text);
        levels_.pop_back();
        return status;
      }
    }
    return ReadKey(text, indent);
  }

  absl::Status ReadKey(absl::string_view text, size_t indent) {
    const std::optional<size_t> end = EndOfKey(text);
    if (!end.has_value()) return Fault("is neither `name: value` nor `- item`");
    std::string key(text.substr(0, *end));
    if (key.size() >= 2 && (key.front() == '"' || key.front() == '\'')) {
      key = key.substr(1, key.size() - 2);
    }
    if (key.empty()) return Fault("has an empty name");
    std::optional<size_t>& beside = levels_.empty() ? root_indent_ : levels_.back().child_indent;
    if (beside.value_or(indent) != indent) {
      return Fault("is indented unlike the keys beside it");
    }
    beside = indent;
    PARPLAN_RETURN_IF_ERROR(Push({indent, std::move(key), false}));
    if (!paths_.insert(absl::StrJoin(Path(), "\n")).second) {
      return Fault(absl::StrCat("gives `", levels_.back().key, "` twice"));
    }
    const absl::string_view value = absl::StripLeadingAsciiWhitespace(text.substr(*end + 1));
    if (value.empty()) {
      has_open_key_ = true;
      return absl::OkStatus();
    }
    const absl::Status status = AddScalar(value);
    levels_.pop_back();
    return status;
  }

  absl::Status Push(Level level) {
    if (levels_.size() >= kMaxYamlLevels) {
      return Fault(absl::StrCat("is more than ", kMaxYamlLevels, " levels deep"));
    }
    levels_.push_back(std::move(level));
    return absl::OkStatus();
  }

  std::vector<std::string> Path() const {
    std::vector<std::string> path;
    for (const Level& level : levels_) path.push_back(level.key);
    return path;
  }

  absl::Status AddScalar(absl::string_view text) {
    std::string value(text);
    const char first = text[0];
    if (first == '"' || first == '\'') {
      if (text.size() < 2 || text.back() != first) return Fault("ends inside a quotation");
      value = std::string(text.substr(1, text.size() - 2));
      if (absl::StrContains(value, first) || absl::StrContains(value, '\\')) {
        return Fault("has a quotation mark or a backslash inside of a quotation");
      }
    } else if (absl::StrContains("&*!|>%@`", first)) {
      return Fault("is an anchor, an alias, a tag or a text of several lines; write the value");
    } else if ((first == '[' || first == '{') && text.back() != (first == '[' ? ']' : '}')) {
      return Fault("opens a bracket that does not end on its line");
    }
    scalars_.push_back({Path(), std::move(value)});
    return absl::OkStatus();
  }

  // Adds the empty value of a key without lines below it.
  absl::Status EndOpenKey() {
    if (!has_open_key_) return absl::OkStatus();
    has_open_key_ = false;
    scalars_.push_back({Path(), ""});
    levels_.pop_back();
    return absl::OkStatus();
  }

  const NamedText& file_;
  int line_number_ = 0;
  std::vector<Level> levels_;
  std::optional<size_t> root_indent_;
  // Whether the last level is a key without a value so far.
  bool has_open_key_ = false;
  std::set<std::string> paths_;
  std::vector<YamlScalar> scalars_;
};

}  // namespace

absl::StatusOr<std::vector<YamlScalar>> ReadYamlScalars(const NamedText& file) {
  if (file.text.size() > kMaxImportBytes) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("must not exceed ", kMaxImportBytes, " bytes"));
  }
  return YamlReader(file).Read();
}

}  // namespace parplan
