// Names of the methods of the API, for those who count calls. server/main/main.cc gives them to
// `PrometheusObserver`.

#ifndef PARPLAN_SERVER_RPC_METHOD_NAMES_H_
#define PARPLAN_SERVER_RPC_METHOD_NAMES_H_

#include <string>
#include <vector>

namespace parplan {

// Returns the names of all methods of the contract (`CreatePlan`), which are those that
// `Observer::CallStarted` and `CallRecord` get.
std::vector<std::string> MethodNames();

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_METHOD_NAMES_H_
