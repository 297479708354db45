-- Runs in sbatch, salloc and srun, as the user, before a job is submitted. It advises and does not
-- enforce, since users can bypass it. For a job to be planned (--plan-model) it asks the planner which
-- device counts fit. A count that cannot fit is rejected with the reason; a job without a count gets
-- the recommended one. If the planner is unreachable, nothing is changed: the job is planned, or
-- refused, once it has its nodes.
--
-- slurm.conf: CliFilterPlugins=lua; this file is cli_filter.lua beside it. docs/slurm.md.

-- Settings of the site.
local planctl = os.getenv("PARPLAN_PLANCTL") or "/usr/bin/planctl"
local server = os.getenv("PARPLAN_SERVER") or "planner.example.org:9477"
-- If the planner uses TLS, the flags of planctl with files that users may read, such as
-- "--tls-ca /etc/parplan/tls/ca.pem". A server that requires client certificates gives no advice to
-- users without one.
local tls = os.getenv("PARPLAN_TLS_FLAGS") or ""
-- The devices that a job can request: one group of nodes, as many as the partition has.
local cluster = os.getenv("PARPLAN_CLUSTER_FILE") or "/etc/parplan/partition.cluster.json"
local devices_per_node = tonumber(os.getenv("PARPLAN_DEVICES_PER_NODE") or "8")
-- Requested with --gpus-per-node.
local gpu_type = os.getenv("PARPLAN_GPU_TYPE") or "h200"
local patience_seconds = tonumber(os.getenv("PARPLAN_PATIENCE_SECONDS") or "3")

local function quoted(text)
  return "'" .. string.gsub(text, "'", "'\\''") .. "'"
end

-- Returns the answer of `planctl shape`: for each device count true or the reason why it does not fit,
-- the recommended count, and the reason why nothing fits. Returns nil without an answer in time.
local function ask(model, batch, rules)
  local command = string.format(
    "timeout %d %s --quiet --format json shape --model %s --batch %s --cluster %s --server %s " ..
    "%s --timeout %d --allow-estimates %s 2>/dev/null",
    patience_seconds + 1, quoted(planctl), quoted(model), quoted(batch), quoted(cluster),
    quoted(server), tls, patience_seconds, rules)
  local pipe = io.popen(command)
  if pipe == nil then return nil end
  local text = pipe:read("*a")
  pipe:close()
  local list = string.match(text, '"options"%s*:%s*(%b[])')
  if list == nil then return nil end
  local fits, counts = {}, {}
  for option in string.gmatch(list, "%b{}") do
    local devices = tonumber(string.match(option, '"device_count"%s*:%s*(%d+)'))
    table.insert(counts, devices)
    fits[devices] = string.match(option, '"feasible"%s*:%s*true') ~= nil or
      string.match(option, '"infeasible_reason"%s*:%s*"([^"]*)') or "nothing fits"
  end
  local index = tonumber(string.match(text, '"recommended_option_index"%s*:%s*(%d+)'))
  local rest = string.gsub(text, '"options"%s*:%s*%b[]', "")
  return fits, index and counts[index + 1], string.match(rest, '"infeasible_reason"%s*:%s*"([^"]*)')
end

function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end

function slurm_cli_pre_submit(options, pack_offset)
  local mine = options["spank"] and options["spank"]["parplan"]
  if mine == nil then return slurm.SUCCESS end
  local model, batch, plan = mine["plan-model"], mine["plan-batch"], mine["plan"]
  if model == nil or batch == nil or plan == "off" then return slurm.SUCCESS end
  -- A step of a job already has its devices.
  if os.getenv("SLURM_JOB_ID") ~= nil then return slurm.SUCCESS end
  -- `h200:8`, `8` or nothing. There is no advice about devices other than this partition's.
  local gpus = options["gpus-per-node"] or ""
  local asked_type, asked_count = string.match(gpus, "^(%a[^:]*)"), string.match(gpus, "(%d+)$")
  if asked_type ~= nil and asked_type ~= gpu_type then return slurm.SUCCESS end
  local per_node = tonumber(asked_count) or devices_per_node
  -- A range is the user's choice. Slurm passes `1-0` for none.
  local most = string.match(options["nodes"] or "", "^%d+%-(%d+)$")
  if most ~= nil and tonumber(most) > 0 then return slurm.SUCCESS end
  -- A space that is smaller needs other numbers of devices.
  local rules = {}
  for _, name in ipairs({ "runtime", "target", "space" }) do
    local value = mine["plan-" .. name]
    if value ~= nil then table.insert(rules, "--" .. name .. " " .. quoted(value)) end
  end
  local fits, recommended, why = ask(model, batch, table.concat(rules, " "))
  if fits == nil then
    slurm.log_info("parplan: no advice on the number of nodes, the planner did not answer")
    return slurm.SUCCESS
  end
  local nodes = tonumber(string.match(options["nodes"] or "", "^%d+$"))
  if nodes ~= nil then
    local answer = fits[nodes * per_node]
    if answer == nil or answer == true then return slurm.SUCCESS end
    slurm.log_error("parplan: %d nodes with %d devices cannot train this: %s", nodes, per_node, answer)
    return slurm.ERROR
  end
  if recommended == nil then
    slurm.log_error("parplan: nothing fits this model here: %s", why or "see planctl shape")
    return slurm.ERROR
  end
  if asked_count == nil then
    per_node = math.min(recommended, devices_per_node)
    options["gpus-per-node"] = gpu_type .. ":" .. per_node
  end
  local advised = math.ceil(recommended / per_node)
  options["nodes"] = string.format("%d", advised)
  slurm.log_info("parplan: asking for %d nodes with %d devices each", advised, per_node)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end

return slurm.SUCCESS
