#include "base/service/listen/connection_gate.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

// Far above what any step here takes.
constexpr int kPatienceMilliseconds = 20000;

// A client's end of a connection.
class Client {
 public:
  // Whether another process connects, as which the gate then knows the client.
  enum class Process { kOther, kThis };

  // Connects to a Unix socket.
  explicit Client(const std::string& path, Process process = Process::kOther)
      : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un where = {};
    where.sun_family = AF_UNIX;
    path.copy(where.sun_path, sizeof where.sun_path - 1);
    const auto join = [this, &where] {
      return connect(descriptor_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
    };
    if (process == Process::kThis) {
      connected_ = join();
      return;
    }
    const pid_t child = fork();
    if (child == 0) _exit(join() ? 0 : 1);
    int status = 0;
    connected_ =
        waitpid(child, &status, 0) == child && WIFEXITED(status) != 0 && WEXITSTATUS(status) == 0;
  }
  explicit Client(int port, int family = AF_INET)
      : descriptor_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (family == AF_INET6) {
      sockaddr_in6 where = {};
      where.sin6_family = AF_INET6;
      where.sin6_port = htons(static_cast<uint16_t>(port));
      where.sin6_addr = in6addr_loopback;
      connected_ =
          connect(descriptor_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
    } else {
      sockaddr_in where = {};
      where.sin_family = AF_INET;
      where.sin_port = htons(static_cast<uint16_t>(port));
      where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      connected_ =
          connect(descriptor_.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
    }
  }

  bool connected() const { return connected_; }
  void Say(const std::string& text = "x") {
    EXPECT_EQ(send(descriptor_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Waits until the other end has closed.
  bool IsEnded() {
    pollfd wanted = {.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    if (poll(&wanted, 1, kPatienceMilliseconds) != 1) return false;
    char byte = 0;
    return recv(descriptor_.get(), &byte, 1, 0) <= 0;
  }
  // Whether nothing has come yet.
  bool IsQuiet() {
    pollfd wanted = {.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 0) == 0;
  }
  // The name that gRPC gives this end.
  std::string peer() const {
    sockaddr_in6 own = {};
    socklen_t length = sizeof own;
    getsockname(descriptor_.get(), reinterpret_cast<sockaddr*>(&own), &length);
    // The port is at the same place in both families.
    const int port = ntohs(own.sin6_port);
    return own.sin6_family == AF_INET6 ? absl::StrCat("ipv6:%5B::1%5D:", port)
                                       : absl::StrCat("ipv4:127.0.0.1:", port);
  }

 private:
  FileDescriptor descriptor_;
  bool connected_ = false;
};

// A gate and what it handed over.
class World {
 public:
  explicit World(const ConnectionLimits& limits, const std::string& address = "127.0.0.1:0",
                 LocalNames local_names = LocalNames::kByDescriptor) {
    absl::StatusOr<ListeningSockets> sockets = Listen(address);
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    gate_ = std::make_unique<ConnectionGate>(*std::move(sockets), limits, local_names);
    gate_->Start([this](const NewConnection& connection) {
      const std::lock_guard<std::mutex> lock(mutex_);
      taken_.emplace_back(connection.descriptor);
      is_named_by_descriptor_ = connection.is_named_by_descriptor;
      changed_.notify_all();
    });
  }
  ~World() { gate_.reset(); }

  ConnectionGate& gate() { return *gate_; }

  // Waits until so many connections in all were handed over.
  bool WaitForTaken(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMilliseconds),
                             [&] { return taken_.size() >= count; });
  }
  size_t taken_count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return taken_.size();
  }
  // gRPC's name of a connection of a Unix socket.
  std::string NameOf(size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return absl::StrCat("fd:", taken_[index].get());
  }
  bool is_named_by_descriptor() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return is_named_by_descriptor_;
  }
  // As gRPC does when it is done with a connection.
  void Close(size_t index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    shutdown(taken_[index].get(), SHUT_RDWR);
    taken_[index].Close();
  }
  // Waits until so many are open.
  bool WaitForOpen(int count) {
    for (int look = 0; look < kPatienceMilliseconds; ++look) {
      if (gate_->counts().open == count) return true;
      usleep(1000);
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FileDescriptor> taken_;
  bool is_named_by_descriptor_ = false;
  std::unique_ptr<ConnectionGate> gate_;
};

// Connects, speaks and waits until that is handed over as connection `count` in all.
std::unique_ptr<Client> Join(World& world, size_t count, int family = AF_INET) {
  auto client = std::make_unique<Client>(world.gate().port(), family);
  EXPECT_TRUE(client->connected());
  client->Say();
  EXPECT_TRUE(world.WaitForTaken(count));
  return client;
}

void AgeIdle() { usleep(1100 * 1000); }

TEST(ConnectionGate, HandsOverWhatSpeaks) {
  World world({});
  Client silent(world.gate().port());
  const auto client = Join(world, 1);
  EXPECT_EQ(world.taken_count(), 1u);
  EXPECT_TRUE(silent.IsQuiet());
  silent.Say();
  EXPECT_TRUE(world.WaitForTaken(2));
  EXPECT_EQ(world.gate().counts().accepted, 2);
  EXPECT_EQ(world.gate().counts().open, 2);
}

TEST(ConnectionGate, EndsWhatStaysSilent) {
  World world({.max_silence = absl::Milliseconds(50)});
  const auto client = Join(world, 1);
  Client silent(world.gate().port());
  EXPECT_TRUE(silent.IsEnded());
  EXPECT_TRUE(client->IsQuiet());
  EXPECT_EQ(world.gate().counts().silent, 1);
}

TEST(ConnectionGate, SilentOnesGiveWayToNewOnes) {
  World world({.max_silent_count = 4});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<Client>(world.gate().port()));
  for (int i = 0; i < 36; ++i) EXPECT_TRUE(silent[i]->IsEnded()) << i;
  // One more takes a place of a silent one, and is served at once.
  const auto client = Join(world, 1);
  EXPECT_TRUE(client->IsQuiet());
  EXPECT_EQ(world.gate().counts().refused, 0);
}

TEST(ConnectionGate, KnowsWhenAConnectionEnds) {
  World world({});
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < 3; ++i) clients.push_back(Join(world, i + 1));
  EXPECT_EQ(world.gate().counts().open, 3);
  world.Close(1);
  EXPECT_TRUE(world.WaitForOpen(2));
  EXPECT_TRUE(clients[1]->IsEnded());
}

TEST(ConnectionGate, IdleOnesGiveWayAndBusyOnesDoNot) {
  World world({.max_open_count = 6});
  std::vector<std::unique_ptr<Client>> clients;
  // One host has half of the places.
  for (size_t i = 0; i < 3; ++i) clients.push_back(Join(world, i + 1));
  world.gate().CallStarted(clients[0]->peer());
  // Used later than 2, so 2 is the first to go.
  world.gate().CallStarted(clients[1]->peer());
  world.gate().CallEnded(clients[1]->peer(), false);
  AgeIdle();
  clients.push_back(Join(world, 4));
  EXPECT_TRUE(clients[2]->IsEnded());
  EXPECT_TRUE(clients[0]->IsQuiet());
  EXPECT_TRUE(clients[1]->IsQuiet());
  EXPECT_EQ(world.gate().counts().idle, 1);
  // Where every connection has a call in progress, a new one is refused.
  world.gate().CallStarted(clients[1]->peer());
  world.gate().CallStarted(clients[3]->peer());
  AgeIdle();
  Client refused(world.gate().port());
  refused.Say();
  EXPECT_TRUE(refused.IsEnded());
  EXPECT_EQ(world.gate().counts().refused, 1);
  EXPECT_EQ(world.gate().counts().open, 3);
}

TEST(ConnectionGate, IdleOnesEndWhereTheProcessHasTooMuchMemory) {
  World world({.max_open_count = 6, .max_resident_bytes = 1});
  const auto busy = Join(world, 1);
  const auto idle = Join(world, 2);
  world.gate().CallStarted(busy->peer());
  EXPECT_TRUE(idle->IsEnded());
  EXPECT_TRUE(busy->IsQuiet());
  EXPECT_EQ(world.gate().counts().idle, 1);
}

TEST(ConnectionGate, AnotherHostFindsAPlaceBesideAFlood) {
  World world({.max_open_count = 6}, "[::]:0");
  std::vector<std::unique_ptr<Client>> flood;
  for (size_t i = 0; i < 3; ++i) {
    flood.push_back(Join(world, i + 1));
    world.gate().CallStarted(flood.back()->peer());
  }
  Client refused(world.gate().port());
  refused.Say();
  EXPECT_TRUE(refused.IsEnded());
  const auto other = Join(world, 4, AF_INET6);
  EXPECT_TRUE(other->IsQuiet());
}

TEST(ConnectionGate, CutsOffWhoCancelsTooManyCalls) {
  World world({.max_cancelled_calls = 20, .max_cancelled_calls_per_second = 0.0});
  const auto honest = Join(world, 1);
  const auto attacker = Join(world, 2);
  for (int i = 0; i < 20; ++i) {
    for (const auto* client : {&honest, &attacker}) {
      world.gate().CallStarted((*client)->peer());
      world.gate().CallEnded((*client)->peer(), client == &attacker);
    }
  }
  EXPECT_EQ(world.gate().counts().cancelling, 0);
  world.gate().CallStarted(attacker->peer());
  world.gate().CallEnded(attacker->peer(), true);
  EXPECT_TRUE(attacker->IsEnded());
  EXPECT_TRUE(honest->IsQuiet());
  EXPECT_EQ(world.gate().counts().cancelling, 1);
}

TEST(ConnectionGate, CallsThatNoMethodSawCountAsCancelled) {
  World world({.max_cancelled_calls = 20, .max_cancelled_calls_per_second = 0.0});
  const auto attacker = Join(world, 1);
  for (int i = 0; i < 20; ++i) world.gate().CallRefused(attacker->peer());
  EXPECT_TRUE(attacker->IsQuiet());
  world.gate().CallRefused(attacker->peer());
  EXPECT_TRUE(attacker->IsEnded());
  EXPECT_EQ(world.gate().counts().cancelling, 1);
}

// Connects to a Unix socket, speaks and waits until that is handed over.
std::unique_ptr<Client> JoinAt(World& world, const std::string& path, size_t count,
                               Client::Process process = Client::Process::kOther) {
  auto client = std::make_unique<Client>(path, process);
  EXPECT_TRUE(client->connected());
  client->Say();
  EXPECT_TRUE(world.WaitForTaken(count));
  return client;
}

TEST(ConnectionGate, KnowsTheConnectionsOfUnixSockets) {
  const std::string path = absl::StrCat(MakeTestFolder(), "/s");
  World world(
      {.max_open_count = 6, .max_cancelled_calls = 20, .max_cancelled_calls_per_second = 0.0},
      absl::StrCat("unix:", path));
  std::vector<std::unique_ptr<Client>> clients;
  // One user has half of the places.
  for (size_t i = 0; i < 3; ++i) clients.push_back(JoinAt(world, path, i + 1));
  EXPECT_TRUE(world.is_named_by_descriptor());
  EXPECT_EQ(world.gate().UserOf(world.NameOf(0)), getuid());
  EXPECT_FALSE(world.gate().UserOf("fd:99999").has_value());
  EXPECT_FALSE(world.gate().UserOf("unix:").has_value());
  // Who resets too many calls is cut off, and the others stay.
  for (int i = 0; i < 21; ++i) world.gate().CallRefused(world.NameOf(1));
  EXPECT_TRUE(clients[1]->IsEnded());
  EXPECT_TRUE(clients[0]->IsQuiet());
  EXPECT_EQ(world.gate().counts().cancelling, 1);
  world.Close(1);
  EXPECT_TRUE(world.WaitForOpen(2));
  clients.push_back(JoinAt(world, path, 4));
  // One without a call gives way.
  world.gate().CallStarted(world.NameOf(0));
  AgeIdle();
  clients.push_back(JoinAt(world, path, 5));
  EXPECT_TRUE(clients[2]->IsEnded());
  EXPECT_TRUE(clients[0]->IsQuiet());
  EXPECT_EQ(world.gate().counts().idle, 1);
}

// A server that asks itself whether it answers takes no place of the user it runs as.
TEST(ConnectionGate, ConnectionsOfThisProcessTakeNoPlaceOfItsUser) {
  const std::string path = absl::StrCat(MakeTestFolder(), "/s");
  World world({.max_open_count = 6}, absl::StrCat("unix:", path));
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < 3; ++i) clients.push_back(JoinAt(world, path, i + 1));
  AgeIdle();
  // The user has its half, whose oldest would give way to another one of it.
  clients.push_back(JoinAt(world, path, 4, Client::Process::kThis));
  EXPECT_EQ(world.gate().counts().idle, 0);
  for (const auto& client : clients) EXPECT_TRUE(client->IsQuiet());
  EXPECT_EQ(world.gate().UserOf(world.NameOf(3)), getuid());
  // Nor do they count against it.
  clients.push_back(JoinAt(world, path, 5));
  EXPECT_TRUE(clients[0]->IsEnded());
  EXPECT_TRUE(clients[3]->IsQuiet());
  EXPECT_EQ(world.gate().counts().idle, 1);
}

