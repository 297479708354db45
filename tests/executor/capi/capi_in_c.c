/* A framework written in C: loads the plan of a folder and looks at all of it.
 *
 *   capi_in_c FOLDER     FOLDER has envelope.json, changed.json (one bit off), trust.json,
 *                        model.json and topology.json of the plan in capi_test.cc
 *
 * Ends with 0, or with the line of what is not as it should be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor/capi/parplan_executor.h"

#define EXPECT(condition)                                                                   \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                       \
      fprintf(stderr, "last error: %d %s %s\n", (int)error.code, error.reason, error.text); \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

static parplan_error error;

static parplan_text Read(const char* folder, const char* name) {
  char path[4096];
  parplan_text text = {NULL, 0};
  FILE* file = NULL;
  long size = 0;
  char* data = NULL;
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  file = fopen(path, "rb");
  EXPECT(file != NULL);
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  fseek(file, 0, SEEK_SET);
  data = malloc((size_t)size + 1);
  EXPECT(data != NULL && fread(data, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  text.data = data;
  text.size = (size_t)size;
  return text;
}

static void CheckRefusals(parplan_source source, parplan_text changed) {
  parplan_plan* plan = NULL;
  parplan_source other = source;
  other.envelope = changed;
  EXPECT(parplan_plan_load(&other, &plan, &error) == PARPLAN_REFUSED);
  EXPECT(plan == NULL && strcmp(error.reason, "SIGNATURE_INVALID") == 0);
  other = source;
  other.time = 4000000000;
  EXPECT(parplan_plan_load(&other, &plan, &error) == PARPLAN_REFUSED);
  EXPECT(strcmp(error.reason, "PLAN_EXPIRED") == 0);
  other = source;
  other.node_name = "elsewhere";
  EXPECT(parplan_plan_load(&other, &plan, &error) == PARPLAN_REFUSED);
  EXPECT(strcmp(error.reason, "AUDIENCE_MISMATCH") == 0);
  other = source;
  other.model.size = 0;
  EXPECT(parplan_plan_load(&other, &plan, &error) == PARPLAN_INVALID_ARGUMENT);
  other = source;
  other.size = 0;
  EXPECT(parplan_plan_load(&other, &plan, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(parplan_plan_load(NULL, &plan, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(parplan_plan_load(&source, NULL, &error) == PARPLAN_INVALID_ARGUMENT);
  /* Nobody has to hear of it. */
  EXPECT(parplan_plan_load(NULL, &plan, NULL) == PARPLAN_INVALID_ARGUMENT);
}

static void CheckLayers(const parplan_plan* plan) {
  parplan_layer layer;
  layer.size = sizeof(layer);
  EXPECT(parplan_plan_get_layer(plan, 0, &layer, &error) == PARPLAN_OK);
  EXPECT(layer.stage_index == 0 && layer.first_rank == 0 && layer.rank_count == 2);
  EXPECT(layer.tensor_parallel_degree == 2 && layer.data_parallel_degree == 1);
  EXPECT(layer.sharding == PARPLAN_SHARDING_NONE && layer.recompute == PARPLAN_RECOMPUTE_NONE);
  EXPECT(parplan_plan_get_layer(plan, 1, &layer, &error) == PARPLAN_OK);
  EXPECT(layer.data_parallel_degree == 2 && layer.sharding == PARPLAN_SHARDING_PARAMETERS);
  EXPECT(parplan_plan_get_layer(plan, 2, &layer, &error) == PARPLAN_OK);
  EXPECT(layer.stage_index == 1 && layer.first_rank == 2 && layer.sequence_parallel == 1);
  EXPECT(parplan_plan_get_layer(plan, 4, &layer, &error) == PARPLAN_OUT_OF_RANGE);
  EXPECT(parplan_plan_get_layer(plan, -1, &layer, &error) == PARPLAN_OUT_OF_RANGE);
}

