// Files for the tests of the importers.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_IMPORT_TEST_FILES_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_IMPORT_TEST_FILES_H_

#include <string>

#include "clients/import/galvatron_profile.h"
#include "clients/import/named_text.h"
#include "parplan/v1/profile.pb.h"

namespace parplan {

// The content of a file; a failed expectation and nothing when it can't be read.
std::string ReadTestFile(const std::string& path);

// `path` below `folder`, named `path`.
NamedText ReadNamedText(const std::string& folder, const std::string& path);

// The question the examples under deploy/examples answer: Llama-2-7B of
// Galvatron's main branch on one node of 8 (or two), from the folder of measured
// data.
GalvatronFiles ExampleFiles(const std::string& data, int node_count);
GalvatronFlags ExampleFlags(int node_count);

// The one timing or memory with these keys; null with a failed expectation
// when there is none.
const v1::LayerTiming* FindTiming(const v1::Profile& profile, const std::string& layer,
                                  int micro_batch_size, int sequence_length = 0);
const v1::LayerMemory* FindMemory(const v1::Profile& profile, const std::string& layer, int degree,
                                  bool sequence_parallel, int sequence_length = 0);

// Nanoseconds of a Duration.
int64_t Nanoseconds(const google::protobuf::Duration& duration);

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_IMPORT_TEST_FILES_H_
