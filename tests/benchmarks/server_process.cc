#include "tests/benchmarks/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

extern char** environ;

namespace parplan {

void FailBenchmark(const std::string& message) {
  std::cerr << message << "\n";
  std::exit(1);
}

std::string ReadWholeFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::string BuiltServer() {
  return (std::filesystem::canonical("/proc/self/exe").parent_path() / "../bin/parplan-server")
      .lexically_normal()
      .string();
}

ServerProcess::ServerProcess(const std::string& binary, const std::vector<std::string>& flags) {
  std::string pattern = (std::filesystem::temp_directory_path() / "parplan_load_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) FailBenchmark("cannot make a temporary folder");
  folder_ = pattern;
  const std::string data = folder_ / "data", port_file = folder_ / "port";
  std::vector<std::string> arguments = {binary,       "--listen",    "127.0.0.1:0",
                                        "--data-dir", data,          "--metrics-listen",
                                        "off",        "--port-file", port_file};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const std::string log = log_file();
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT, 0600);
  if (posix_spawn(&pid_, binary.c_str(), &actions, nullptr, pointers.data(), environ) != 0) {
    FailBenchmark("cannot start " + binary + "; build parplan-server, or name it with --server");
  }
  posix_spawn_file_actions_destroy(&actions);
  for (int i = 0; ReadWholeFile(port_file).empty(); ++i) {
    if (i == 3000) FailBenchmark("the server did not start: " + ReadWholeFile(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  address_ = "127.0.0.1:" + std::to_string(std::stoi(ReadWholeFile(port_file)));
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) std::cerr << "the server ended badly\n";
  std::filesystem::remove_all(folder_);
}

int64_t ServerProcess::RssBytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word) {
    if (word == "VmRSS:" && status >> kilobytes) break;
  }
  return kilobytes * 1024;
}

double ServerProcess::CpuSeconds() const {
  const std::string text = ReadWholeFile("/proc/" + std::to_string(pid_) + "/stat");
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  const std::vector<std::string> fields((std::istream_iterator<std::string>(rest)),
                                        std::istream_iterator<std::string>());
  // User and system time: fields 14 and 15 of proc(5), here counted from the third.
  if (fields.size() < 13) return 0.0;
  return (std::stod(fields[11]) + std::stod(fields[12])) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace parplan
