// A file with the names of NCCL's functions, which do nothing. NCCL's header, which declares them
// with parameters, is left out.

#define PARPLAN_FAKE(name) \
  extern "C" int name() { return 0; }

PARPLAN_FAKE(ncclAllGather)
PARPLAN_FAKE(ncclAllReduce)
PARPLAN_FAKE(ncclBroadcast)
PARPLAN_FAKE(ncclCommAbort)
PARPLAN_FAKE(ncclCommCount)
PARPLAN_FAKE(ncclCommDestroy)
PARPLAN_FAKE(ncclCommGetAsyncError)
PARPLAN_FAKE(ncclCommInitRankConfig)
#ifndef FAKE_IS_OLD
PARPLAN_FAKE(ncclCommSplit)
#endif
PARPLAN_FAKE(ncclCommUserRank)
PARPLAN_FAKE(ncclGetErrorString)
PARPLAN_FAKE(ncclGetLastError)
PARPLAN_FAKE(ncclGetUniqueId)
PARPLAN_FAKE(ncclGroupEnd)
PARPLAN_FAKE(ncclGroupStart)
PARPLAN_FAKE(ncclRecv)
PARPLAN_FAKE(ncclReduceScatter)
PARPLAN_FAKE(ncclSend)

extern "C" int ncclGetVersion(int* version) {
  *version = 21805;
  return 0;
}