TEST(ConnectionGate, NamesNoConnectionOfUnixSocketsForTls) {
  const std::string path = absl::StrCat(MakeTestFolder(), "/s");
  World world({.max_open_count = 4}, absl::StrCat("unix:", path), LocalNames::kNone);
  const auto client = JoinAt(world, path, 1);
  const auto second = JoinAt(world, path, 2);
  EXPECT_FALSE(world.is_named_by_descriptor());
  EXPECT_FALSE(world.gate().UserOf(world.NameOf(0)).has_value());
  AgeIdle();
  // Whether they have calls is not known, so none gives way.
  Client refused(path);
  refused.Say();
  EXPECT_TRUE(refused.IsEnded());
  EXPECT_TRUE(client->IsQuiet());
}

TEST(ConnectionGate, OutlivesAFullTableOfDescriptors) {
  World world({.max_open_count = 4000, .max_silent_count = 4000});
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<FileDescriptor> clients;
  // Descriptors of this process, of which clients and gate take one each.
  const FileDescriptor last(dup(0));
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(last.get()) + 60;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  sockaddr_in where = {};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(world.gate().port()));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 500; ++i) {
    FileDescriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client.is_open()) {
      usleep(1000);
      continue;
    }
    // The gate may refuse it.
    static_cast<void>(connect(client.get(), reinterpret_cast<sockaddr*>(&where), sizeof where));
    clients.push_back(std::move(client));
  }
  clients.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto client = Join(world, world.taken_count() + 1);
  EXPECT_TRUE(client->IsQuiet());
}

