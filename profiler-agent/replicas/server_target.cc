#include "profiler-agent/replicas/server_target.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

constexpr int kHttpsPort = 443;

struct HostPort {
  std::string host;  // Name or address, without brackets.
  int port = kHttpsPort;
};

std::optional<HostPort> ReadHostPort(absl::string_view text) {
  HostPort result;
  std::string port;
  if (absl::ConsumePrefix(&text, "[")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(']', 1));
    result.host = parts.first;
    absl::string_view rest = parts.second;
    if (!rest.empty() && !absl::ConsumePrefix(&rest, ":")) return std::nullopt;
    port = std::string(rest);
  } else {
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    // More than one colon means an IPv6 address without a port.
    result.host = parts.size() == 2 ? parts[0] : std::string(text);
    if (parts.size() == 2) port = parts[1];
  }
  if (!port.empty() && !absl::SimpleAtoi(port, &result.port)) return std::nullopt;
  if (result.host.empty() || result.port < 0 || result.port > 65535) return std::nullopt;
  return result;
}

ServerTarget ReadAddresses(absl::string_view list) {
  ServerTarget target;
  absl::ConsumePrefix(&list, "///");
  for (const absl::string_view entry : absl::StrSplit(list, ',')) {
    const std::optional<HostPort> parts = ReadHostPort(entry);
    const std::string text = parts.has_value() ? AddressText(parts->host, parts->port) : "";
    if (text.empty()) return {};
    target.addresses.push_back(text);
  }
  target.kind = ServerTarget::Kind::kAddresses;
  return target;
}

ServerTarget ReadName(absl::string_view text) {
  ServerTarget target;
  if (absl::ConsumePrefix(&text, "//")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
    target = ReadName(parts.second);
    target.dns_server = parts.first;
    return target;
  }
  const std::optional<HostPort> parts = ReadHostPort(text);
  if (!parts.has_value()) return {};
  if (const std::string address = AddressText(parts->host, parts->port); !address.empty()) {
    target.kind = ServerTarget::Kind::kAddresses;
    target.addresses = {address};
    return target;
  }
  target.kind = ServerTarget::Kind::kName;
  target.name = parts->host;
  target.port = parts->port;
  return target;
}

}  // namespace

ServerTarget ReadServerTarget(absl::string_view target) {
  for (const absl::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (absl::string_view rest = target; absl::ConsumePrefix(&rest, scheme)) {
      return ReadAddresses(rest);
    }
  }
  for (const absl::string_view scheme :
       {"unix:", "unix-abstract:", "vsock:", "xds:", "google-c2p:", "binder:"}) {
    if (absl::string_view rest = target; absl::ConsumePrefix(&rest, scheme)) return {};
  }
  absl::ConsumePrefix(&target, "dns:");
  return ReadName(target);
}

std::string AddressText(const std::string& ip, int port) {
  char text[INET6_ADDRSTRLEN];
  in_addr v4;
  if (::inet_pton(AF_INET, ip.c_str(), &v4) == 1) {
    return absl::StrCat(::inet_ntop(AF_INET, &v4, text, sizeof(text)), ":", port);
  }
  in6_addr v6;
  if (::inet_pton(AF_INET6, ip.c_str(), &v6) == 1) {
    return absl::StrCat("[", ::inet_ntop(AF_INET6, &v6, text, sizeof(text)), "]:", port);
  }
  return "";
}

}  // namespace parplan
