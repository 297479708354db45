// A server of its own process for programs that measure.

#ifndef PARPLAN_TESTS_BENCHMARKS_SERVER_PROCESS_H_
#define PARPLAN_TESTS_BENCHMARKS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/wire/json_file.h"

namespace parplan {

// Says why and ends the program.
[[noreturn]] void FailBenchmark(const std::string& message);

// The content of a file; empty where it cannot be read.
std::string ReadWholeFile(const std::filesystem::path& path);

// The message in a JSON file; ends the program where there is none.
template <typename Message>
Message ReadMessage(const std::string& path) {
  Message message;
  const absl::Status status = ParseJson(ReadWholeFile(path), path, &message);
  if (!status.ok()) FailBenchmark(std::string(status.message()));
  return message;
}

// parplan-server beside this program's folder, as the build puts it.
std::string BuiltServer();

// A server in a folder of its own; both go with the object.
class ServerProcess {
 public:
  // Starts `binary` with `flags` beside those of the folder and the ports.
  explicit ServerProcess(const std::string& binary, const std::vector<std::string>& flags = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }

  // The file of the server's log, JSON lines.
  std::string log_file() const { return (folder_ / "log").string(); }

  // Resident memory now.
  int64_t RssBytes() const;
  // Processor time so far, in seconds.
  double CpuSeconds() const;

 private:
  std::filesystem::path folder_;
  pid_t pid_ = 0;
  std::string address_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_SERVER_PROCESS_H_
