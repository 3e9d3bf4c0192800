local health = {status = "Progressing", message = "Waiting for Parkade"}
if obj.status == nil or obj.status.conditions == nil then return health end
if obj.status.observedGeneration ~= obj.metadata.generation then return health end
local by_type = {}
for _, condition in ipairs(obj.status.conditions) do by_type[condition.type] = condition end
local stalled, reconciling, ready = by_type["Stalled"], by_type["Reconciling"], by_type["Ready"]
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.message}
end
if reconciling ~= nil and reconciling.status == "True" then
  return {status = "Progressing", message = reconciling.message}
end
if ready ~= nil then
  if ready.status == "True" then return {status = "Healthy", message = ready.message} end
  health.message = ready.message
end
return health
