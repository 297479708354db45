// The configuration file, with each of the allocations of its reader failing in turn: a server that
// reads it again goes on with what it has.

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "server/main/config_file.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/test_folder.h"

namespace parplan {
namespace {

TEST(ReadConfigFile, OutlivesFailingAllocations) {
  const std::string path = MakeTestFolder() + "/parplan-server.json";
  std::ofstream(path) << R"({
    "listen": "unix:/run/parplan/the-socket-of-the-server",
    "data_dir": "/var/lib/parplan-server-of-the-laboratory",
    "default_deadline": "90s",
    "quotas": {"identity": {"stored_bytes": "4294967296"}},
    "authorization": {
      "certificate_names": ["cn"],
      "grants": [
        {"identities": ["spiffe://lab.example/{cluster}/job/{job}"], "role": "executor"},
        {"identities": ["dns:slurm.laboratory.example"], "role": "planner", "clusters": ["west"]}
      ]
    }
  })";
  ExpectToOutliveFailingAllocations({"ReadConfigFile", [&path] {
                                       Settings settings;
                                       return ReadConfigFile(path, settings).ok() &&
                                              settings.grants.has_value();
                                     }});
}

}  // namespace
}  // namespace parplan
