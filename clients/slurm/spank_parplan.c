/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later */
/*
 * parplan inside Slurm's own programs: options of sbatch, salloc and srun, and the environment
 * of tasks. docs/slurm.md.
 *
 *   sbatch --plan=auto --plan-model=gpt.json --plan-batch=512 ...
 *
 * Where a job is submitted, options are checked and the model file is read, as the user, and
 * handed to the prolog of the controller in the job's own environment for prologs. In slurmstepd
 * the files that the node's prolog has left (node_files.h) become variables of the tasks. Nothing
 * here talks to anybody.
 *
 * plugstack.conf: required spank_parplan.so node_dir=/run/parplan/jobs
 * `required`, so that a job whose plan was refused does not run.
 */

#include <errno.h>
#include <limits.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

SPANK_PLUGIN(parplan, 1)

/* A string of the environment has at most 128 KiB. */
#define MAX_MODEL_BYTES 98304
#define MAX_WORD_BYTES 256
#define TOKEN_BYTES 16

enum {
  OPTION_PLAN,
  OPTION_MODEL,
  OPTION_BATCH,
  OPTION_PLANNER,
  OPTION_RUNTIME,
  OPTION_TARGET,
  OPTION_SPACE,
  OPTION_EXPORT
};

static char node_dir[PATH_MAX] = "/run/parplan/jobs";
/* Empty where it was not asked for. */
static char plan[MAX_WORD_BYTES];
static char model_path[PATH_MAX];
static char batch[MAX_WORD_BYTES];
static char planner[MAX_WORD_BYTES];
static char runtime[MAX_WORD_BYTES];
static char target[MAX_WORD_BYTES];
static char space[MAX_WORD_BYTES];
static char exports[MAX_WORD_BYTES];

/* Letters of names of plans, planners, runtimes and targets, and of lists of such names. */
static int is_word(const char* text) {
  return text[0] != '\0' && strlen(text) < MAX_WORD_BYTES &&
         strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+,") ==
             strlen(text);
}

static int set_word(char* field, const char* name, const char* text) {
  if (!is_word(text)) {
    slurm_error("parplan: --%s: `%s` is no name", name, text);
    return -1;
  }
  strcpy(field, text);
  return 0;
}

static int on_option(int option, const char* text, int remote) {
  if (text == NULL) return -1;
  switch (option) {
    case OPTION_PLAN:
      return set_word(plan, "plan", text);
    case OPTION_PLANNER:
      return set_word(planner, "plan-planner", text);
    case OPTION_RUNTIME:
      return set_word(runtime, "plan-runtime", text);
    case OPTION_TARGET:
      return set_word(target, "plan-target", text);
    case OPTION_SPACE:
      return set_word(space, "plan-space", text);
    case OPTION_EXPORT:
      return set_word(exports, "plan-export", text);
    case OPTION_BATCH: {
      char* end = NULL;
      errno = 0;
      const long long number = strtoll(text, &end, 10);
      if (!remote && (errno != 0 || end == text || *end != '\0' || number < 1)) {
        slurm_error("parplan: --plan-batch: give a whole number above 0, not `%s`", text);
        return -1;
      }
      snprintf(batch, sizeof batch, "%s", text);
      return 0;
    }
    case OPTION_MODEL:
      if (strlen(text) >= sizeof model_path) {
        slurm_error("parplan: --plan-model: a path has at most %d bytes", PATH_MAX - 1);
        return -1;
      }
      strcpy(model_path, text);
      return 0;
    default:
      return -1;
  }
}

static struct spank_option options[] = {
    {"plan", "auto|off|NAME", "Have the job planned: how to parallelise its training (parplan)", 1,
     OPTION_PLAN, on_option},
    {"plan-model", "FILE", "Model to plan for; turns --plan=auto on", 1, OPTION_MODEL, on_option},
    {"plan-batch", "N", "Samples per optimizer step of the whole job", 1, OPTION_BATCH, on_option},
    {"plan-planner", "NAME", "Planner to ask", 1, OPTION_PLANNER, on_option},
    {"plan-runtime", "NAME", "Runtime that will train", 1, OPTION_RUNTIME, on_option},
    {"plan-target", "NAME", "Only plans that this program can run", 1, OPTION_TARGET, on_option},
    {"plan-space", "LIST", "Dimensions that may vary: all or none, then names (planctl plan)", 1,
     OPTION_SPACE, on_option},
    {"plan-export", "LIST", "Leave the plan as files of these programs on the nodes", 1,
     OPTION_EXPORT, on_option},
};

int slurm_spank_init(spank_t sp, int argc, char** argv) {
  for (int k = 0; k < argc; ++k) {
    if (strncmp(argv[k], "node_dir=", 9) != 0) {
      slurm_error("parplan: plugstack.conf: no such argument: %s", argv[k]);
      return -1;
    }
    snprintf(node_dir, sizeof node_dir, "%s", argv[k] + 9);
  }
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return 0;
  for (size_t k = 0; k < sizeof options / sizeof options[0]; ++k) {
    if (spank_option_register(sp, &options[k]) != ESPANK_SUCCESS) return -1;
  }
  return 0;
}

