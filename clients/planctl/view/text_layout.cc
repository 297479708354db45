#include "clients/planctl/view/text_layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace parplan::planctl {
namespace {

// Stands for a space at which no line is broken.
constexpr char kGlue[] = "\x01";

// `s`, `ms,`, `GB`, `%`.
bool IsUnit(absl::string_view word) {
  if (!word.empty() && absl::string_view(",;.").find(word.back()) != absl::string_view::npos) {
    word.remove_suffix(1);
  }
  for (absl::string_view unit : {"s", "ms", "µs", "ns", "h", "B", "kB", "MB", "GB", "TB", "%"}) {
    if (word == unit) return true;
  }
  return false;
}

}  // namespace

int ColumnCount(absl::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string PaddedLeft(const std::string& text, int columns) {
  const int missing = columns - ColumnCount(text);
  return missing > 0 ? absl::StrCat(std::string(static_cast<size_t>(missing), ' '), text) : text;
}

std::string Wrap(absl::string_view text, int indent) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!words.empty() && absl::ascii_isdigit(static_cast<unsigned char>(words.back().back())) &&
        IsUnit(word)) {
      absl::StrAppend(&words.back(), " ", word);
    } else {
      words.emplace_back(word);
    }
  }
  std::string result;
  int column = indent;
  for (const std::string& word : words) {
    const int width = ColumnCount(word);
    if (result.empty()) {
      column += width;
    } else if (column + 1 + width <= kTextWidth) {
      result += ' ';
      column += 1 + width;
    } else {
      absl::StrAppend(&result, "\n", std::string(static_cast<size_t>(indent), ' '));
      column = indent + width;
    }
    absl::StrAppend(&result, word);
  }
  return result;
}

std::string FoldGist(absl::string_view gist) {
  const std::vector<std::string> stages = absl::StrSplit(gist, " | ");
  std::vector<std::string> folded;
  for (size_t first = 0; first < stages.size();) {
    size_t next = first;
    while (next < stages.size() && stages[next] == stages[first]) ++next;
    folded.push_back(next - first == 1
                         ? stages[first]
                         : absl::StrCat(stages[first], " (", next - first, " stages)"));
    first = next;
  }
  return absl::StrJoin(folded, " | ");
}

std::string WrapGist(absl::string_view gist, int indent) {
  const std::string glued =
      absl::StrReplaceAll(FoldGist(gist), {{" x", absl::StrCat(kGlue, "x")},
                                           {" (", absl::StrCat(kGlue, "(")},
                                           {" stages", absl::StrCat(kGlue, "stages")},
                                           {" |", absl::StrCat(kGlue, "|")}});
  return absl::StrReplaceAll(Wrap(glued, indent), {{kGlue, " "}});
}

std::vector<std::string> JoinSubjects(const std::vector<std::string>& sentences) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const std::string& sentence : sentences) {
    const size_t colon = sentence.find(": ");
    const std::string rest = colon == std::string::npos ? "" : sentence.substr(colon + 2);
    const std::string subject = sentence.substr(0, colon);
    const auto same = std::find_if(groups.begin(), groups.end(), [&rest](const auto& group) {
      return !rest.empty() && group.first == rest;
    });
    if (same == groups.end()) {
      groups.push_back({rest, {subject}});
    } else {
      same->second.push_back(subject);
    }
  }
  std::vector<std::string> joined;
  for (auto& [rest, subjects] : groups) {
    // `layer `a`, layer `b`` reads better with the noun once.
    for (size_t i = 1; i < subjects.size(); ++i) {
      if (subjects[i].rfind("layer `", 0) == 0) subjects[i] = subjects[i].substr(6);
    }
    if (subjects.size() > 1 && subjects[0].rfind("layer `", 0) == 0) {
      subjects[0].insert(5, "s");
    }
    joined.push_back(absl::StrCat(absl::StrJoin(subjects, ", "), rest.empty() ? "" : ": ", rest));
  }
  return joined;
}

}  // namespace parplan::planctl
