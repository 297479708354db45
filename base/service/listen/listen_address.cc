#include "base/service/listen/listen_address.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"

namespace parplan {
namespace {

constexpr int kMaxPort = 65535;

// Returns the part before the last colon, without the brackets of IPv6.
absl::string_view HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// Returns whether `host` is four decimal numbers of which the first is 127.
bool IsLoopbackIpv4(absl::string_view host) {
  int count = 0;
  for (const absl::string_view part : absl::StrSplit(host, '.')) {
    int number = 0;
    if (part.size() > 3 || !absl::SimpleAtoi(part, &number) || number < 0 || number > 255) {
      return false;
    }
    if (count == 0 && number != 127) return false;
    ++count;
  }
  return count == 4;
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view address, absl::string_view field) {
  if (absl::StartsWith(address, kUnixAddressPrefix)) {
    if (address.size() > kUnixAddressPrefix.size()) return absl::OkStatus();
  } else {
    const size_t colon = address.rfind(':');
    int port = 0;
    const bool has_port = colon != absl::string_view::npos && colon > 0 &&
                          absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 &&
                          port <= kMaxPort;
    const absl::string_view host = has_port ? address.substr(0, colon) : "";
    const bool has_brackets = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
    // Only addresses of IPv6 have brackets, and each of them has a colon.
    const bool is_host = has_brackets ? absl::StrContains(host, ":")
                                      : host.find_first_of(":[]") == absl::string_view::npos;
    if (has_port && is_host) return absl::OkStatus();
  }
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("`", address,
                                 "` is no address to listen on; write HOST:PORT such as "
                                 "127.0.0.1:9477, [::1]:9477, or unix:PATH"));
}

bool IsLocalAddress(absl::string_view address) {
  if (absl::StartsWith(address, kUnixAddressPrefix)) return true;
  const absl::string_view host = HostOf(address);
  return host == "::1" || absl::EqualsIgnoreCase(host, "localhost") || IsLoopbackIpv4(host);
}

}  // namespace parplan
