// What gRPC itself has to say, such as handshakes that failed, as lines of the server's log.

#ifndef PARPLAN_SERVER_MAIN_GRPC_LOG_H_
#define PARPLAN_SERVER_MAIN_GRPC_LOG_H_

#include "server/main/server_log.h"

namespace parplan {

// From now on gRPC's lines are events `grpc` of `log`, which must live as long as the process.
// $GRPC_VERBOSITY still says which there are: errors by default.
void TakeGrpcLog(const ServerLog& log);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_GRPC_LOG_H_