TEST(ConnectionGate, StopsAccepting) {
  World world({});
  const auto client = Join(world, 1);
  Client silent(world.gate().port());
  // Once another one is handed over, the silent one is accepted too.
  const auto second = Join(world, 2);
  world.gate().StopAccepting();
  EXPECT_TRUE(silent.IsEnded());
  EXPECT_TRUE(client->IsQuiet());
  EXPECT_FALSE(Client(world.gate().port()).connected());
}

TEST(LimitsForDescriptors, LeaveRoomForTheRest) {
  for (const int64_t count : {256, 1024, 4096, 65536}) {
    const ConnectionLimits limits = LimitsForDescriptors(count);
    EXPECT_LT(2 * limits.max_open_count + limits.max_silent_count, count);
    EXPECT_GE(limits.max_open_count, 8);
  }
}

TEST(Listen, RefusesAPortThatIsTaken) {
  const absl::StatusOr<ListeningSockets> first = Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const absl::StatusOr<ListeningSockets> second = Listen(absl::StrCat("127.0.0.1:", first->port));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), testing::HasSubstr("Address already in use"));
}

TEST(Listen, ReplacesASocketWhoseServerIsGone) {
  const std::string address = absl::StrCat("unix:", MakeTestFolder(), "/s");
  { ASSERT_TRUE(Listen(address).ok()); }
  const absl::StatusOr<ListeningSockets> again = Listen(address);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->port, 1);
  // Not that of a server that lives.
  EXPECT_FALSE(Listen(address).ok());
}

TEST(Listen, RefusesNamesWithoutAnAddress) {
  EXPECT_FALSE(Listen("no-such-host.invalid:0").ok());
  EXPECT_FALSE(Listen(absl::StrCat("unix:/", std::string(200, 'x'))).ok());
}

}  // namespace
}  // namespace parplan
