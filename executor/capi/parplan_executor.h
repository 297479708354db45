/* Plans for training frameworks: verifies a plan and describes what each layer and rank has to do.
 * Frameworks call libparplan_executor.so by it, and so does the Python package parplan_executor
 * (clients/python).
 *
 * Plain C99. It executes nothing: groups and collectives stay the framework's. No function throws,
 * prints or ends the process.
 *
 *   parplan_error error;
 *   parplan_source source = {sizeof source, envelope, trust, model, topology, NULL, NULL, 0};
 *   parplan_plan* plan = NULL;
 *   if (parplan_plan_load(&source, &plan, &error) != PARPLAN_OK) fail(error.reason, error.text);
 *   parplan_layer layer = {sizeof layer};
 *   parplan_plan_get_layer(plan, 0, &layer, &error);
 *   ...                       the degrees, sharding and recomputation of layer 0
 *   parplan_rank* rank = NULL;
 *   parplan_rank_open(plan, my_rank, &rank, &error);
 *   ...                       the groups and passes of this rank
 *   parplan_rank_free(rank);
 *   parplan_plan_free(plan);
 *
 * Errors: functions that can fail return PARPLAN_OK or another parplan_status; in the second case
 * they fill `error` if it is not NULL; else they leave it as it was. A handle, an output or a
 * struct that is NULL, or a `size` that was not set, is PARPLAN_INVALID_ARGUMENT; an index outside
 * [0, count) is PARPLAN_OUT_OF_RANGE. A handle that could not be made is set to NULL.
 *
 * Threads: several threads may use one plan or one rank at the same time, but not while it is
 * freed. A report is used by one thread at a time. Memory: what a function returns a pointer to
 * belongs to the handle and lives as long as it does.
 *
 * Structs that begin with `size` are read or filled up to that many bytes: set it to sizeof before
 * a call, so that later releases can add members. A function that fills a struct sets `size` to the
 * bytes that it filled, which are fewer if the library is older than the header; the rest stays as
 * it was.
 */

#ifndef PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_
#define PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when a function or member changes its meaning or is removed. */
#define PARPLAN_EXECUTOR_ABI 1

/* Returns the ABI of the loaded library, to be compared with PARPLAN_EXECUTOR_ABI. */
int32_t parplan_executor_abi(void);
/* Returns the release for messages, for example "0.1.0". */
const char* parplan_executor_release(void);

/* The result of a call. */
typedef enum parplan_status {
  PARPLAN_OK = 0,
  /* An argument or a file breaks a rule, or this library cannot describe the plan. */
  PARPLAN_INVALID_ARGUMENT = 1,
  /* The plan must not be run here, because of its signature, content, time, audience, topology or
   * model. */
  PARPLAN_REFUSED = 2,
  /* No such layer, rank, group or pass. */
  PARPLAN_OUT_OF_RANGE = 3,
  /* A defect of the library, or too little memory. */
  PARPLAN_INTERNAL = 4
} parplan_status;

/* An error of a call, filled in only if the call fails. */
typedef struct parplan_error {
  /* A parplan_status. */
  int32_t code;
  /* Reason as in ErrorInfo, for example "PLAN_EXPIRED"; empty if there is none. */
  char reason[64];
  /* One sentence, or up to 20 lines for a file. Both texts are zero-terminated, and cut if they
   * are longer than their arrays. */
  char text[1024];
} parplan_error;

/* Handles: to a verified plan, to the program of one of its ranks, and to a report of measurements.
 * Each is made by a function below and freed by its own. */
typedef struct parplan_plan parplan_plan;
typedef struct parplan_rank parplan_rank;
typedef struct parplan_report parplan_report;

/* A text and its length in bytes; `data` may be NULL for none. The caller keeps it. */
typedef struct parplan_text {
  const char* data;
  size_t size;
} parplan_text;

/* What a plan is loaded from. The texts are needed during the call alone. */
typedef struct parplan_source {
  size_t size;
  /* Contents of files: signed plan (DSSE, JSON), trust bundle (JWKS), model, cluster. */
  parplan_text envelope;
  parplan_text trust;
  parplan_text model;
  parplan_text topology;
  /* Job and node that the plan must be for; NULL or empty: not checked. */
  const char* job_id;
  const char* node_name;
  /* Seconds since 1970; 0: now. */
  int64_t time;
} parplan_source;

/* Verifies the plan and creates a handle. PARPLAN_REFUSED for a malformed envelope or a plan that
 * must not be run here; PARPLAN_INVALID_ARGUMENT for another file that breaks a rule, or a plan
 * that this library cannot describe. It neither compares the trust bundle with one that was used
 * before nor looks at the runtime for which the plan was predicted. */
int32_t parplan_plan_load(const parplan_source* source, parplan_plan** plan, parplan_error* error);
/* Frees a plan, after its ranks and reports; does nothing for NULL. */
void parplan_plan_free(parplan_plan* plan);

