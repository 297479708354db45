#include "profiler-agent/replicas/resolve_name.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

constexpr absl::Duration kResolvePatience = absl::Seconds(10);
// Time for one query to one name server; the second attempt waits twice as long.
constexpr int kTryMs = 2000;
constexpr int kTryCount = 2;
// Interval at which a wait checks whether it is stopped.
constexpr int kSliceUs = 100000;

// The result of the query for one address family.
struct Answer {
  bool is_done = false;
  int status = ARES_SUCCESS;
  std::vector<std::string> addresses;
};

void Take(void* argument, int status, int /*timeouts*/, ares_addrinfo* found) {
  Answer& answer = *static_cast<Answer*>(argument);
  answer.is_done = true;
  answer.status = status;
  if (found == nullptr) return;
  for (const ares_addrinfo_node* node = found->nodes; node != nullptr; node = node->ai_next) {
    char text[INET6_ADDRSTRLEN];
    if (node->ai_family == AF_INET) {
      const auto& address = *reinterpret_cast<const sockaddr_in*>(node->ai_addr);
      ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
      answer.addresses.push_back(AddressText(text, ntohs(address.sin_port)));
    } else if (node->ai_family == AF_INET6) {
      const auto& address = *reinterpret_cast<const sockaddr_in6*>(node->ai_addr);
      ::inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
      answer.addresses.push_back(AddressText(text, ntohs(address.sin6_port)));
    }
  }
  ares_freeaddrinfo(found);
}

// Handles the sockets of the resolver for one slice of time.
void Work(ares_channel channel) {
  ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
  const int bits = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
  std::vector<pollfd> waits;
  for (int i = 0; i < ARES_GETSOCK_MAXNUM; ++i) {
    int events = 0;
    if (ARES_GETSOCK_READABLE(bits, i)) events |= POLLIN;
    if (ARES_GETSOCK_WRITABLE(bits, i)) events |= POLLOUT;
    if (events != 0) waits.push_back({sockets[i], static_cast<short>(events), 0});
  }
  timeval slice = {0, kSliceUs};
  timeval next = {};
  const timeval* const wait = ares_timeout(channel, &slice, &next);
  const auto ms = static_cast<int>(wait->tv_sec * 1000 + (wait->tv_usec + 999) / 1000);
  ::poll(waits.data(), waits.size(), ms);
  for (const pollfd& ready : waits) {
    const bool can_read = (ready.revents & (POLLIN | POLLERR | POLLHUP)) != 0;
    const bool can_write = (ready.revents & (POLLOUT | POLLERR)) != 0;
    ares_process_fd(channel, can_read ? ready.fd : ARES_SOCKET_BAD,
                    can_write ? ready.fd : ARES_SOCKET_BAD);
  }
  // Handles expired queries.
  ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

absl::Status Failure(const ServerTarget& target, int status) {
  return absl::UnavailableError(absl::StrCat(
      "cannot find the addresses of ", target.name, ": ", ares_strerror(status),
      "; check the name and ",
      target.dns_server.empty() ? "the name servers of this machine" : target.dns_server));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ResolveName(const ServerTarget& target,
                                                     const std::atomic<bool>& is_stopped) {
  // RFC 6761 fixes the answer, and c-ares 1.18 leaks memory when asked.
  if (target.name == "localhost") {
    return std::vector<std::string>{AddressText("127.0.0.1", target.port),
                                    AddressText("::1", target.port)};
  }
  static std::once_flag once;
  std::call_once(once, [] { ares_library_init(ARES_LIB_INIT_ALL); });
  ares_options options = {};
  options.timeout = kTryMs;
  options.tries = kTryCount;
  ares_channel channel = nullptr;
  int status = ares_init_options(&channel, &options, ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);
  if (status != ARES_SUCCESS) return Failure(target, status);
  if (!target.dns_server.empty()) {
    status = ares_set_servers_ports_csv(channel, target.dns_server.c_str());
  }
  // One query for each family: a name server that fails for one may answer for the other.
  Answer answers[2];
  if (status == ARES_SUCCESS) {
    const std::string port = absl::StrCat(target.port);
    ares_addrinfo_hints hints = {};
    hints.ai_flags = ARES_AI_NOSORT | ARES_AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_family = AF_INET;
    ares_getaddrinfo(channel, target.name.c_str(), port.c_str(), &hints, &Take, &answers[0]);
    hints.ai_family = AF_INET6;
    ares_getaddrinfo(channel, target.name.c_str(), port.c_str(), &hints, &Take, &answers[1]);
    const absl::Duration end = SteadyNow() + kResolvePatience;
    while (!answers[0].is_done || !answers[1].is_done) {
      if (is_stopped || SteadyNow() > end) {
        ares_cancel(channel);  // Calls both callbacks.
      } else {
        Work(channel);
      }
    }
  }
  ares_destroy(channel);
  if (is_stopped) return absl::CancelledError("the agent ends");
  if (status != ARES_SUCCESS) return Failure(target, status);
  std::vector<std::string> addresses = std::move(answers[0].addresses);
  addresses.insert(addresses.end(), answers[1].addresses.begin(), answers[1].addresses.end());
  if (addresses.empty()) return Failure(target, answers[0].status);
  return addresses;
}

}  // namespace parplan
