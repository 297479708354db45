// Writes the log lines of gRPC and Protobuf themselves, such as failed handshakes, to the server's
// log. main.cc calls it once.

#ifndef PARPLAN_SERVER_MAIN_GRPC_LOG_H_
#define PARPLAN_SERVER_MAIN_GRPC_LOG_H_

#include "server/main/server_log.h"

namespace parplan {

// From now on writes the log lines of gRPC and Protobuf in the whole process to `log`, on whichever
// thread they arise. Lines of gRPC become events `grpc`: its errors are warnings, all others
// information. The environment variable GRPC_VERBOSITY still selects them, by default only errors.
// Lines of Protobuf become events `protobuf`. Even its errors are only information, because any
// client can cause one by sending text that is not UTF-8. REQUIRES, unchecked: `log` lives until
// the process ends, and no other thread runs yet.
void TakeGrpcLog(const ServerLog& log);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_GRPC_LOG_H_
