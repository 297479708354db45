#include "tests/benchmarks/access_files.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/base/service/tls/test_certificate.h"
#include "tests/benchmarks/server_process.h"

namespace parplan {
namespace {

constexpr char kServerName[] = "localhost";

// Writes a certificate that signs itself, and its key, as NAME.pem and NAME.key.
void WriteCertificate(const std::filesystem::path& folder, const std::string& name,
                      const std::string& common_name) {
  const absl::Time now = absl::Now();
  const TestCertificate made =
      MakeTestCertificate(now - absl::Hours(1), now + absl::Hours(48), common_name);
  std::ofstream(folder / (name + ".pem")) << made.certificate;
  std::ofstream(folder / (name + ".key")) << made.key;
}

}  // namespace

AccessFiles::AccessFiles() {
  std::string pattern = (std::filesystem::temp_directory_path() / "parplan_access_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) FailBenchmark("cannot make a temporary folder");
  folder_ = pattern;
  WriteCertificate(folder_, "server", kServerName);
  WriteCertificate(folder_, "client", "load");
  const auto grant = [](const char* role) {
    return nlohmann::json{{"identities", {"cn:load"}}, {"role", role}, {"clusters", {"*"}}};
  };
  nlohmann::json agent = grant("agent");
  agent["nodes"] = {"*"};
  const nlohmann::json configuration = {{"authorization", {{"grants", {grant("planner"), agent}}}}};
  std::ofstream(folder_ / "server.json") << configuration.dump();
  server_flags_ = {"--config",     Path("server.json"), "--tls-certificate", Path("server.pem"),
                   "--tls-key",    Path("server.key"),  "--tls-client-ca",   Path("client.pem"),
                   "--audit-file", audit_file(),        "--audit-required"};
}

AccessFiles::~AccessFiles() { std::filesystem::remove_all(folder_); }

ChannelOptions AccessFiles::Channel(const std::string& target) const {
  ChannelOptions options;
  options.target = target;
  options.ca_file = Path("server.pem");
  options.certificate_file = Path("client.pem");
  options.key_file = Path("client.key");
  options.server_name = kServerName;
  return options;
}

}  // namespace parplan