/* A handle that could not be made is NULL, also if the plan is missing. */
static void CheckMissingPlan(void) {
  int something = 0;
  parplan_rank* rank = (parplan_rank*)&something;
  parplan_report* report = (parplan_report*)&something;
  EXPECT(parplan_rank_open(NULL, 0, &rank, &error) == PARPLAN_INVALID_ARGUMENT && rank == NULL);
  EXPECT(parplan_report_open(NULL, "127.0.0.1:1", &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(report == NULL && strstr(error.text, "plan") != NULL);
  EXPECT(parplan_rank_open(NULL, 0, NULL, &error) == PARPLAN_INVALID_ARGUMENT);
}

/* A caller of an earlier release knows fewer members. */
static void CheckShortStructs(const parplan_plan* plan) {
  parplan_layer layer;
  memset(&layer, 0x55, sizeof(layer));
  layer.size = offsetof(parplan_layer, rank_count);
  EXPECT(parplan_plan_get_layer(plan, 0, &layer, &error) == PARPLAN_OK);
  EXPECT(layer.stage_index == 0 && layer.rank_count == 0x55555555);
  layer.size = 0;
  EXPECT(parplan_plan_get_layer(plan, 0, &layer, &error) == PARPLAN_INVALID_ARGUMENT);
}

static void CheckGroups(parplan_plan* plan) {
  int32_t count = 0;
  int32_t index = 0;
  int32_t tensor_groups = 0;
  parplan_group group;
  group.size = sizeof(group);
  EXPECT(parplan_plan_group_count(plan, &count, &error) == PARPLAN_OK && count > 0);
  for (index = 0; index < count; ++index) {
    EXPECT(parplan_plan_get_group(plan, index, &group, &error) == PARPLAN_OK);
    EXPECT(group.rank_count > 1 && group.ranks[0] >= 0);
    if (strcmp(group.purpose, "tensor") == 0) {
      EXPECT(group.rank_count == 2 && group.ranks[1] == group.ranks[0] + 1);
      ++tensor_groups;
    }
  }
  EXPECT(tensor_groups == 2);
  EXPECT(parplan_plan_get_group(plan, count, &group, &error) == PARPLAN_OUT_OF_RANGE);
}

static void CheckRank(const parplan_plan* plan) {
  parplan_rank* rank = NULL;
  parplan_layer_groups groups;
  parplan_group group;
  parplan_pass pass;
  int32_t count = 0;
  int32_t index = 0;
  int32_t backward_count = 0;
  groups.size = sizeof(groups);
  group.size = sizeof(group);
  pass.size = sizeof(pass);
  EXPECT(parplan_rank_open(plan, 4, &rank, &error) == PARPLAN_OUT_OF_RANGE && rank == NULL);
  EXPECT(parplan_rank_open(plan, 3, &rank, &error) == PARPLAN_OK);
  /* The second stage has layers 2 and 3. */
  EXPECT(parplan_rank_get_layer_groups(rank, 0, &groups, &error) == PARPLAN_OUT_OF_RANGE);
  EXPECT(parplan_rank_get_layer_groups(rank, 2, &groups, &error) == PARPLAN_OK);
  EXPECT(groups.tensor >= 0 && groups.context == -1 && groups.gradient == -1);
  EXPECT(parplan_rank_get_group(rank, groups.tensor, &group, &error) == PARPLAN_OK);
  EXPECT(strcmp(group.purpose, "tensor") == 0);
  EXPECT(group.rank_count == 2 && group.ranks[0] == 2 && group.ranks[1] == 3);
  EXPECT(parplan_rank_group_count(rank, &count, &error) == PARPLAN_OK && count >= 3);
  EXPECT(parplan_rank_get_group(rank, count, &group, &error) == PARPLAN_OUT_OF_RANGE);
  EXPECT(parplan_rank_pass_count(rank, &count, &error) == PARPLAN_OK);
  EXPECT(count == 8);
  for (index = 0; index < count; ++index) {
    EXPECT(parplan_rank_get_pass(rank, index, &pass, &error) == PARPLAN_OK);
    EXPECT(pass.stage_index == 1 && pass.micro_batch >= 0 && pass.micro_batch < 4);
    /* The last stage of 1F1B goes forward and backward in turn. */
    EXPECT(pass.is_backward == index % 2);
    backward_count += pass.is_backward;
  }
  EXPECT(backward_count == 4);
  EXPECT(parplan_rank_get_pass(rank, count, &pass, &error) == PARPLAN_OUT_OF_RANGE);
  parplan_rank_free(rank);
  parplan_rank_free(NULL);
}

/* Nobody listens at that port, so all windows are lost, and the job is none the worse. It ends
 * within the 10 s that the header promises; `time` counts whole seconds. */
static void CheckReport(const parplan_plan* plan) {
  parplan_report* report = NULL;
  parplan_window window;
  int64_t lost = 0;
  time_t begin = 0;
  memset(&window, 0, sizeof(window));
  window.size = sizeof(window);
  window.step_count = 10;
  window.median_step_seconds = 0.25;
  EXPECT(parplan_report_open(plan, "", &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(parplan_report_open(plan, "127.0.0.1:1", &report, &error) == PARPLAN_OK);
  EXPECT(parplan_report_add(report, &window, &error) == PARPLAN_OK);
  window.step_count = 0;
  EXPECT(parplan_report_add(report, &window, &error) == PARPLAN_INVALID_ARGUMENT);
  /* It would be 0 ns, for which the server refuses all windows of a message. */
  window.step_count = 10;
  window.median_step_seconds = 0.9e-9;
  EXPECT(parplan_report_add(report, &window, &error) == PARPLAN_INVALID_ARGUMENT);
  begin = time(NULL);
  EXPECT(parplan_report_close(report, NULL, &lost, &error) == PARPLAN_OK);
  EXPECT(lost == 1);
  EXPECT(difftime(time(NULL), begin) <= 11.0);
}

static void CheckServers(const parplan_plan* plan) {
  parplan_report* report = NULL;
  parplan_server server;
  memset(&server, 0, sizeof(server));
  EXPECT(parplan_report_open_with(plan, NULL, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  server.size = sizeof(server);
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  server.target = "127.0.0.1:1";
  server.ca_file = "/nowhere/ca.pem";
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(report == NULL && strstr(error.text, "/nowhere/ca.pem") != NULL);
  /* A token that everybody on the way could read, and one that is not there. */
  server.ca_file = NULL;
  server.token_file = "/nowhere/token";
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(report == NULL && strstr(error.text, "token_file: a token is sent over TLS") != NULL);
  server.target = "unix:/nowhere/socket";
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_INVALID_ARGUMENT);
  EXPECT(report == NULL && strstr(error.text, "/nowhere/token") != NULL);
  /* A caller of before there were tokens: what follows its struct is not read. */
  server.size = offsetof(parplan_server, token_file);
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_OK);
  EXPECT(parplan_report_close(report, "nothing ran", NULL, &error) == PARPLAN_OK);
  server.target = "127.0.0.1:1";
  /* A caller that knows no more than the target. */
  server.size = offsetof(parplan_server, use_tls);
  EXPECT(parplan_report_open_with(plan, &server, &report, &error) == PARPLAN_OK);
  EXPECT(parplan_report_close(report, "nothing ran", NULL, &error) == PARPLAN_OK);
}

int main(int argc, char** argv) {
  parplan_source source;
  parplan_plan* plan = NULL;
  parplan_plan_info info;
  if (argc != 2) return 2;
  memset(&source, 0, sizeof(source));
  source.size = sizeof(source);
  source.envelope = Read(argv[1], "envelope.json");
  source.trust = Read(argv[1], "trust.json");
  source.model = Read(argv[1], "model.json");
  source.topology = Read(argv[1], "topology.json");
  EXPECT(parplan_executor_abi() == PARPLAN_EXECUTOR_ABI);
  EXPECT(strlen(parplan_executor_release()) > 0);
  CheckRefusals(source, Read(argv[1], "changed.json"));
  EXPECT(parplan_plan_load(&source, &plan, &error) == PARPLAN_OK);
  info.size = sizeof(info);
  EXPECT(parplan_plan_get_info(plan, &info, &error) == PARPLAN_OK);
  EXPECT(strcmp(info.name, "clusters/tests/plans/capi") == 0);
  EXPECT(info.device_count == 4 && info.layer_count == 4 && info.pipeline_parallel_degree == 2);
  EXPECT(info.global_batch_size == 8 && info.micro_batch_count == 4);
  EXPECT(info.schedule == PARPLAN_SCHEDULE_1F1B);
  EXPECT(info.predicted_step_seconds == 0.25);
  CheckMissingPlan();
  CheckLayers(plan);
  CheckShortStructs(plan);
  CheckGroups(plan);
  CheckRank(plan);
  CheckReport(plan);
  CheckServers(plan);
  parplan_plan_free(plan);
  parplan_plan_free(NULL);
  return 0;
}
