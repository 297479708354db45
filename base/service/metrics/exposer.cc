#include "base/service/metrics/exposer.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {
namespace {

// A thread serves one connection at a time, also one whose client says nothing until the time is
// over. So a scrape waits for connections that were opened before it only if there are as many as
// threads, and then for a second.
constexpr char kThreadCount[] = "32";
constexpr char kRequestTimeoutMs[] = "1000";

std::vector<std::string> OptionsOf(const std::string& address) {
  return {"listening_ports",    address,          "num_threads", kThreadCount,
          "request_timeout_ms", kRequestTimeoutMs};
}

}  // namespace

struct MetricsExposer::Server {
  Server(const std::string& address,
         std::vector<std::shared_ptr<prometheus::Collectable>> collected)
      : sources(std::move(collected)), exposer(OptionsOf(address)) {
    // The exposer keeps weak pointers only.
    for (const std::shared_ptr<prometheus::Collectable>& source : sources) {
      if (source != nullptr) exposer.RegisterCollectable(source);
    }
  }

  const std::vector<std::shared_ptr<prometheus::Collectable>> sources;
  prometheus::Exposer exposer;
};

MetricsExposer::MetricsExposer(std::unique_ptr<Server> server) : server_(std::move(server)) {}

MetricsExposer::~MetricsExposer() = default;

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return FieldError(
        Reason::kSpecInvalid, "metrics address",
        absl::StrCat("must be host:port, such as 127.0.0.1:9464; it is `", address, "`"));
  }
  // The HTTP library throws an exception if it cannot bind the port.
  try {
    return std::unique_ptr<MetricsExposer>(
        new MetricsExposer(std::make_unique<Server>(address, std::move(sources))));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, " (", error.what(),
                     "); give another address with --metrics-listen, or stop what uses the port"));
  }
}

int MetricsExposer::port() const {
  const std::vector<int> ports = server_->exposer.GetListeningPorts();
  return ports.empty() ? 0 : ports.front();
}

}  // namespace parplan
