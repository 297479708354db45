// A PostgreSQL of this process alone: Debian's, in a temporary folder, reached through a
// Unix socket there, and ended with the process.

#ifndef PARPLAN_TESTS_SERVER_STORE_POSTGRES_PROCESS_H_
#define PARPLAN_TESTS_SERVER_STORE_POSTGRES_PROCESS_H_

#include <sys/types.h>

#include <string>

namespace parplan {

class PostgresProcess {
 public:
  // Started at the first call. Ends the test run where it can't be started.
  static PostgresProcess& Shared();

  PostgresProcess(const PostgresProcess&) = delete;
  PostgresProcess& operator=(const PostgresProcess&) = delete;
  ~PostgresProcess();

  // URI of the superuser. `parameters` are those of libpq, as `name=value&name=value`.
  std::string uri(const std::string& parameters = "") const;

  // Ends the server as a power cut would, and starts it again, which rolls back what was not
  // committed.
  void KillAndStart();

  // Ends it in an orderly way; `Start` goes on where it was.
  void Stop();
  void Start();

  // Runs statements as that user.
  void Execute(const std::string& statements) const;

 private:
  PostgresProcess();
  void MakeDatabase();
  void EndWith(int signal);

  std::string folder_;
  pid_t process_ = -1;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_STORE_POSTGRES_PROCESS_H_
