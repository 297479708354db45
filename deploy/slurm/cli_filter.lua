-- Runs in sbatch, salloc and srun, as the user, before a job is submitted: an adviser, not a
-- guard (users can go round it). For a job that is to be planned (--plan-model) it asks the
-- planner which numbers of devices fit. A number that cannot fit is rejected with the reason; a
-- job that names none gets the one recommended. Where the planner is away, nothing is changed:
-- the job is planned, or refused, when it has its nodes.
--
-- slurm.conf: CliFilterPlugins=lua; this file is cli_filter.lua beside it. docs/slurm.md.

-- What a site sets.
local planctl = os.getenv("PARPLAN_PLANCTL") or "/usr/bin/planctl"
local server = os.getenv("PARPLAN_SERVER") or "planner.example.org:9477"
-- The devices a job can ask for: one group of nodes, as many as the partition has.
local cluster = os.getenv("PARPLAN_CLUSTER_FILE") or "/etc/parplan/partition.cluster.json"
local devices_per_node = tonumber(os.getenv("PARPLAN_DEVICES_PER_NODE") or "8")
-- Asked with --gpus-per-node.
local gpu_type = os.getenv("PARPLAN_GPU_TYPE") or "h200"
local patience_seconds = tonumber(os.getenv("PARPLAN_PATIENCE_SECONDS") or "3")

local function quoted(text)
  return "'" .. string.gsub(text, "'", "'\\''") .. "'"
end

-- The rows of `planctl shape`: by number of devices, what it says of it; and the number
-- recommended. Nothing where there is no answer in time.
local function ask(model, batch)
  local command = string.format(
    "timeout %d %s --quiet shape --model %s --batch %s --cluster %s --server %s --timeout %d " ..
    "--allow-estimates 2>/dev/null",
    patience_seconds + 1, quoted(planctl), quoted(model), quoted(batch), quoted(cluster),
    quoted(server), patience_seconds)
  local pipe = io.popen(command)
  if pipe == nil then return nil end
  local rows, recommended, count = {}, nil, 0
  for line in pipe:lines() do
    local mark, devices, rest = string.match(line, "^([ *]) +(%d+) +(.+)$")
    if devices ~= nil then
      rows[tonumber(devices)] = rest
      count = count + 1
      if mark == "*" then recommended = tonumber(devices) end
    end
  end
  pipe:close()
  if count == 0 then return nil end
  return rows, recommended
end

-- Whether a row says that nothing fits: it begins with a word, not with a rate.
local function is_reason(row)
  return row ~= nil and string.match(row, "^[%d.]+ ") == nil
end

function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end

function slurm_cli_pre_submit(options, pack_offset)
  local mine = options["spank"] and options["spank"]["parplan"]
  if mine == nil then return slurm.SUCCESS end
  local model, batch, plan = mine["plan-model"], mine["plan-batch"], mine["plan"]
  if model == nil or batch == nil or plan == "off" then return slurm.SUCCESS end
  -- A step of a job has its devices.
  if os.getenv("SLURM_JOB_ID") ~= nil then return slurm.SUCCESS end
  local rows, recommended = ask(model, batch)
  if rows == nil then
    slurm.log_info("parplan: no advice on the number of nodes, the planner did not answer")
    return slurm.SUCCESS
  end
  local nodes = options["nodes"]
  local wanted = nil
  if nodes ~= nil then wanted = tonumber(string.match(nodes, "^%d+$")) end
  if recommended == nil and wanted == nil then
    slurm.log_error("parplan: nothing fits this model here: %s", rows[1] or "see planctl shape")
    return slurm.ERROR
  end
  if wanted ~= nil then
    local row = rows[wanted * devices_per_node]
    if is_reason(row) then
      slurm.log_error("parplan: %d nodes cannot train this: %s", wanted, row)
      return slurm.ERROR
    end
    return slurm.SUCCESS
  end
  local advised = math.ceil(recommended / devices_per_node)
  options["nodes"] = tostring(advised)
  options["gpus-per-node"] = gpu_type .. ":" .. tostring(math.min(recommended, devices_per_node))
  slurm.log_info("parplan: asking for %d nodes, %d devices", advised, recommended)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end

return slurm.SUCCESS
