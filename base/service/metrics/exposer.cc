#include "base/service/metrics/exposer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/system/posix_file.h"
#include "base/system/start_thread.h"

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

// Connects to a port of this machine and closes the connection. Does nothing if that is not
// possible.
void Touch(const std::string& host, int port) {
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  const bool is_v6 = inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1;
  // The address of all interfaces is that of this machine here, and that of a name is not looked
  // up.
  if (!is_v6 && inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) {
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  const FileDescriptor descriptor(
      socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!descriptor.is_open()) return;
  if (is_v6) {
    (void)connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  } else {
    (void)connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  }
}

// How often the thread that accepts is woken while it is to end. The first time may come before it
// was asked to.
constexpr std::chrono::milliseconds kWakeInterval(10);

}  // namespace

struct MetricsExposer::Server {
  Server(const std::string& address,
         std::vector<std::shared_ptr<prometheus::Collectable>> collected)
      : sources(std::move(collected)),
        host(absl::StripPrefix(absl::StripSuffix(address.substr(0, address.rfind(':')), "]"), "[")),
        exposer(std::in_place, OptionsOf(address)) {
    // The exposer keeps weak pointers only.
    for (const std::shared_ptr<prometheus::Collectable>& source : sources) {
      if (source != nullptr) exposer->RegisterCollectable(source);
    }
  }

  // The thread that accepts sees that it is to end when its wait for a connection does, which may
  // last 2 s, unless a connection comes. So some come while it ends.
  ~Server() {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_ended = false;
    std::thread waker = StartThread([&, port = port()] {
      std::unique_lock<std::mutex> lock(mutex);
      while (!changed.wait_for(lock, kWakeInterval, [&has_ended] { return has_ended; })) {
        Touch(host, port);
      }
    });
    exposer.reset();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      has_ended = true;
    }
    changed.notify_all();
    if (waker.joinable()) waker.join();
  }

  int port() const {
    const std::vector<int> ports = exposer->GetListeningPorts();
    return ports.empty() ? 0 : ports.front();
  }

  const std::vector<std::shared_ptr<prometheus::Collectable>> sources;
  const std::string host;
  std::optional<prometheus::Exposer> exposer;  // Empty at the end alone.
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

int MetricsExposer::port() const { return server_->port(); }

}  // namespace parplan
