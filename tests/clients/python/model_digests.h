// Models with their digests, for tests of the Python package.

#ifndef PARPLAN_TESTS_CLIENTS_PYTHON_MODEL_DIGESTS_H_
#define PARPLAN_TESTS_CLIENTS_PYTHON_MODEL_DIGESTS_H_

#include <string>

namespace parplan {

// Returns a JSON list of objects with the members `name`, `model` (a `ModelSpec`), `parameters` and
// `digest`: the imported configurations of tests/clients/import/data, the models of
// deploy/examples, one model of each structure of layers, and random ones.
std::string ModelDigestsJson();

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_PYTHON_MODEL_DIGESTS_H_