/* The order of the passes of micro-batches on each rank. */
typedef enum parplan_schedule {
  PARPLAN_SCHEDULE_1F1B = 1,
  PARPLAN_SCHEDULE_GPIPE = 2,
  PARPLAN_SCHEDULE_INTERLEAVED = 3,
  /* Ranks of this library refuse it. */
  PARPLAN_SCHEDULE_ZERO_BUBBLE = 4
} parplan_schedule;

/* The facts of a whole plan, and its prediction. */
typedef struct parplan_plan_info {
  size_t size;
  /* clusters/{cluster}/plans/{plan} */
  const char* name;
  int32_t device_count;
  int32_t layer_count;
  /* Pipeline degree (groups of ranks that a sample passes through), and stages on each group. */
  int32_t pipeline_parallel_degree;
  int32_t virtual_stage_count;
  /* Samples of a step, and the micro-batches into which they are split. */
  int64_t global_batch_size;
  int64_t micro_batch_count;
  /* A parplan_schedule. */
  int32_t schedule;
  /* Time of a step, and memory of the fullest device. */
  double predicted_step_seconds;
  int64_t predicted_peak_memory_bytes;
  /* Seconds since 1970. */
  int64_t expire_time;
} parplan_plan_info;

/* Fills in the facts of the whole plan. */
int32_t parplan_plan_get_info(const parplan_plan* plan, parplan_plan_info* info,
                              parplan_error* error);

/* What the data- and context-parallel ranks of a layer divide among them: nothing, the optimizer
 * states (ZeRO-1), the gradients too (ZeRO-2), the parameters too (ZeRO-3, FSDP). */
typedef enum parplan_sharding {
  PARPLAN_SHARDING_NONE = 1,
  PARPLAN_SHARDING_OPTIMIZER = 2,
  PARPLAN_SHARDING_GRADIENTS = 3,
  PARPLAN_SHARDING_PARAMETERS = 4
} parplan_sharding;

/* What a layer computes again in its backward pass: nothing, all of it, or parts of it. */
typedef enum parplan_recompute {
  PARPLAN_RECOMPUTE_NONE = 1,
  PARPLAN_RECOMPUTE_FULL = 2,
  PARPLAN_RECOMPUTE_SELECTIVE = 3
} parplan_recompute;

/* How ranks that share the tokens of a sample attend to all of them: keys and values go round a
 * ring, or all-to-alls trade tokens for heads (DeepSpeed-Ulysses). */
typedef enum parplan_context_kind {
  PARPLAN_CONTEXT_RING = 1,
  PARPLAN_CONTEXT_ULYSSES = 2
} parplan_context_kind;

/* The strategy of one layer, and the ranks it is on. Degrees are at least 1. */
typedef struct parplan_layer {
  size_t size;
  /* Stage of the plan, counted from 0 over the whole model, and its ranks: first_rank to
   * first_rank + rank_count - 1. */
  int32_t stage_index;
  int32_t first_rank;
  int32_t rank_count;
  int32_t tensor_parallel_degree;
  int32_t data_parallel_degree;
  int32_t context_parallel_degree;
  /* A parplan_sharding, parplan_recompute and parplan_context_kind; the last has no meaning if
   * context_parallel_degree is 1. */
  int32_t sharding;
  int32_t recompute;
  int32_t context_kind;
  /* 0 or 1. */
  int32_t sequence_parallel;
  /* 1: tensor-parallel ranks are consecutive; 0: data-parallel ranks are. */
  int32_t tensor_innermost;
} parplan_layer;

/* Describes the strategy of layer `layer`, counted from 0 through the whole model, the embedding
 * and the head included. */
int32_t parplan_plan_get_layer(const parplan_plan* plan, int32_t layer, parplan_layer* out,
                               parplan_error* error);

/* Ranks that communicate with each other for one purpose. */
typedef struct parplan_group {
  size_t size;
  /* "tensor" and "context": ranks that share the matrices, or the tokens, of a layer. "gradient":
   * ranks with the same part of the parameters. "stage": all ranks of a stage, which move
   * activations between layouts. "forward N" and "backward N": messages between stages N and N + 1.
   * "tied": the embedding and the head that share a table. "loss": the sum of the loss. */
  const char* purpose;
  /* Ranks of the job, in the order of the group, and their number. */
  const int32_t* ranks;
  int32_t rank_count;
} parplan_group;

/* List the groups of all ranks, each once and each of two or more ranks, in an order in which all
 * ranks of the job can make them together, as torch.distributed.new_group requires. The first call
 * takes time proportional to the number of ranks. */
int32_t parplan_plan_group_count(parplan_plan* plan, int32_t* count, parplan_error* error);
int32_t parplan_plan_get_group(parplan_plan* plan, int32_t index, parplan_group* group,
                               parplan_error* error);

