-- Runs in slurmctld, under its locks, for each submitted job. It checks only what the job states and
-- makes no calls: a call to the planner would block all of Slurm.
--
-- slurm.conf: JobSubmitPlugins=lua; this file is job_submit.lua beside it. docs/slurm.md.

-- Devices known to the planner, as in `devices` of parplan-slurm.json.
local planned = { "gpu", "core" }

local function asks_for_devices(job_desc)
  for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket" }) do
    local tres = job_desc[field]
    for _, name in ipairs(planned) do
      if tres ~= nil and string.find(tres, name, 1, true) ~= nil then return true end
    end
  end
  return false
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  -- Texts `NAME=VALUE`, from 0 on.
  local plan = nil
  for _, text in pairs(job_desc.spank_job_env or {}) do
    plan = string.match(text, "^PARPLAN_PLAN=(.*)$") or plan
  end
  if plan == nil or plan == "off" then return slurm.SUCCESS end
  if not asks_for_devices(job_desc) then
    slurm.log_user("parplan: a job that is to be planned asks for devices, with --gpus-per-node or --gres")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end

return slurm.SUCCESS
