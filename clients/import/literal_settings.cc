#include "clients/import/literal_settings.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/import/literal_reader.h"
#include "clients/import/literal_tokens.h"
#include "clients/import/python_statements.h"

namespace parplan {
namespace {

absl::Status LineFault(const NamedText& file, int line, absl::string_view rule) {
  return ImportError(Reason::kSpecInvalid, file.name, absl::StrCat("line ", line), rule);
}

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
  PythonStatements reader(tokens, function);
  if (!reader.Read()) {
    return ImportError(Reason::kSpecInvalid, file.name, "",
                       absl::StrCat("has no function `", function, "`"));
  }
  if (!reader.unfinished_function().empty()) {
    return ImportError(Reason::kSpecInvalid, file.name, reader.unfinished_function(),
                       "has to return a configuration and has no return; give the whole file");
  }
  return reader.TakeSettings();
}

}  // namespace parplan