/* Creates a handle to the program of rank `rank`, counted from 0. The plan must outlive it. */
int32_t parplan_rank_open(const parplan_plan* plan, int32_t rank, parplan_rank** out,
                          parplan_error* error);
/* Frees a rank; does nothing for NULL. */
void parplan_rank_free(parplan_rank* rank);

/* List the groups of two or more ranks that this rank is in, in the order in which
 * parplan_plan_get_group lists them. */
int32_t parplan_rank_group_count(const parplan_rank* rank, int32_t* count, parplan_error* error);
int32_t parplan_rank_get_group(const parplan_rank* rank, int32_t index, parplan_group* group,
                               parplan_error* error);

/* Groups of one layer on a rank, as indices for parplan_rank_get_group; -1 if the rank is alone. */
typedef struct parplan_layer_groups {
  size_t size;
  int32_t tensor;
  int32_t context;
  /* Ranks with the same part of the parameters. */
  int32_t gradient;
} parplan_layer_groups;

/* Returns the groups of layer `layer`. PARPLAN_OUT_OF_RANGE if the layer is on other ranks. */
int32_t parplan_rank_get_layer_groups(const parplan_rank* rank, int32_t layer,
                                      parplan_layer_groups* groups, parplan_error* error);

/* One pass over the layers of a stage. */
typedef struct parplan_pass {
  size_t size;
  /* Stage of the plan, as in parplan_layer. */
  int32_t stage_index;
  /* 0 or 1. */
  int32_t is_backward;
  /* Counted from 0. */
  int64_t micro_batch;
} parplan_pass;

/* List the passes that the rank makes in a step, in order. */
int32_t parplan_rank_pass_count(const parplan_rank* rank, int32_t* count, parplan_error* error);
int32_t parplan_rank_get_pass(const parplan_rank* rank, int32_t index, parplan_pass* pass,
                              parplan_error* error);

/* A server and how to connect to it. NULL texts are empty. */
typedef struct parplan_server {
  size_t size;
  /* Required. "HOST:PORT", "dns:///NAME:PORT" for replicas, "unix:PATH" for the sidecar of a pod.
   */
  const char* target;
  /* 1: use TLS. It is also used if one of the files below is given. */
  int32_t use_tls;
  /* Files in PEM: authorities to trust, by default the system's; and a client certificate with its
   * key, both or none. */
  const char* ca_file;
  const char* certificate_file;
  const char* key_file;
  /* Name in the server's certificate, if it is not that of the target. */
  const char* server_name;
  /* File with a token of a Kubernetes service account, which each call sends. It is read anew for
   * each call. Needs TLS or a target "unix:PATH". Other servers have no use for it. */
  const char* token_file;
} parplan_server;

/* Opens a report of measurements to the ExecutionService of a server. It works in the background:
 * adding never waits, and an unreachable server costs windows, not time. One process of the job
 * opens it. PARPLAN_INVALID_ARGUMENT for an empty target, a certificate without its key, a file
 * that cannot be used, which it names, or a token that would be sent over TCP without TLS; whether
 * the server answers, and takes certificate or token, shows in the lost windows. */
int32_t parplan_report_open_with(const parplan_plan* plan, const parplan_server* server,
                                 parplan_report** out, parplan_error* error);
/* Opens a report to a server without TLS at `target`. */
int32_t parplan_report_open(const parplan_plan* plan, const char* target, parplan_report** out,
                            parplan_error* error);

/* Measurements of one rank over some steps. */
typedef struct parplan_window {
  size_t size;
  int32_t rank;
  int32_t step_count;
  /* Number of the first step, counted from 0 at the first step under the plan of the report. */
  int64_t first_step;
  double median_step_seconds;
  /* 0: unknown. */
  int64_t peak_memory_bytes;
} parplan_window;

/* Hands over a window and returns at once. PARPLAN_INVALID_ARGUMENT for a negative number, no step,
 * or a step time below 1e-9 s or above 1e6 s. At most 4096 windows wait for the server;
 * beyond that the oldest are lost. The server checks the rank: if it refuses a window, those that
 * travel with it are lost too, at most 256 in all. */
int32_t parplan_report_add(parplan_report* report, const parplan_window* window,
                           parplan_error* error);

/* Reports how the job ended, and frees the report in any case. `failure` is the reason, perhaps
 * empty, for which the job failed, or NULL if it ended well. Returns within 10 s; a server that got
 * nothing is no error. `lost_count`, unless NULL, gets the number of windows that the server did
 * not take. */
int32_t parplan_report_close(parplan_report* report, const char* failure, int64_t* lost_count,
                             parplan_error* error);

#ifdef __cplusplus
}
#endif

#endif /* PARPLAN_EXECUTOR_CAPI_PARPLAN_EXECUTOR_H_ */
