// Calls of gRPC without the code that was generated for them: any method, any bytes.

#ifndef PARPLAN_TESTS_SUPPORT_RAW_CALL_H_
#define PARPLAN_TESTS_SUPPORT_RAW_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

namespace parplan {

// Calls `method`, `/package.Service/Method`, and writes the bytes of the response to `answer`
// unless it is null. Waits without a deadline.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes, std::string* answer = nullptr);

// Answers of `CheckHealth`: a grpc.health.v1.HealthCheckResponse.
inline constexpr char kServing[] = "\x08\x01";
inline constexpr char kNotServing[] = "\x08\x02";

// Asks grpc.health.v1.Health for the state of `service`, or of the whole server if it is empty.
// Returns the bytes of the response, or `code N` if the call fails.
std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_RAW_CALL_H_
