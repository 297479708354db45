// Certificates and keys for tests.

#ifndef PARPLAN_TESTS_BASE_SERVICE_TLS_TEST_CERTIFICATE_H_
#define PARPLAN_TESTS_BASE_SERVICE_TLS_TEST_CERTIFICATE_H_

#include <string>

#include "absl/time/time.h"

namespace parplan {

// A certificate that signs itself, and its key without encryption, both in PEM.
struct TestCertificate {
  std::string certificate;
  std::string key;
};

// Returns a certificate with a new key that is valid from `start` to `end`, in whole seconds. Its
// common name is `name`; it has none if that is empty.
TestCertificate MakeTestCertificate(absl::Time start, absl::Time end, const std::string& name = "");

}  // namespace parplan

#endif  // PARPLAN_TESTS_BASE_SERVICE_TLS_TEST_CERTIFICATE_H_
