// Writes the log lines of gRPC and Protobuf themselves, such as failed handshakes, to the server's
// log. main.cc calls it once.

#ifndef PARPLAN_SERVER_MAIN_GRPC_LOG_H_
#define PARPLAN_SERVER_MAIN_GRPC_LOG_H_

#include "server/main/server_log.h"

namespace parplan {

// Writes gRPC's lines from now on, of the whole process, as events `grpc` to `log`, which must live
// as long as the process: its errors as warnings, all others as information. $GRPC_VERBOSITY still
// selects them: errors by default. Those of Protobuf are events `protobuf`, all of them
// information: any caller can have it write one, with a text that is not UTF-8. To be called before
// there are other threads.
void TakeGrpcLog(const ServerLog& log);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_GRPC_LOG_H_
