// Members of JSON objects that strangers wrote: keys and tokens. web_key_set.cc and
// token_verifier.cc read them.

#ifndef PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_
#define PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "base/json/json_text.h"

namespace parplan {

// Returns a text of an object; empty if the object has no member of that name or it is no text, and
// if `object` is no object.
inline std::string TextMember(const JsonValue& object, absl::string_view name) {
  const JsonValue* const member = object.Find(name);
  return member != nullptr && member->type == JsonValue::Type::kString ? member->text
                                                                       : std::string();
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_
