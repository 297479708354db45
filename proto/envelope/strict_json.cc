#include "proto/envelope/strict_json.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

constexpr size_t kMaxDepth = 8;

// Walks the text once without building anything and stops at the first problem.
class StructureCheck : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    problem_ = absl::StrCat("has the member `", name, "` twice in one object; keep one");
    return false;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    problem_ = absl::StrCat("is no JSON from byte ", position, " on");
    return false;
  }

 private:
  bool Enter() {
    if (open_.size() == kMaxDepth) {
      problem_ = absl::StrCat("nests deeper than ", kMaxDepth, " levels");
      return false;
    }
    open_.emplace_back();
    return true;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  // Names seen so far in each open object; empty for arrays.
  std::vector<std::set<std::string>> open_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, absl::string_view document,
                                               size_t max_bytes, Reason reason) {
  if (text.size() > max_bytes) {
    return FieldError(reason, document,
                      absl::StrCat("has ", text.size(), " bytes; at most ", max_bytes,
                                   " are read, so this is some other file"));
  }
  const char* const begin = text.data();
  const char* const end = text.data() + text.size();
  StructureCheck check;
  if (!nlohmann::json::sax_parse(begin, end, &check)) {
    return FieldError(reason, document, check.problem());
  }
  return nlohmann::json::parse(begin, end, nullptr, /*allow_exceptions=*/false);
}

absl::Status CheckMembers(const nlohmann::json& value, absl::string_view field,
                          std::initializer_list<absl::string_view> known, Reason reason) {
  if (!value.is_object()) return FieldError(reason, field, "must be a JSON object");
  for (const auto& [name, member] : value.items()) {
    if (std::find(known.begin(), known.end(), absl::string_view(name)) == known.end()) {
      return FieldError(reason, absl::StrCat(field, ".", name),
                        "is not known here; remove it or correct its name");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> GetString(const nlohmann::json& value, absl::string_view field,
                                      const char* member, Reason reason) {
  const auto found = value.find(member);
  if (found == value.end() || !found->is_string()) {
    return FieldError(reason, absl::StrCat(field, ".", member), "is required, as a string");
  }
  return found->get<std::string>();
}

}  // namespace parplan
