-- Asks the wake agent in the same pod whether the engine of a request is ready. The agent may delay its response: it
-- holds the request until the engine accepts queries.
--
-- A request for a running engine must never be blocked. Unless the agent refuses it, the request continues as without
-- an agent, also if this script fails, because the request already has its address.

local FRAMING_HEADER = "x-firebolt-transfer-encoding"
local METADATA = "firebolt.gateway"

-- How long a worker thread caches that an engine is ready, so that a busy engine costs one call per second.
local READY_FOR_MS = 1000
-- More engines than an instance has. If there are more, the cache is cleared.
local MOST_REMEMBERED = 1024

-- When the agent was asked about the engines that it reported as ready. Each thread has its own table.
local ready_at = {}
local remembered = 0

-- An entry from the future, after the clock was set back, is not used.
local function is_remembered(engine, now)
  local at = ready_at[engine]
  return at ~= nil and at <= now and now - at < READY_FOR_MS
end

local function remember(engine, now)
  if not ready_at[engine] then
    if remembered >= MOST_REMEMBERED then
      ready_at = {}
      remembered = 0
    end
    remembered = remembered + 1
  end
  ready_at[engine] = now
end

-- How much of the request Envoy may have to buffer while it waits, or nil if it is not known yet.
local function size(request, headers)
  local length = headers:get("content-length")
  if length then
    return length
  end
  local is_http1 = string.sub(request:streamInfo():protocol() or "", 1, 7) == "HTTP/1."
  if is_http1 and not headers:get(FRAMING_HEADER) then
    return "0"
  end
  return nil
end

-- The agent receives nothing else of the client's request.
local function ask(request, headers, engine)
  local context = request:filterContext()
  return request:httpCall(context:get("agent"), {
    [":method"] = "GET",
    [":path"] = "/hold",
    [":authority"] = "wake-agent",
    ["x-firebolt-engine"] = engine,
    ["x-firebolt-bytes"] = size(request, headers),
  }, nil, {
    ["timeout_ms"] = context:get("answer_timeout_ms"),
    ["send_xff"] = false,
  })
end

-- The headers of the agent's error response to the client, or nil if it is not an error. The route adds how long the
-- request waited.
local function refusal(answer, body)
  local status = tonumber(answer[":status"])
  if not body or not status or status < 400 or status > 599 then
    return nil
  end
  return {
    [":status"] = answer[":status"],
    ["content-type"] = answer["content-type"],
    ["retry-after"] = answer["retry-after"],
  }
end

-- Returns when the request may continue. For a request that is refused, it does not return.
local function wake(request, headers, engine)
  local now = request:timestamp()
  if is_remembered(engine, now) then
    request:streamInfo():dynamicMetadata():set(METADATA, "wake", "ready")
    return
  end
  local answer, body = ask(request, headers, engine)
  local metadata = request:streamInfo():dynamicMetadata()
  local decision = answer["x-firebolt-wake"]
  local refused = decision == "refused" and refusal(answer, body)
  if not decision or refused == nil then
    metadata:set(METADATA, "wake", "unanswered")
    return
  end
  metadata:set(METADATA, "wake", decision)
  if answer["server-timing"] then
    metadata:set(METADATA, "server_timing", answer["server-timing"])
  end
  if decision == "ready" then
    remember(engine, now)
  end
  if refused then
    metadata:set(METADATA, "refused", decision)
    request:respond(refused, body)
  end
end
