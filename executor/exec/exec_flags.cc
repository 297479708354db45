#include "executor/exec/exec_flags.h"

#include <CLI/CLI.hpp>

#include "base/service/shell/command_line.h"
#include "base/service/shell/completion/completion.h"
#include "base/service/shell/empty_text.h"
#include "base/service/shell/whole_number.h"
#include "proto/wire/version.h"

namespace parplan {

int ParseFlags(int argc, char** argv, ExecFlags& flags) {
  flags.server.target.clear();
  CLI::App app{"Verifies a plan and trains its model exactly as it says", "parplan-exec"};
  app.set_version_flag("--version", std::string("parplan-exec ") + kVersion);
  shell::AddCompletionOption(app);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 bad input, 5 plan refused, 6 back end not available, 75 "
      "ended because of another rank.\n"
      "Without --ranks the process is a rank started by torchrun, mpirun or srun (docs/ranks.md).\n"
      "Example:\n  parplan-exec --plan plan.dsse.json --trust trust-bundle.jwks.json \\\n"
      "    --model model.json --topology cluster.json --ranks 2 --steps 50");
  // Flags that default to the variables of a planned job (docs/launch.md).
  const auto planned = [&](const char* name, std::string& field, const char* what,
                           const char* variable) {
    return app.add_option(name, field, what)->envname(variable);
  };
  planned("--plan", flags.plan, "Signed plan (DSSE, JSON)", "PARPLAN_PLAN")->required();
  planned("--trust", flags.trust, "Trust bundle (JWKS)", "PARPLAN_TRUST")->required();
  planned("--model", flags.model, "Model file the plan was made for", "PARPLAN_MODEL")->required();
  planned("--topology", flags.topology, "Cluster file the plan was made for", "PARPLAN_TOPOLOGY")
      ->required();
  app.add_option("--ranks", flags.ranks, "Number of ranks to launch on this machine")
      ->check(CLI::Range(1, 4096));
  app.add_flag("--pin,!--no-pin", flags.pins,
               "Bind each launched rank to a core; never with GPUs [yes]");
  app.add_option("--backend", flags.backend, "Devices to train on, cpu or cuda [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--share-devices", flags.shares_devices,
               "Let ranks of a node share GPUs if it has fewer GPUs than ranks [no]");
  app.add_flag("--any-runtime", flags.takes_any_runtime,
               "Accept plans that were predicted for another runtime [no]");
  app.add_option("--steps", flags.steps, "Number of optimizer steps [10]")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--text", flags.text, "Train on the bytes of this file [synthetic tokens]");
  app.add_option("--learning-rate", flags.learning_rate,
                 "Learning rate of the model's optimizer [Adam 0.001, SGD 0.01]")
      ->check(shell::Positive(), "POSITIVE");
  app.add_option("--seed", flags.seed, "Seed of initial parameters and of tokens [1]")
      ->check(shell::CheckUnsigned);
  app.add_option("--log-every", flags.log_every, "Print the loss of every n-th step only [1]")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--window-steps", flags.window_steps, "Number of steps per measured window [10]")
      ->check(CLI::Range(1, 100000));
  app.add_option("--results", flags.results, "Write the measurements to this file, as JSON");
  auto* swap_to = app.add_option("--swap-to", flags.swap_to,
                                 "Signed plan to continue under, from step --swap-at on");
  auto* swap_at = app.add_option("--swap-at", flags.swap_at,
                                 "First step under the plan of --swap-to, counted from 0")
                      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  swap_to->needs(swap_at);
  swap_at->needs(swap_to);
  app.add_option("--shape-links", flags.shape_links,
                 "File that makes links slower (docs/executor.md)");
  planned("--job", flags.job_id, "Refuse plans for other jobs", "PARPLAN_JOB_ID");
  planned("--node", flags.node_name, "Refuse plans that do not use this node", "PARPLAN_NODE");
  app.add_option("--spool", flags.spool,
                 "Folder to leave times of collectives in, the agent's --spool-dir [none]")
      ->envname("PARPLAN_PASSIVE_SPOOL");
  app.add_option("--operation-timeout", flags.operation_timeout_seconds,
                 "Limit on a collective, in seconds [300]")
      ->check(shell::Positive(), "POSITIVE");
  app.add_option("--time-limit", flags.time_limit_seconds,
                 "Limit on the whole job, in seconds; with --ranks [none]")
      ->check(shell::Positive(), "POSITIVE");
  app.add_option("--grace", flags.grace_seconds,
                 "Seconds after which ranks are ended once one has failed [15]")
      ->check(shell::Positive(), "POSITIVE");
  auto* server =
      app.add_option("--server", flags.server.target, "Report to the server at HOST:PORT");
  app.add_option("--report-to", flags.server.target,
                 "Report to this pod's parplan-sidecar, at unix:PATH of its socket")
      ->excludes(server)
      ->check([](const std::string& address) {
        const bool is_socket = address.rfind("unix:", 0) == 0 && address.size() > 5;
        return is_socket ? std::string() : "`" + address + "` is not of the form unix:PATH";
      });
  app.add_option("--ca", flags.server.ca_file, "CAs to trust for the server (PEM); enables TLS");
  app.add_option("--cert", flags.server.certificate_file, "Certificate of this client (PEM)");
  app.add_option("--key", flags.server.key_file, "Private key of --cert (PEM)");
  app.add_flag("--tls", flags.server.use_tls, "Use TLS with the CAs of the system");
  app.add_option("--token-file", flags.server.token_file,
                 "Token of a Kubernetes service account; needs TLS or a Unix socket");
  try {
    app.parse(argc, argv);
    shell::RefuseEmptyTexts(app);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return -1;
}

}  // namespace parplan
