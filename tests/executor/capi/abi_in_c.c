/* What callers of the C interface were compiled with, a line each: values, how structs lie in
 * memory, and types of functions. capi_test.cc compares it with abi_1.txt.
 */
#include <stddef.h>
#include <stdio.h>

#include "executor/capi/parplan_executor.h"

#define VALUE(name) printf("%s = %d\n", #name, (int)(name))
#define STRUCT(type) printf("%s: %zu bytes\n", #type, sizeof(type))
#define MEMBER(type, member)                                                      \
  printf("%s.%s: %zu bytes at %zu\n", #type, #member, sizeof(((type*)0)->member), \
         offsetof(type, member))

/* The compiler looks whether the function is of this type. */
#define FUNCTION(result, name, arguments)            \
  do {                                               \
    result(*const function) arguments = name;        \
    (void)function;                                  \
    printf("%s %s%s\n", #result, #name, #arguments); \
  } while (0)

int main(void) {
  VALUE(PARPLAN_EXECUTOR_ABI);
  VALUE(PARPLAN_OK);
  VALUE(PARPLAN_INVALID_ARGUMENT);
  VALUE(PARPLAN_REFUSED);
  VALUE(PARPLAN_OUT_OF_RANGE);
  VALUE(PARPLAN_INTERNAL);
  VALUE(PARPLAN_SCHEDULE_1F1B);
  VALUE(PARPLAN_SCHEDULE_GPIPE);
  VALUE(PARPLAN_SCHEDULE_INTERLEAVED);
  VALUE(PARPLAN_SCHEDULE_ZERO_BUBBLE);
  VALUE(PARPLAN_SHARDING_NONE);
  VALUE(PARPLAN_SHARDING_OPTIMIZER);
  VALUE(PARPLAN_SHARDING_GRADIENTS);
  VALUE(PARPLAN_SHARDING_PARAMETERS);
  VALUE(PARPLAN_RECOMPUTE_NONE);
  VALUE(PARPLAN_RECOMPUTE_FULL);
  VALUE(PARPLAN_RECOMPUTE_SELECTIVE);
  VALUE(PARPLAN_CONTEXT_RING);
  VALUE(PARPLAN_CONTEXT_ULYSSES);
  STRUCT(parplan_error);
  MEMBER(parplan_error, code);
  MEMBER(parplan_error, reason);
  MEMBER(parplan_error, text);
  STRUCT(parplan_text);
  MEMBER(parplan_text, data);
  MEMBER(parplan_text, size);
  STRUCT(parplan_source);
  MEMBER(parplan_source, size);
  MEMBER(parplan_source, envelope);
  MEMBER(parplan_source, trust);
  MEMBER(parplan_source, model);
  MEMBER(parplan_source, topology);
  MEMBER(parplan_source, job_id);
  MEMBER(parplan_source, node_name);
  MEMBER(parplan_source, time);
  STRUCT(parplan_plan_info);
  MEMBER(parplan_plan_info, size);
  MEMBER(parplan_plan_info, name);
  MEMBER(parplan_plan_info, device_count);
  MEMBER(parplan_plan_info, layer_count);
  MEMBER(parplan_plan_info, pipeline_parallel_degree);
  MEMBER(parplan_plan_info, virtual_stage_count);
  MEMBER(parplan_plan_info, global_batch_size);
  MEMBER(parplan_plan_info, micro_batch_count);
  MEMBER(parplan_plan_info, schedule);
  MEMBER(parplan_plan_info, predicted_step_seconds);
  MEMBER(parplan_plan_info, predicted_peak_memory_bytes);
  MEMBER(parplan_plan_info, expire_time);
  STRUCT(parplan_layer);
  MEMBER(parplan_layer, size);
  MEMBER(parplan_layer, stage_index);
  MEMBER(parplan_layer, first_rank);
  MEMBER(parplan_layer, rank_count);
  MEMBER(parplan_layer, tensor_parallel_degree);
  MEMBER(parplan_layer, data_parallel_degree);
  MEMBER(parplan_layer, context_parallel_degree);
  MEMBER(parplan_layer, sharding);
  MEMBER(parplan_layer, recompute);
  MEMBER(parplan_layer, context_kind);
  MEMBER(parplan_layer, sequence_parallel);
  MEMBER(parplan_layer, tensor_innermost);
  STRUCT(parplan_group);
  MEMBER(parplan_group, size);
  MEMBER(parplan_group, purpose);
  MEMBER(parplan_group, ranks);
  MEMBER(parplan_group, rank_count);
  STRUCT(parplan_layer_groups);
  MEMBER(parplan_layer_groups, size);
  MEMBER(parplan_layer_groups, tensor);
  MEMBER(parplan_layer_groups, context);
  MEMBER(parplan_layer_groups, gradient);
  STRUCT(parplan_pass);
  MEMBER(parplan_pass, size);
  MEMBER(parplan_pass, stage_index);
  MEMBER(parplan_pass, is_backward);
  MEMBER(parplan_pass, micro_batch);
  STRUCT(parplan_server);
  MEMBER(parplan_server, size);
  MEMBER(parplan_server, target);
  MEMBER(parplan_server, use_tls);
  MEMBER(parplan_server, ca_file);
  MEMBER(parplan_server, certificate_file);
  MEMBER(parplan_server, key_file);
  MEMBER(parplan_server, server_name);
  MEMBER(parplan_server, token_file);
  STRUCT(parplan_window);
  MEMBER(parplan_window, size);
  MEMBER(parplan_window, rank);
  MEMBER(parplan_window, step_count);
  MEMBER(parplan_window, first_step);
  MEMBER(parplan_window, median_step_seconds);
  MEMBER(parplan_window, peak_memory_bytes);
  FUNCTION(int32_t, parplan_executor_abi, (void));
  FUNCTION(const char*, parplan_executor_release, (void));
  FUNCTION(int32_t, parplan_plan_load, (const parplan_source*, parplan_plan**, parplan_error*));
  FUNCTION(void, parplan_plan_free, (parplan_plan*));
  FUNCTION(int32_t, parplan_plan_get_info,
           (const parplan_plan*, parplan_plan_info*, parplan_error*));
  FUNCTION(int32_t, parplan_plan_get_layer,
           (const parplan_plan*, int32_t, parplan_layer*, parplan_error*));
  FUNCTION(int32_t, parplan_plan_group_count, (parplan_plan*, int32_t*, parplan_error*));
  FUNCTION(int32_t, parplan_plan_get_group,
           (parplan_plan*, int32_t, parplan_group*, parplan_error*));
  FUNCTION(int32_t, parplan_rank_open,
           (const parplan_plan*, int32_t, parplan_rank**, parplan_error*));
  FUNCTION(void, parplan_rank_free, (parplan_rank*));
  FUNCTION(int32_t, parplan_rank_group_count, (const parplan_rank*, int32_t*, parplan_error*));
  FUNCTION(int32_t, parplan_rank_get_group,
           (const parplan_rank*, int32_t, parplan_group*, parplan_error*));
  FUNCTION(int32_t, parplan_rank_get_layer_groups,
           (const parplan_rank*, int32_t, parplan_layer_groups*, parplan_error*));
  FUNCTION(int32_t, parplan_rank_pass_count, (const parplan_rank*, int32_t*, parplan_error*));
  FUNCTION(int32_t, parplan_rank_get_pass,
           (const parplan_rank*, int32_t, parplan_pass*, parplan_error*));
  FUNCTION(int32_t, parplan_report_open_with,
           (const parplan_plan*, const parplan_server*, parplan_report**, parplan_error*));
  FUNCTION(int32_t, parplan_report_open,
           (const parplan_plan*, const char*, parplan_report**, parplan_error*));
  FUNCTION(int32_t, parplan_report_add, (parplan_report*, const parplan_window*, parplan_error*));
  FUNCTION(int32_t, parplan_report_close, (parplan_report*, const char*, int64_t*, parplan_error*));
  return 0;
}
