#include "tests/server/store/postgres_process.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <pqxx/pqxx>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "gtest/gtest.h"

namespace parplan {
namespace {

constexpr char kPrograms[] = "/usr/lib/postgresql/15/bin/";
constexpr absl::Duration kStartTime = absl::Minutes(3);

// Starts a program with what it says in `log`. It dies with this process. PostgreSQL refuses
// to be root, so root starts it as Debian's user `postgres`.
pid_t Spawn(std::vector<std::string> command, const std::string& log) {
  if (geteuid() == 0) {
    const std::vector<std::string> as_postgres = {
        "setpriv",        "--reuid=postgres",    "--regid=postgres",
        "--clear-groups", "--pdeathsig=SIGQUIT", "--"};
    command.insert(command.begin(), as_postgres.begin(), as_postgres.end());
  }
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (chdir("/") != 0) _exit(126);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

// Whether any user may go there.
bool IsOpenToAll(const std::filesystem::path& folder) {
  for (std::filesystem::path part = folder;; part = part.parent_path()) {
    struct stat status = {};
    if (stat(part.c_str(), &status) != 0 || (status.st_mode & S_IXOTH) == 0) return false;
    if (part == part.root_path()) return true;
  }
}

// The folder for tests, unless socket names would be too long there or PostgreSQL's user cannot
// enter it.
std::string MakeFolder() {
  constexpr char kName[] = "/parplan-postgres-XXXXXX";
  constexpr char kSocket[] = "/.s.PGSQL.5432.lock";
  const std::filesystem::path tests = std::filesystem::absolute(testing::TempDir());
  std::string name = (tests / "").parent_path().string() + kName;
  if (name.size() + sizeof kSocket > sizeof sockaddr_un::sun_path ||
      (geteuid() == 0 && !IsOpenToAll(std::filesystem::path(name).parent_path()))) {
    name = std::string("/tmp") + kName;
  }
  PARPLAN_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

[[noreturn]] void Fail(const std::string& what, const std::string& log) {
  std::cerr << what << "\n" << Contents(log) << std::endl;
  std::abort();
}

}  // namespace

PostgresProcess& PostgresProcess::Shared() {
  static PostgresProcess process;
  return process;
}

PostgresProcess::PostgresProcess() {
  folder_ = MakeFolder();
  if (geteuid() == 0) {
    const passwd* const user = getpwnam("postgres");
    if (user == nullptr) Fail("there is no user postgres: install postgresql-15", "");
    PARPLAN_CHECK(chown(folder_.c_str(), user->pw_uid, user->pw_gid) == 0);
  }
  MakeDatabase();
  Start();
}

PostgresProcess::~PostgresProcess() {
  if (process_ > 0) EndWith(SIGQUIT);
  std::error_code unused;
  std::filesystem::remove_all(folder_, unused);
}

void PostgresProcess::MakeDatabase() {
  const std::string log = folder_ + "/initdb.log";
  const pid_t child = Spawn({absl::StrCat(kPrograms, "initdb"), "-D", folder_ + "/data", "-U",
                             "parplan", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"},
                            log);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) Fail("initdb failed", log);
}

void PostgresProcess::Start() {
  const std::string log = folder_ + "/postgres.log";
  const absl::Time end = absl::Now() + kStartTime;
  while (true) {
    if (process_ < 0) {
      // The kernel keeps what was written when a process is killed, so fsync is not missed.
      process_ = Spawn({absl::StrCat(kPrograms, "postgres"), "-D", folder_ + "/data", "-k", folder_,
                        "-c", "listen_addresses=", "-c", "fsync=off", "-c",
                        "unix_socket_permissions=0777", "-c", "max_connections=150"},
                       log);
    }
    try {
      const pqxx::connection connection(uri());
      return;
    } catch (const pqxx::failure&) {
      if (absl::Now() > end) Fail("PostgreSQL does not start", log);
    }
    absl::SleepFor(absl::Milliseconds(20));
    // It ends by itself while processes of the one before are still there.
    if (waitpid(process_, nullptr, WNOHANG) == process_) process_ = -1;
  }
}

void PostgresProcess::EndWith(int signal) {
  kill(process_, signal);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void PostgresProcess::KillAndStart() {
  EndWith(SIGKILL);
  Start();
}

void PostgresProcess::Stop() { EndWith(SIGINT); }

std::string PostgresProcess::uri(const std::string& parameters) const {
  return absl::StrCat("postgres://parplan@/postgres?host=", folder_, parameters.empty() ? "" : "&",
                      parameters);
}

void PostgresProcess::Execute(const std::string& statements) const {
  pqxx::connection connection(uri());
  pqxx::nontransaction(connection).exec(statements);
}

}  // namespace parplan
