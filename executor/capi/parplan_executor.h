/* Plans for training frameworks: verify one, and read what each layer and rank has to do.
 *
 * Plain C99. Describes; executes nothing: groups and collectives stay the framework's. Nothing
 * throws, prints or ends the process.
 *
 * Functions that can fail return PARPLAN_OK or another parplan_status, and then fill `error`
 * where it is not NULL. Handles may be used from any thread, each by one at a time; what a
 * function gives a pointer to belongs to the handle and lives as long as it does. Structs that
 * begin with `size` are filled, or read, up to that many bytes: set it to sizeof before a call,
 * so that later releases may add members.
 */

#ifndef PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_
#define PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or member changes its meaning or goes. */
#define PARPLAN_EXECUTOR_ABI 1

/* Of the library that is loaded: compare with PARPLAN_EXECUTOR_ABI. */
int32_t parplan_executor_abi(void);
/* For people, for example "0.1.0". */
const char* parplan_executor_release(void);

typedef enum parplan_status {
  PARPLAN_OK = 0,
  /* An argument or a file breaks a rule. */
  PARPLAN_INVALID_ARGUMENT = 1,
  /* Signature, content, time, audience, topology or model: the plan must not be run here. */
  PARPLAN_REFUSED = 2,
  /* No such layer, rank, group or pass. */
  PARPLAN_OUT_OF_RANGE = 3,
  /* A mistake of the library, or no memory. */
  PARPLAN_INTERNAL = 4
} parplan_status;

typedef struct parplan_error {
  int32_t code;
  /* As on the wire, for example "PLAN_EXPIRED"; empty where there is none. */
  char reason[64];
  /* One sentence. Both end with a zero. */
  char text[1024];
} parplan_error;

typedef struct parplan_plan parplan_plan;
typedef struct parplan_rank parplan_rank;
typedef struct parplan_report parplan_report;

/* A text and its length in bytes. */
typedef struct parplan_text {
  const char* data;
  size_t size;
} parplan_text;

typedef struct parplan_source {
  size_t size;
  /* Contents of files: envelope (DSSE, JSON), trust bundle (JWKS), model, cluster. */
  parplan_text envelope;
  parplan_text trust;
  parplan_text model;
  parplan_text topology;
  /* Whom the plan must be for; NULL or empty: not checked. */
  const char* job_id;
  const char* node_name;
  /* Seconds since 1970; 0: now. */
  int64_t time;
} parplan_source;

/* Verifies the plan and gives a handle. */
int32_t parplan_plan_load(const parplan_source* source, parplan_plan** plan, parplan_error* error);
/* NULL is fine. Its ranks and reports must be gone. */
void parplan_plan_free(parplan_plan* plan);

typedef enum parplan_schedule {
  PARPLAN_SCHEDULE_1F1B = 1,
  PARPLAN_SCHEDULE_GPIPE = 2,
  PARPLAN_SCHEDULE_INTERLEAVED = 3
} parplan_schedule;

typedef struct parplan_plan_info {
  size_t size;
  /* clusters/{cluster}/plans/{plan} */
  const char* name;
  int32_t device_count;
  int32_t layer_count;
  /* Stages one behind the other, and stages on each device. */
  int32_t pipeline_parallel_degree;
  int32_t virtual_stage_count;
  int64_t global_batch_size;
  int64_t micro_batch_count;
  int32_t schedule;
  double predicted_step_seconds;
  int64_t predicted_peak_memory_bytes;
  /* Seconds since 1970. */
  int64_t expire_time;
} parplan_plan_info;

int32_t parplan_plan_get_info(const parplan_plan* plan, parplan_plan_info* info,
                              parplan_error* error);

typedef enum parplan_sharding {
  PARPLAN_SHARDING_NONE = 1,
  PARPLAN_SHARDING_OPTIMIZER = 2,
  PARPLAN_SHARDING_GRADIENTS = 3,
  PARPLAN_SHARDING_PARAMETERS = 4
} parplan_sharding;

typedef enum parplan_recompute {
  PARPLAN_RECOMPUTE_NONE = 1,
  PARPLAN_RECOMPUTE_FULL = 2,
  PARPLAN_RECOMPUTE_SELECTIVE = 3
} parplan_recompute;

typedef enum parplan_context_kind {
  PARPLAN_CONTEXT_RING = 1,
  PARPLAN_CONTEXT_ULYSSES = 2
} parplan_context_kind;

