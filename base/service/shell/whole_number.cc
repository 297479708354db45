#include "base/service/shell/whole_number.h"

#include <cerrno>
#include <cstdlib>

namespace parplan::shell {

std::string CheckSigned(const std::string& text) {
  errno = 0;
  (void)std::strtoll(text.c_str(), nullptr, 0);
  return errno == ERANGE ? "must be from -9223372036854775808 to 9223372036854775807" : "";
}

std::string CheckUnsigned(const std::string& text) {
  errno = 0;
  (void)std::strtoull(text.c_str(), nullptr, 0);
  const bool is_negative = text.find('-') != std::string::npos;
  return errno == ERANGE || is_negative ? "must be from 0 to 18446744073709551615" : "";
}

}  // namespace parplan::shell