/* White space between the words of JSON becomes one space, so that it is one line. */
static void squeeze(char* text) {
  char* out = text;
  int in_string = 0;
  for (char* in = text; *in != '\0'; ++in) {
    if (in_string && *in == '\\' && in[1] != '\0')
      *out++ = *in++;
    else if (*in == '"')
      in_string = !in_string;
    if (!in_string && strchr(" \t\r\n", *in) != NULL) {
      if (out == text || out[-1] == ' ') continue;
      *out++ = ' ';
      continue;
    }
    *out++ = *in;
  }
  *out = '\0';
}

/* The file, to be freed; NULL after an error was told. */
static char* read_model(void) {
  FILE* file = fopen(model_path, "re");
  if (file == NULL) {
    slurm_error("parplan: --plan-model: %s: %s", model_path, strerror(errno));
    return NULL;
  }
  char* text = calloc(1, MAX_MODEL_BYTES + 2);
  size_t size = 0;
  if (text != NULL) size = fread(text, 1, MAX_MODEL_BYTES + 1, file);
  const int failed = text == NULL || ferror(file) || memchr(text, '\0', size) != NULL;
  fclose(file);
  if (failed || size == 0) {
    slurm_error("parplan: --plan-model: %s: is no model file", model_path);
    free(text);
    return NULL;
  }
  squeeze(text);
  if (size > MAX_MODEL_BYTES) {
    slurm_error("parplan: --plan-model: %s: has more than %d bytes", model_path, MAX_MODEL_BYTES);
    free(text);
    return NULL;
  }
  return text;
}

static int hand_on(spank_t sp, const char* name, const char* value) {
  if (value[0] == '\0') return 0;
  const spank_err_t error = spank_job_control_setenv(sp, name, value, 1);
  if (error == ESPANK_SUCCESS) return 0;
  slurm_error("parplan: %s: %s", name, spank_strerror(error));
  return -1;
}

/* The secret that ranks of a step on several nodes share: srun sends it with the environment. */
static int give_token(void) {
  unsigned char bytes[TOKEN_BYTES];
  char text[2 * TOKEN_BYTES + 1];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return -1;
  for (int k = 0; k < TOKEN_BYTES; ++k) snprintf(text + (size_t)2 * k, 3, "%02x", bytes[k]);
  return setenv("PARPLAN_TOKEN", text, 0);
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char** argv) {
  (void)argc;
  (void)argv;
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR) return 0;
  if (plan[0] == '\0' && model_path[0] != '\0') strcpy(plan, "auto");
  /* A step: its job has its plan, and the script that starts the step was told so. */
  if (context == S_CTX_LOCAL && getenv("SLURM_JOB_ID") != NULL) {
    const int is_planned = getenv("PARPLAN_PLAN") != NULL || plan[0] != '\0';
    return is_planned && strcmp(plan, "off") != 0 ? give_token() : 0;
  }
  if (plan[0] == '\0' || strcmp(plan, "off") == 0) return 0;
  if (context == S_CTX_LOCAL && give_token() != 0) return -1;
  if (hand_on(sp, "PARPLAN_PLAN", plan) != 0 || hand_on(sp, "PARPLAN_EXPORT", exports) != 0) {
    return -1;
  }
  if (strcmp(plan, "auto") != 0) return 0;
  if (model_path[0] == '\0' || batch[0] == '\0') {
    slurm_error("parplan: --plan=auto needs --plan-model=FILE and --plan-batch=N");
    return -1;
  }
  char* model = read_model();
  if (model == NULL) return -1;
  const int failed =
      hand_on(sp, "PARPLAN_MODEL", model) != 0 || hand_on(sp, "PARPLAN_BATCH", batch) != 0 ||
      hand_on(sp, "PARPLAN_PLANNER", planner) != 0 ||
      hand_on(sp, "PARPLAN_RUNTIME", runtime) != 0 || hand_on(sp, "PARPLAN_TARGET", target) != 0 ||
      hand_on(sp, "PARPLAN_SPACE", space) != 0;
  free(model);
  return failed ? -1 : 0;
}

/* The folder of this job on this node; 0 where the path is too long. */
static int job_folder(spank_t sp, char* path, size_t size) {
  uint32_t job = 0;
  char node[MAX_WORD_BYTES];
  if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS) return 0;
  size_t used = 0;
  for (const char* in = node_dir; *in != '\0'; ++in) {
    if (in[0] == '%' && in[1] == 'n') {
      if (spank_getenv(sp, "SLURMD_NODENAME", node, sizeof node) != ESPANK_SUCCESS) return 0;
      used += (size_t)snprintf(path + used, size - used, "%s", node);
      ++in;
    } else {
      used += (size_t)snprintf(path + used, size - used, "%c", *in);
    }
    if (used >= size) return 0;
  }
  used += (size_t)snprintf(path + used, size - used, "/%u", job);
  return used < size;
}

