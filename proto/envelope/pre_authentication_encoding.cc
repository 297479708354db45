#include "proto/envelope/pre_authentication_encoding.h"

#include "absl/strings/str_cat.h"

namespace parplan {

std::string PreAuthenticationEncoding(absl::string_view payload_type, absl::string_view payload) {
  return absl::StrCat("DSSEv1 ", payload_type.size(), " ", payload_type, " ", payload.size(), " ",
                      payload);
}

}  // namespace parplan
