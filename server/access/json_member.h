// Members of JSON objects that strangers wrote: keys and tokens. web_key_set.cc and
// token_verifier.cc read them.

#ifndef PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_
#define PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_

#include <nlohmann/json.hpp>
#include <string>

namespace parplan {

// Returns a text of an object; empty if the object has no member of that name or it is no text, and
// if `object` is no object.
inline std::string TextMember(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_JSON_MEMBER_H_