/* Sets the variables of a file, or takes them away, where it is there; -1 where one cannot be set.
 * Counts of devices among them are remembered. */
static int set_variables(spank_t sp, const char* path, int unset, long* node_devices,
                         long* job_devices) {
  FILE* file = fopen(path, "re");
  if (file == NULL) return errno == ENOENT ? 0 : -1;
  char* line = NULL;
  size_t capacity = 0;
  ssize_t length = 0;
  int failed = 0;
  while (!failed && (length = getline(&line, &capacity, file)) > 0) {
    if (line[length - 1] == '\n') line[length - 1] = '\0';
    char* value = strchr(line, '=');
    if (value == NULL) continue;
    *value++ = '\0';
    if (strcmp(line, "PARPLAN_NODE_DEVICE_COUNT") == 0) *node_devices = atol(value);
    if (strcmp(line, "PARPLAN_DEVICE_COUNT") == 0) *job_devices = atol(value);
    if (unset) {
      spank_unsetenv(sp, line);
    } else {
      failed = spank_setenv(sp, line, value, 1) != ESPANK_SUCCESS;
    }
  }
  free(line);
  fclose(file);
  return failed ? -1 : 0;
}

/* Whether the job must not run on this node, or nobody can tell; then the user is told why. */
static int is_refused(const char* folder) {
  char path[PATH_MAX + 16];
  char why[1024] = "";
  snprintf(path, sizeof path, "%s/refused", folder);
  FILE* file = fopen(path, "re");
  if (file == NULL && errno == ENOENT) return 0;
  if (file == NULL) {
    slurm_error("parplan: %s: %s", path, strerror(errno));
    return 1;
  }
  if (fgets(why, sizeof why, file) == NULL) why[0] = '\0';
  fclose(file);
  slurm_error("parplan: the job's plan was refused: %s", why);
  dprintf(STDERR_FILENO, "parplan: the job's plan was refused: %s", why);
  return 1;
}

/* Slurm puts options and what they handed on into the environment of tasks. A job that a job
 * submits would take them for its own. */
static void forget_wishes(spank_t sp) {
  static const char* const names[] = {"PARPLAN_PLAN",    "PARPLAN_MODEL",   "PARPLAN_BATCH",
                                      "PARPLAN_PLANNER", "PARPLAN_RUNTIME", "PARPLAN_TARGET",
                                      "PARPLAN_SPACE",   "PARPLAN_EXPORT"};
  char name[MAX_WORD_BYTES];
  for (size_t k = 0; k < sizeof names / sizeof names[0]; ++k) {
    snprintf(name, sizeof name, "SLURM_SPANK_%s", names[k]);
    spank_unsetenv(sp, name);
  }
  for (size_t k = 0; k < sizeof options / sizeof options[0]; ++k) {
    const int start =
        snprintf(name, sizeof name, "SLURM_SPANK__SLURM_SPANK_OPTION_parplan_%s", options[k].name);
    for (int i = 0; i < start; ++i) {
      if (name[i] == '-') name[i] = '_';
    }
    spank_unsetenv(sp, name);
    spank_unsetenv(sp, name + strlen("SLURM_SPANK_"));
  }
}

/* As the user, just before the task begins: its environment is complete then. */
int slurm_spank_task_init(spank_t sp, int argc, char** argv) {
  (void)argc;
  (void)argv;
  char folder[PATH_MAX];
  char path[PATH_MAX + 32];
  if (!job_folder(sp, folder, sizeof folder)) {
    slurm_error("parplan: plugstack.conf: node_dir=%s gives no path for this job", node_dir);
    return -1;
  }
  forget_wishes(sp);
  long node_devices = 0;
  long job_devices = 0;
  if (is_refused(folder)) return -1;
  if (strcmp(plan, "off") == 0) {
    /* The script that starts this step has the plan in its environment. */
    snprintf(path, sizeof path, "%s/node.env", folder);
    set_variables(sp, path, 1, &node_devices, &job_devices);
    snprintf(path, sizeof path, "%s/rank-0.env", folder);
    set_variables(sp, path, 1, &node_devices, &job_devices);
    return 0;
  }
  snprintf(path, sizeof path, "%s/node.env", folder);
  if (set_variables(sp, path, 0, &node_devices, &job_devices) != 0) {
    slurm_error("parplan: %s cannot be used", path);
    return -1;
  }
  if (job_devices == 0) return 0;
  /* Ranks are told who they are where each task is one. */
  uint32_t node_tasks = 0;
  uint32_t tasks = 0;
  int local_task = 0;
  if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &node_tasks) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_TASK_ID, &local_task) != ESPANK_SUCCESS || tasks != job_devices ||
      node_tasks != node_devices) {
    return 0;
  }
  snprintf(path, sizeof path, "%s/rank-%d.env", folder, local_task);
  if (set_variables(sp, path, 0, &node_devices, &job_devices) != 0) {
    slurm_error("parplan: %s cannot be used", path);
    return -1;
  }
  return 0;
}
