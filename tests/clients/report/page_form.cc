#include "tests/clients/report/page_form.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <regex>
#include <set>
#include <utility>
#include <vector>

namespace parplan {
namespace {

constexpr std::array<std::pair<const char*, char>, 5> kReferences = {
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}};

// Reads a page from front to end.
class FormReader {
 public:
  explicit FormReader(const std::string& page) : page_(page) {}

  std::string Fault() {
    CheckCharacters();
    const std::string doctype = "<!DOCTYPE html>";
    if (page_.rfind(doctype, 0) != 0) Fail("no doctype");
    at_ = doctype.size();
    while (fault_.empty() && at_ < page_.size()) {
      if (page_[at_] == '<') {
        ReadTag();
      } else {
        ReadCharacter();
      }
    }
    if (!open_.empty()) Fail("<" + open_.back() + "> is never closed");
    return fault_;
  }

 private:
  void Fail(const std::string& what) {
    if (fault_.empty()) fault_ = what + " at: " + page_.substr(at_, 60);
  }

  // A byte of text or of the value of an attribute.
  void ReadCharacter() {
    if (page_[at_] == '<') return Fail("a bare <");
    if (page_[at_] != '&') {
      ++at_;
      return;
    }
    for (const auto& [reference, character] : kReferences) {
      if (page_.compare(at_, std::string(reference).size(), reference) == 0) {
        at_ += std::string(reference).size();
        return;
      }
    }
    Fail("a bare &");
  }

  std::string ReadName() {
    const size_t begin = at_;
    while (at_ < page_.size() &&
           (std::isalnum(static_cast<unsigned char>(page_[at_])) != 0 || page_[at_] == '-')) {
      ++at_;
    }
    if (begin == at_) Fail("no name");
    return page_.substr(begin, at_ - begin);
  }

  bool Skip(const std::string& text) {
    if (page_.compare(at_, text.size(), text) != 0) return false;
    at_ += text.size();
    return true;
  }

  void ReadTag() {
    if (Skip("</")) {
      const std::string name = ReadName();
      if (open_.empty() || open_.back() != name) return Fail("</" + name + "> closes nothing");
      open_.pop_back();
      if (!Skip(">")) Fail("an end tag that does not end");
      return;
    }
    Skip("<");
    const std::string name = ReadName();
    std::set<std::string> attributes;
    while (fault_.empty() && Skip(" ")) {
      const std::string attribute = ReadName();
      if (!attributes.insert(attribute).second) return Fail(attribute + " occurs twice");
      if (!Skip("=\"")) return Fail("an attribute without quotes");
      while (fault_.empty() && at_ < page_.size() && page_[at_] != '"') ReadCharacter();
      if (!Skip("\"")) Fail("a value without end");
    }
    if (Skip("/>")) return;
    if (!Skip(">")) return Fail("a tag that does not end");
    open_.push_back(name);
  }

  void CheckCharacters() {
    size_t following = 0;  // bytes of a character that must still come
    for (at_ = 0; at_ < page_.size() && fault_.empty(); ++at_) {
      const auto byte = static_cast<unsigned char>(page_[at_]);
      const bool continues = (byte & 0xC0) == 0x80;
      if (continues != (following > 0)) Fail("no UTF-8");
      if ((byte < 0x20 && byte != '\n') || byte == 0x7F) Fail("a control character");
      if (continues) {
        --following;
      } else if (byte >= 0x80) {
        following = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      }
    }
    if (following > 0) Fail("no UTF-8");
  }

  const std::string& page_;
  size_t at_ = 0;
  std::vector<std::string> open_;
  std::string fault_;
};

}  // namespace

std::string FaultOfForm(const std::string& page) { return FormReader(page).Fault(); }

std::string VisibleText(const std::string& page) {
  std::string text;
  bool in_tag = false;
  for (const char c : page) {
    if (c == '<') in_tag = true;
    if (!in_tag) text += c;
    if (c == '>') in_tag = false;
  }
  for (const auto& [reference, character] : kReferences) {
    // The ampersand last, or `&amp;lt;` would be resolved twice.
    if (character == '&') continue;
    text = std::regex_replace(text, std::regex(reference), std::string(1, character));
  }
  return std::regex_replace(text, std::regex("&amp;"), "&");
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace parplan
