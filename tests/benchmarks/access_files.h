// Certificates, roles and an audit log for programs that measure a server with all of them.

#ifndef PARPLAN_TESTS_BENCHMARKS_ACCESS_FILES_H_
#define PARPLAN_TESTS_BENCHMARKS_ACCESS_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "clients/cpp/channel.h"

namespace parplan {

// Files of a server with mutual TLS, in which one identity, `cn:load`, may plan and upload profiles
// in every cluster, and which writes an audit log without which nothing changes. They lie in a
// folder of their own, which goes with the object.
//
//   const AccessFiles access;
//   ServerProcess server(BuiltServer(), access.server_flags());
//   MakeChannel(access.Channel(server.address()));
class AccessFiles {
 public:
  AccessFiles();
  ~AccessFiles();
  AccessFiles(const AccessFiles&) = delete;
  AccessFiles& operator=(const AccessFiles&) = delete;

  const std::vector<std::string>& server_flags() const { return server_flags_; }

  // Options of a channel to `target` with the certificate of `cn:load`.
  ChannelOptions Channel(const std::string& target) const;

  // The file that the server appends to.
  std::string audit_file() const { return Path("audit.jsonl"); }

 private:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
  std::vector<std::string> server_flags_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_BENCHMARKS_ACCESS_FILES_H_
