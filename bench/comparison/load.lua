-- What wrk sends, the same to every proxy: absolute-form requests that state a budget.
-- Arguments: authority of the upstream, method, path, name of this run, most requests, bytes of each body, keep or close.

local sent, most = 0, 0
local fixed, head, run, size

-- No two bodies are the same: those would be one write, asked for twice.
local function body()
  local text = string.format('{"run":"%s","order":%d,"note":"', run, sent)
  return text .. string.rep("x", size - #text - 2) .. '"}'
end

function init(args)
  local authority, method, path = args[1], args[2], args[3]
  run, most, size = args[4], tonumber(args[5]), tonumber(args[6])
  local target = "http://" .. authority .. path
  local headers = { ["Host"] = authority, ["Budget-Remaining-Ms"] = "30000" }
  if args[7] == "close" then headers["Connection"] = "close" end
  if size == 0 then
    fixed = wrk.format(method, target, headers)
  else
    headers["Content-Type"] = "application/json"
    head = wrk.format(method, target, headers, string.rep("x", size)):sub(1, -1 - size)
  end
end

function request()
  sent = sent + 1
  if sent > most then wrk.thread:stop() end
  return fixed or (head .. body())
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"p999_us":%d,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