typedef struct parplan_layer {
  size_t size;
  /* Of the model, and on which ranks: first_rank to first_rank + rank_count - 1. */
  int32_t stage_index;
  int32_t first_rank;
  int32_t rank_count;
  int32_t tensor_parallel_degree;
  int32_t data_parallel_degree;
  int32_t context_parallel_degree;
  int32_t sharding;
  int32_t recompute;
  int32_t context_kind;
  /* 0 or 1. */
  int32_t sequence_parallel;
  /* 1: tensor-parallel ranks are neighbours; 0: data-parallel ones are. */
  int32_t tensor_innermost;
} parplan_layer;

/* How layer `layer`, counted from 0, is spread. */
int32_t parplan_plan_get_layer(const parplan_plan* plan, int32_t layer, parplan_layer* out,
                               parplan_error* error);

typedef struct parplan_group {
  size_t size;
  /* "tensor", "context", "gradient", "stage", "forward N", "backward N", "tied", "loss". */
  const char* purpose;
  /* Of the job, in order. */
  const int32_t* ranks;
  int32_t rank_count;
} parplan_group;

/* All groups of all ranks, each once, in the order in which every rank may make them where all
 * ranks of the job take part in making each (torch.distributed.new_group). The first call looks
 * at every rank. */
int32_t parplan_plan_group_count(parplan_plan* plan, int32_t* count, parplan_error* error);
int32_t parplan_plan_get_group(parplan_plan* plan, int32_t index, parplan_group* group,
                               parplan_error* error);

/* What rank `rank` has to do. */
int32_t parplan_rank_open(const parplan_plan* plan, int32_t rank, parplan_rank** out,
                          parplan_error* error);
void parplan_rank_free(parplan_rank* rank);

/* The groups this rank is in. */
int32_t parplan_rank_group_count(const parplan_rank* rank, int32_t* count, parplan_error* error);
int32_t parplan_rank_get_group(const parplan_rank* rank, int32_t index, parplan_group* group,
                               parplan_error* error);

/* The groups of one layer of this rank: indices for parplan_rank_get_group, -1 where it is
 * alone. PARPLAN_OUT_OF_RANGE where the layer is on other ranks. */
typedef struct parplan_layer_groups {
  size_t size;
  int32_t tensor;
  int32_t context;
  /* Ranks with the same part of the parameters. */
  int32_t gradient;
} parplan_layer_groups;

int32_t parplan_rank_get_layer_groups(const parplan_rank* rank, int32_t layer,
                                      parplan_layer_groups* groups, parplan_error* error);

/* One pass over the layers of a stage. */
typedef struct parplan_pass {
  size_t size;
  int32_t stage_index;
  /* 0 or 1. */
  int32_t is_backward;
  int64_t micro_batch;
} parplan_pass;

/* The passes of a step, in order. */
int32_t parplan_rank_pass_count(const parplan_rank* rank, int32_t* count, parplan_error* error);
int32_t parplan_rank_get_pass(const parplan_rank* rank, int32_t index, parplan_pass* pass,
                              parplan_error* error);

/* A server, and how to speak to it. Texts may be NULL, which is as empty. */
typedef struct parplan_server {
  size_t size;
  /* Required. "HOST:PORT", "dns:///NAME:PORT" for replicas, "unix:PATH" for the sidecar of a pod.
   */
  const char* target;
  /* Speak TLS: 1. Also where one of the files below is given. */
  int32_t use_tls;
  /* Files in PEM. Of the authorities to trust, by default the system's; and what to show to a
   * server that asks for it, both or none. */
  const char* ca_file;
  const char* certificate_file;
  const char* key_file;
  /* The name in the server's certificate, where it is not that of the target. */
  const char* server_name;
} parplan_server;

/* Reports what is measured to the ExecutionService of a server, in the background: adding never
 * waits, and a server that is gone costs windows, not time. One process of the job opens it.
 * PARPLAN_INVALID_ARGUMENT names a file that cannot be used. */
int32_t parplan_report_open_with(const parplan_plan* plan, const parplan_server* server,
                                 parplan_report** out, parplan_error* error);
/* The same of a server without TLS at `target`. */
int32_t parplan_report_open(const parplan_plan* plan, const char* target, parplan_report** out,
                            parplan_error* error);

/* What one rank measured over some steps. */
typedef struct parplan_window {
  size_t size;
  int32_t rank;
  int32_t step_count;
  /* Counted from 0. */
  int64_t first_step;
  double median_step_seconds;
  /* 0: unknown. */
  int64_t peak_memory_bytes;
} parplan_window;

int32_t parplan_report_add(parplan_report* report, const parplan_window* window,
                           parplan_error* error);

/* Says how the job ended: `failure` is NULL where it ended well. Returns within 10 s, and frees
 * the report. `lost_count`, where it is not NULL, is how many windows the server never got. */
int32_t parplan_report_close(parplan_report* report, const char* failure, int64_t* lost_count,
                             parplan_error* error);

#ifdef __cplusplus
}
#endif

#endif /* PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_ */
